"""Neighbour search on the sphere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, Literal

from rankwise.errors import InvalidInputError, require_int
from rankwise.spec.fields import settle
from rankwise.spec.task import TaskSpec, register_task
from rankwise.spec.vectors import VectorFile

if TYPE_CHECKING:
    from rankwise.spec.model import ModelSpec


@register_task
@dataclass(frozen=True, kw_only=True)
class NeighborSpec(TaskSpec):
    """A neighbour-search task: vectors on the unit sphere, and a target for each query."""

    builder: ClassVar[str] = "rankwise.tasks.from_spec:build_neighbors"
    unit: ClassVar[str] = "squared error per query"
    performance: ClassVar[str] = "squared error per query"

    name: Literal["nearest", "farthest", "biased"]
    """The target:

    - ``nearest``: the point with the largest inner product with the query;
    - ``farthest``: for every point, the point with the smallest inner product with it;
    - ``biased``: ``sum_k coefficients[k] * f_k`` on an orthogonal pair, where ``f_k`` is the first point if
      ``<x_1 - x_2, y> + biases[k] > 0`` and the second otherwise, for the query ``y ~ N(0, I/dim)``."""
    dim: int
    """Dimension of the points."""
    points: int
    """Points of a sequence."""
    distribution: Literal["uniform", "orthogonal", "power_law", "rows"] = "uniform"
    """Of the points:

    - ``uniform`` on the sphere;
    - ``orthogonal``: a random orthonormal set, ``points <= dim``;
    - ``power_law``: the i-th principal axis has variance proportional to ``i**-alpha``;
    - ``rows``: distinct rows of the file ``vectors_from``, scaled to unit length."""
    queries: int | None = None
    """Queries per example, apart from the points (default: 1); None for ``farthest``, where every point is a query."""
    alpha: float = 0.0
    """Positive for ``power_law``, else 0."""
    biases: tuple[float, ...] = ()
    """Of ``biased`` only."""
    coefficients: tuple[float, ...] = ()
    """The weight of each bias."""
    vectors_from: VectorFile | None = None
    """Set exactly for ``rows``."""
    rotation: int | None = None
    """Of ``farthest`` only: the seed of a fixed random rotation T, where the point with the smallest ``<x_j, T x_i>``
    is asked for (default: T = I)."""

    def __post_init__(self) -> None:
        settle(self)
        require_int("dim", self.dim, minimum=1)
        require_int("points", self.points, minimum=2)
        self._check_queries()
        self._check_distribution()
        self._check_biases()
        self._check_rotation()

    def _check_queries(self) -> None:
        if self.name == "farthest":
            if self.queries is not None:
                raise InvalidInputError(
                    f"queries: expected none for 'farthest' (every point is a query), got {self.queries}"
                )
        elif self.queries is None:
            object.__setattr__(self, "queries", 1)
        else:
            require_int("queries", self.queries, minimum=1)

    def _check_distribution(self) -> None:
        if (self.distribution == "power_law") != (self.alpha > 0) or self.alpha < 0:
            raise InvalidInputError(
                f"alpha: expected a positive number exactly when distribution = 'power_law', "
                f"got distribution = {self.distribution!r} with alpha = {self.alpha:g}"
            )
        if (self.distribution == "rows") != (self.vectors_from is not None):
            raise InvalidInputError(
                f"vectors_from: expected a file exactly when distribution = 'rows', got distribution = "
                f"{self.distribution!r} {'without one' if self.vectors_from is None else 'with one'}"
            )
        if self.distribution == "orthogonal":
            if self.points > self.dim:
                raise InvalidInputError(
                    f"points: expected at most dim = {self.dim} orthogonal points, got {self.points}"
                )
            if self.name == "farthest":
                raise InvalidInputError(
                    "distribution: expected 'uniform' or 'power_law' for 'farthest', got 'orthogonal' "
                    "(orthogonal points are all equally far from each other)"
                )

    def _check_biases(self) -> None:
        if self.name != "biased":
            for name in ("biases", "coefficients"):
                if getattr(self, name):
                    raise InvalidInputError(f"{name}: expected none for {self.name!r}, got {len(getattr(self, name))}")
            return
        if self.points != 2 or self.queries != 1:
            raise InvalidInputError(
                f"points: expected 2 with one query for 'biased', got {self.points} with {self.queries}"
            )
        if self.distribution != "orthogonal":
            raise InvalidInputError(f"distribution: expected 'orthogonal' for 'biased', got {self.distribution!r}")
        if not self.biases or len(self.coefficients) != len(self.biases):
            raise InvalidInputError(
                f"coefficients: expected one for each bias, at least one, "
                f"got {len(self.coefficients)} for {len(self.biases)} biases"
            )

    def _check_rotation(self) -> None:
        if self.rotation is None:
            return
        require_int("rotation", self.rotation, minimum=0)
        if self.name != "farthest":
            raise InvalidInputError(f"rotation: expected none for {self.name!r}, got {self.rotation}")

    @property
    def asked(self) -> int:
        """Q, how many queries an example has; those of "farthest" are its points."""
        return self.points if self.queries is None else self.queries

    @property
    def vectors(self) -> int:
        """The number of vectors in an example: the points and the queries that are not points."""
        return self.points + (self.queries or 0)

    @property
    def tokens(self) -> int:
        """N, the vectors that keys and values are read from."""
        return self.points

    @property
    def interface(self) -> None:
        """None: the stack reads and answers the vectors themselves."""
        return None

    @property
    def title(self) -> str:
        """Farthest of 8 points in 16 dimensions."""
        asked = f", {self.queries} queries" if self.queries not in (None, 1) else ""
        asked += "" if self.rotation is None else ", rotated"
        return f"{self.name.capitalize()} of {self.points} {self._kind()} in {self.dim} dimensions{asked}"

    def _kind(self) -> str:
        """The points by the law they are drawn from."""
        if self.vectors_from is not None:
            tensor = f" ({self.vectors_from.tensor})" if self.vectors_from.tensor is not None else ""
            return f"points of {PurePath(self.vectors_from.path).name}{tensor}"
        if self.distribution == "power_law":
            return f"power-law points (exponent {self.alpha:g})"
        return "orthogonal points" if self.distribution == "orthogonal" else "points"

    @property
    def reads_files(self) -> bool:
        """Whether its points are rows of a file."""
        return self.vectors_from is not None

    def check_model(self, model: ModelSpec) -> None:
        """Refuse a model of another dimension, and latent attention where queries are not points."""
        if model.dim != self.dim:
            raise InvalidInputError(f"model.dim: expected task.dim = {self.dim}, got {model.dim}")
        if model.kv_lora_rank is not None and self.queries is not None:
            raise InvalidInputError(
                f"model.kv_lora_rank: expected none for {self.name!r}, whose queries are not points; "
                f"latent attention attends to its own tokens"
            )
