"""From specs to things: the task and the model that a run names."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rankwise.nn.generalized import AdditiveScore, GeneralizedHeads
from rankwise.nn.tokens import TokenModel
from rankwise.nn.transformer import Transformer
from rankwise.spec import (
    AnyTaskSpec,
    ImagesSpec,
    InContextSpec,
    MatchSpec,
    ModelSpec,
    RunSpec,
    TaskSpec,
    TextSpec,
    TokenInterface,
    derived_seed,
)
from rankwise.tasks import (
    BiasedNearestNeighbor,
    FarthestNeighbor,
    ImagePatches,
    InContext,
    Match,
    NearestNeighbor,
    NeighborTask,
    Orthogonal,
    PointLaw,
    PowerLaw,
    Rows,
    Task,
    Text,
    Uniform,
)
from rankwise.tasks.vector_file import load_vectors

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


def build_task(spec: AnyTaskSpec) -> Task[Any]:
    """The task that ``spec`` describes; data that a path names is read now, and refused now."""
    if isinstance(spec, TaskSpec):
        return build_neighbors(spec)
    if isinstance(spec, InContextSpec):
        return InContext(spec)
    if isinstance(spec, MatchSpec):
        return Match(spec)
    if isinstance(spec, TextSpec):
        return Text(spec)
    assert isinstance(spec, ImagesSpec)
    return ImagePatches(spec)


def build_neighbors(spec: TaskSpec) -> NeighborTask:
    """The neighbour task that ``spec`` describes."""
    if spec.name == "biased":
        return BiasedNearestNeighbor(spec.dim, spec.biases, spec.coefficients)
    law = law_of(spec)
    if spec.name == "farthest":
        return FarthestNeighbor(spec.dim, spec.points, distribution=law)
    return NearestNeighbor(spec.dim, spec.points, distribution=law, queries=spec.queries or 1)


def law_of(spec: TaskSpec) -> PointLaw:
    """The law that the points of ``spec`` are drawn from; a file of vectors is read here."""
    if spec.vectors_from is not None:
        return Rows(load_vectors(spec.vectors_from))
    laws: dict[str, PointLaw] = {"uniform": Uniform(), "orthogonal": Orthogonal(), "power_law": PowerLaw(spec.alpha)}
    return laws[spec.distribution]


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
