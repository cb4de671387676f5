"""The device a run computes on: the one file that knows devices apart.

Data, initial weights and seeds are drawn on the CPU and moved, and checkpoints hold CPU tensors, so that a run started
on one device continues on another. Its numbers are equal to the bit only on the device it was trained on throughout:
other devices sum in another order.

Untested on CUDA: the project has had no such hardware. What is tested is that nothing in a training step stays behind
on the CPU (on PyTorch's meta device, which refuses to mix), and that checkpoints do not say where they come from.
"""

from __future__ import annotations

import torch

from rankwise.errors import InvalidInputError


def pick_device(name: str) -> torch.device:
    """``cpu``, ``cuda`` (an error where there is none), or ``auto``: CUDA where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InvalidInputError(
            f"device: expected a CUDA device that torch {torch.__version__} can use, got none; "
            f"use cpu or auto, or on Ray reserve one with --gpus 1"
        )
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """What to record beside a result: ``cpu``, or CUDA with the name of the hardware."""
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type
