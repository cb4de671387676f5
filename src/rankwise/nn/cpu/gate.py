"""When a kernel whose gradient is written by hand may take the place of the plain formula."""

from __future__ import annotations

import torch
from torch import Tensor


def hand_gradients_apply(x: Tensor) -> bool:
    """In ordinary training on a CPU; compilers and the transforms of torch.func cannot see through such a gradient."""
    transformed = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return torch.is_grad_enabled() and x.device.type == "cpu" and not transformed
