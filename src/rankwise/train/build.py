"""From specs to modules: the model that a run names."""

from __future__ import annotations

import torch
from torch import nn

from rankwise.nn import AdditiveScore, GeneralizedHeads, TokenModel, Transformer
from rankwise.spec import ModelSpec, RunSpec, TokenInterface, derived_seed

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


def build_model(run: RunSpec, device: torch.device | str = "cpu") -> nn.Module:
    """The untrained model of ``run``: its weights are a function of the run's id, on any device.

    PyTorch initialises from its global generator, which is therefore seeded here and put back as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derived_seed(run.id, "init"))
        return module_of(run.model, DTYPES[run.dtype], run.task.interface).to(device)


def module_of(
    spec: ModelSpec, dtype: torch.dtype = torch.float32, interface: TokenInterface | None = None
) -> nn.Module:
    """The module that ``spec`` describes (between the ends that ``interface`` names), initialised from PyTorch's global
    generator."""
    if interface is not None:
        return TokenModel(interface, spec, dtype=dtype)
    if spec.generalized is None:
        return Transformer(spec, dtype=dtype)
    score = AdditiveScore(spec.dim, spec.rank, spec.heads, spec.generalized, pooled=True, dtype=dtype)
    return GeneralizedHeads(spec.dim, spec.rank, spec.heads, score, check_simplex=False, dtype=dtype)
