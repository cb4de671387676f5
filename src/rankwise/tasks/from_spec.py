"""From specs to tasks: each spec names its builder, data that a path names is read here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rankwise.errors import RankwiseError
from rankwise.spec import NeighborSpec, TaskSpec
from rankwise.tasks.neighbors import BiasedNearestNeighbor, FarthestNeighbor, NearestNeighbor, NeighborTask
from rankwise.tasks.points import Orthogonal, PointLaw, PowerLaw, Rows, Uniform
from rankwise.tasks.task import Task
from rankwise.tasks.vector_file import load_vectors


def build_task(spec: TaskSpec) -> Task[Any]:
    """The task that ``spec`` describes; a file that is missing or another one is refused now."""
    module, _, name = spec.builder.partition(":")
    task: Task[Any] = getattr(import_module(module), name)(spec)
    return task


def levels_of(spec: TaskSpec, examples: int = 4096) -> dict[str, float]:
    """The errors of predictors without attention; empty where there are none, or the data lies elsewhere."""
    try:
        return build_task(spec).levels(examples)
    except RankwiseError:
        return {}


def build_neighbors(spec: NeighborSpec) -> NeighborTask:
    """The neighbour search that ``spec`` describes."""
    if spec.name == "biased":
        return BiasedNearestNeighbor(spec.dim, spec.biases, spec.coefficients)
    law = _law_of(spec)
    if spec.name == "farthest":
        return FarthestNeighbor(spec.dim, spec.points, distribution=law, rotation=spec.rotation)
    return NearestNeighbor(spec.dim, spec.points, distribution=law, queries=spec.queries or 1)


def _law_of(spec: NeighborSpec) -> PointLaw:
    """The law that the points of ``spec`` are drawn from; a file of vectors is read here."""
    if spec.vectors_from is not None:
        return Rows(load_vectors(spec.vectors_from))
    laws: dict[str, PointLaw] = {"uniform": Uniform(), "orthogonal": Orthogonal(), "power_law": PowerLaw(spec.alpha)}
    return laws[spec.distribution]
