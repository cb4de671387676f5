"""Linear modules of any storage, read the same way, and replaced by path.

Legend: m outputs, D inputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn


def weight_of(module: nn.Module) -> Float[Tensor, "m D"]:
    """The weight as outputs x inputs; GPT-2's ``Conv1D`` stores it the other way round."""
    weight: Tensor = module.weight  # type: ignore[assignment]
    return weight.detach().mT if type(module).__name__ == "Conv1D" else weight.detach()


def bias_of(module: nn.Module) -> Float[Tensor, " m"]:
    """The bias, zeros where there is none."""
    bias: Tensor | None = getattr(module, "bias", None)
    return torch.zeros(len(weight_of(module))) if bias is None else bias.detach()


def replaced(model: nn.Module, modules: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Put ``modules`` at their paths; returns what was there, to be put back the same way."""
    before = {}
    for path, module in modules.items():
        before[path] = model.get_submodule(path)
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, module)
    return before
