"""Nearest and farthest neighbours: what one full-rank attention head computes exactly and low-rank heads cannot.

B examples, N points, Q queries, D dim, K biases. Targets are those of Amsel, Yehudai and Bruna (2024). They commute
with rotations: ``target(X R, Y R) = target(X, Y) R``. Nearest and farthest also commute with permutations of the
points; the biased target does so only together with a change of sign of its biases.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from numbers import Real
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankwise.errors import InvalidInputError, ShapeError, require_int
from rankwise.tasks.baselines import Baselines, estimate_baselines
from rankwise.tasks.batch import Batch, squared_error
from rankwise.tasks.points import Orthogonal, PointLaw, named_law, orthonormal_frames


class NeighborTask(ABC):
    """A choice among points for every query; the two questions of a task are which point, and which vector."""

    dim: int
    points: int
    _self_attention: ClassVar[bool] = False

    def sample(
        self,
        batch: int,
        generator: torch.Generator,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Batch:
        """``batch`` fresh examples, all randomness from ``generator``, drawn on its device, then sent to ``device``."""
        require_int("batch", batch, minimum=1)
        if not isinstance(generator, torch.Generator):
            raise InvalidInputError(
                f"generator: expected a torch.Generator, for example torch.Generator().manual_seed(0), "
                f"got {type(generator).__name__}"
            )
        if dtype not in (torch.float32, torch.float64):
            raise InvalidInputError(
                f"dtype: expected torch.float32 or torch.float64, got {dtype}; Batch.to(dtype=...) rounds further"
            )
        points, queries = self._draw(batch, generator, dtype)
        drawn = Batch(points, queries, self._target(points, points if queries is None else queries))
        return drawn if device is None else drawn.to(device=device)

    def winners(
        self, points: Float[Tensor, "*points"], queries: Float[Tensor, "*queries"] | None = None
    ) -> Int[Tensor, "B Q *K"]:
        """Index of the point that each query should find; ties go to the lowest index."""
        return self._winners(*self._checked(points, queries))

    def target(
        self, points: Float[Tensor, "*points"], queries: Float[Tensor, "*queries"] | None = None
    ) -> Float[Tensor, "B Q D"]:
        """The right answer for given inputs, a pure function. Without queries a self-attention task asks its points."""
        return self._target(*self._checked(points, queries))

    def error(self, prediction: Float[Tensor, "*shape"], batch: Batch) -> Float[Tensor, " B"]:
        """Squared error per query of each example (see ``squared_error``)."""
        return squared_error(prediction, batch.targets)

    def training_batch(self, size: int, generator: torch.Generator, *, step: int, dtype: torch.dtype) -> Batch:
        """Fresh examples, the same law at every step."""
        return self.sample(size, generator, dtype=dtype)

    def held_out(self, batches: int, size: int, generator: torch.Generator, *, dtype: torch.dtype) -> list[Batch]:
        """Fresh examples from their own generator."""
        return [self.sample(size, generator, dtype=dtype) for _ in range(batches)]

    def loss(self, prediction: Float[Tensor, "*shape"], batch: Batch) -> Float[Tensor, " B"]:
        """The error itself."""
        return self.error(prediction, batch)

    def details(self, prediction: Float[Tensor, "*shape"], batch: Batch) -> dict[str, Float[Tensor, "B ..."]]:
        """None."""
        return {}

    def levels(self, examples: int) -> dict[str, float]:
        """Predicting 0, the mean of the points, or the best linear map of the inputs (estimated)."""
        found = self.baselines(torch.Generator().manual_seed(0), examples)
        return {"zero": found.zero.mean, "mean of points": found.mean.mean, "best linear": found.linear.mean}

    def baselines(self, generator: torch.Generator, samples: int = 4096) -> Baselines:
        """Errors of zero, mean of points and best linear predictor on ``samples`` examples."""
        return estimate_baselines(self, generator, samples)

    @property
    @abstractmethod
    def isotropic(self) -> bool:
        """Whether rotating an example changes neither its law nor its answer, but for the rotation."""

    @property
    @abstractmethod
    def query_count(self) -> int:
        """Q, the number of queries of an example."""

    @property
    def numbers_per_example(self) -> int:
        """Size of the largest tensor made for one example: the vectors or the scores."""
        return (self.points + self.query_count) * self.dim + self.points * self.query_count

    @abstractmethod
    def features(self, batch: Batch) -> Float[Tensor, "F B Q D"]:
        """The vectors an equivariant linear predictor combines."""

    def mean_prediction(self, batch: Batch) -> Float[Tensor, "B Q D"]:
        """The mean of the points, the same for every query."""
        return batch.points.mean(dim=1, keepdim=True).expand_as(batch.targets)

    @abstractmethod
    def _draw(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"] | None]: ...

    @abstractmethod
    def _winners(self, points: Float[Tensor, "B N D"], queries: Float[Tensor, "B Q D"]) -> Int[Tensor, "B Q *K"]: ...

    def _target(self, points: Float[Tensor, "B N D"], queries: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        return _pick(points, self._winners(points, queries))

    def _checked(self, points: Tensor, queries: Tensor | None) -> tuple[Tensor, Tensor]:
        """Points and queries whose shapes fit each other and the task; N may differ from the task's."""
        if points.ndim != 3 or points.shape[-1] != self.dim or points.shape[1] == 0:
            raise ShapeError(f"points: expected [B, N, D] with N > 0 and D = {self.dim}, got {list(points.shape)}")
        if queries is None:
            if not self._self_attention:
                raise InvalidInputError(f"queries: expected [B, Q, D] with D = {self.dim}, got None")
            queries = points
        if queries.ndim != 3 or queries.shape[0] != points.shape[0] or queries.shape[-1] != self.dim:
            raise ShapeError(
                f"queries: expected [B, Q, D] with B = {points.shape[0]} and D = {self.dim}, got {list(queries.shape)}"
            )
        if not (points.isfinite().all() and queries.isfinite().all()):
            raise InvalidInputError("points, queries: expected finite numbers, got NaN or infinity")
        return points, queries


@dataclass(frozen=True)
class NearestNeighbor(NeighborTask):
    """``y -> x_j`` with the largest ``<x_j, y>``: cross-attention from ``queries`` queries to ``points`` points.

    ``distribution`` is "uniform" (everything i.i.d. on the sphere), "orthogonal" (Haar orthonormal points, uniform
    queries) or a law: ``PowerLaw(alpha)``, ``Gaussian(covariance)``, ``Rows(vectors)``.
    """

    dim: int
    points: int
    _: KW_ONLY
    distribution: Literal["uniform", "orthogonal"] | PointLaw = "uniform"
    queries: int = 1

    def __post_init__(self) -> None:
        for name in ("dim", "points", "queries"):
            require_int(name, getattr(self, name), minimum=1)
        self.law.check(dim=self.dim, points=self.points, queries=self.queries)

    @property
    def law(self) -> PointLaw:
        """The law of points and queries."""
        return named_law(self.distribution)

    @property
    def isotropic(self) -> bool:
        return self.law.isotropic

    @property
    def query_count(self) -> int:
        return self.queries

    def features(self, batch: Batch) -> Float[Tensor, "F B Q D"]:
        """The query and the mean of the points: the predictor is ``a y + b mean(x)``."""
        assert batch.queries is not None
        return torch.stack((batch.queries, self.mean_prediction(batch)))

    def _draw(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"] | None]:
        return self.law.draw(batch, self.points, self.queries, self.dim, generator, dtype)

    def _winners(self, points: Float[Tensor, "B N D"], queries: Float[Tensor, "B Q D"]) -> Int[Tensor, "B Q"]:
        return (queries @ points.mT).argmax(dim=-1)


@dataclass(frozen=True)
class FarthestNeighbor(NeighborTask):
    """``x_i -> x_j`` with the smallest ``<x_j, x_i>``: self-attention, every point is a query (the paper's Figure 1).

    The point itself is a candidate, as it is for an attention head without a mask; on the sphere its score 1 is the
    largest, so it never wins (unless all points coincide, when the answer is the same vector).

    - ``rotation``: the seed of a fixed Haar-random T; the answer is then x_j with the smallest ``<x_j, T x_i>``.
    """

    dim: int
    points: int
    _: KW_ONLY
    distribution: Literal["uniform", "orthogonal"] | PointLaw = "uniform"
    rotation: int | None = None
    _self_attention: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_int("dim", self.dim, minimum=1)
        require_int("points", self.points, minimum=2)
        if isinstance(self.law, Orthogonal) and self.points > 2:
            raise InvalidInputError(
                f"distribution: expected a law with a farthest point, got 'orthogonal' with {self.points} points, "
                f"which are all equally far from each other; use distribution='uniform'"
            )
        self.law.check(dim=self.dim, points=self.points, queries=0)

    @property
    def law(self) -> PointLaw:
        """The law of the points."""
        return named_law(self.distribution)

    @property
    def isotropic(self) -> bool:
        return self.law.isotropic and self.rotation is None

    @cached_property
    def turn(self) -> Float[Tensor, "D D"]:
        """T."""
        if self.rotation is None:
            return torch.eye(self.dim, dtype=torch.float64)
        generator = torch.Generator().manual_seed(self.rotation)
        return orthonormal_frames(1, self.dim, self.dim, generator, torch.float64)[0]

    @property
    def query_count(self) -> int:
        return self.points

    def features(self, batch: Batch) -> Float[Tensor, "F B Q D"]:
        """The point and the mean of the points: the predictor is ``a x_i + b mean(x)``."""
        return torch.stack((batch.points, self.mean_prediction(batch)))

    def _draw(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"] | None]:
        points, _ = self.law.draw(batch, self.points, 0, self.dim, generator, dtype)
        return points, None

    def _winners(self, points: Float[Tensor, "B N D"], queries: Float[Tensor, "B Q D"]) -> Int[Tensor, "B Q"]:
        if self.rotation is not None:
            queries = queries @ self.turn.to(queries).mT
        return (queries @ points.mT).argmin(dim=-1)


@dataclass(frozen=True)
class BiasedNearestNeighbor(NeighborTask):
    """``y -> sum_k c_k (x_1 if <x_1 - x_2, y> + b_k > 0 else x_2)``, the target of the paper's biased theorem.

    Two Haar orthonormal points and one query ``y ~ N(0, I/D)``. The theorem: for a suitable sum of
    ``2 D^2 + 1`` terms, low-rank heads need exponential number or size where O(D^2) full-rank heads suffice. Biases and
    coefficients are arguments here, and no constant is claimed.
    """

    dim: int
    biases: tuple[float, ...]
    coefficients: tuple[float, ...]
    points: int = field(default=2, init=False, repr=False)

    def __post_init__(self) -> None:
        require_int("dim", self.dim, minimum=2)
        object.__setattr__(self, "biases", _finite_numbers("biases", self.biases))
        object.__setattr__(self, "coefficients", _finite_numbers("coefficients", self.coefficients))
        if len(self.coefficients) != len(self.biases):
            raise InvalidInputError(
                f"coefficients: expected one for each of the {len(self.biases)} biases, got {len(self.coefficients)}"
            )

    @property
    def isotropic(self) -> bool:
        return True

    @property
    def query_count(self) -> int:
        return 1

    def features(self, batch: Batch) -> Float[Tensor, "F B Q D"]:
        """Query and both points, which the biases tell apart: the predictor is ``a y + b_1 x_1 + b_2 x_2``."""
        assert batch.queries is not None
        return torch.stack((batch.queries, batch.points[:, :1], batch.points[:, 1:]))

    def mean_prediction(self, batch: Batch) -> Float[Tensor, "B Q D"]:
        """The mean of the two points for every term: ``sum_k c_k (x_1 + x_2) / 2``."""
        return sum(self.coefficients) * super().mean_prediction(batch)

    @cached_property
    def _steps(self) -> tuple[Float[Tensor, " K"], Float[Tensor, " K1"]]:
        """Biases in order, and for each count of smallest ones the sum of the other coefficients."""
        biases, order = torch.tensor(self.biases, dtype=torch.float64).sort()
        coefficients = torch.tensor(self.coefficients, dtype=torch.float64)[order]
        from_here = coefficients.flip(0).cumsum(0).flip(0)
        return biases, torch.cat((from_here, from_here.new_zeros(1)))

    def _draw(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"] | None]:
        points, _ = Orthogonal().draw(batch, 2, 0, self.dim, generator, dtype)
        queries = torch.randn(batch, 1, self.dim, generator=generator, device=generator.device, dtype=dtype)
        return points, queries / math.sqrt(self.dim)

    def _checked(self, points: Tensor, queries: Tensor | None) -> tuple[Tensor, Tensor]:
        points, queries = super()._checked(points, queries)
        if points.shape[1] != 2:
            raise ShapeError(f"points: expected [B, 2, D], got {list(points.shape)}")
        return points, queries

    def _margin(self, points: Float[Tensor, "B 2 D"], queries: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q"]:
        first, second = (queries @ points.mT).unbind(dim=-1)
        return first - second

    def _winners(self, points: Float[Tensor, "B N D"], queries: Float[Tensor, "B Q D"]) -> Int[Tensor, "B Q K"]:
        """For every bias 0 (x_1) or 1 (x_2)."""
        margin = self._margin(points, queries).double()
        biases = torch.tensor(self.biases, dtype=torch.float64, device=margin.device)
        return (margin[..., None] + biases <= 0).long()

    def _target(self, points: Float[Tensor, "B N D"], queries: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        # A step function of the margin: bisection finds the step whatever the number of biases.
        biases, weights = (steps.to(points.device) for steps in self._steps)
        margin = self._margin(points, queries).double()
        first = weights[torch.searchsorted(biases, -margin, right=True)]
        both = torch.stack((first, weights[0] - first), dim=-1).to(points.dtype)
        return both @ points


def _pick(points: Float[Tensor, "B N D"], winners: Int[Tensor, "B Q"]) -> Float[Tensor, "B Q D"]:
    """``points[b, winners[b, q]]``; over flat rows it is several times faster than gather."""
    B, N, D = points.shape
    first_row = N * torch.arange(B, device=points.device)[:, None]
    return points.reshape(B * N, D).index_select(0, (winners + first_row).flatten()).view(*winners.shape, D)


def _finite_numbers(name: str, values: Iterable[float]) -> tuple[float, ...]:
    """``values`` as a non-empty tuple of finite floats."""
    try:
        listed = values.tolist() if hasattr(values, "tolist") else list(values)
    except TypeError:
        raise InvalidInputError(f"{name}: expected a sequence of numbers, got {values!r}") from None
    if not isinstance(listed, list) or not listed:
        raise InvalidInputError(f"{name}: expected at least one number, got {listed!r}")
    for index, value in enumerate(listed):
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise InvalidInputError(f"{name}[{index}]: expected a finite number, got {value!r}")
    return tuple(map(float, listed))
