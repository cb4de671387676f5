"""The laws that points and queries are drawn from. B examples, N points, Q queries, D dim.

A law draws a whole batch at once, in the generator's stream and on its device, and always on the unit sphere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from rankwise.errors import InvalidInputError, ShapeError


@runtime_checkable
class PointLaw(Protocol):
    """What ``distribution=`` accepts besides the names "uniform" and "orthogonal"."""

    @property
    def isotropic(self) -> bool:
        """Whether rotating all vectors of an example leaves the law unchanged."""
        ...

    def check(self, *, dim: int, points: int, queries: int) -> None:
        """Raise ``InvalidInputError`` if examples of this size cannot be drawn."""
        ...

    def draw(
        self, batch: int, points: int, queries: int, dim: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"]]:
        """``batch`` examples of ``points`` points and ``queries`` (possibly 0) queries."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Points and queries i.i.d. uniform on the sphere S^{D-1}."""

    @property
    def isotropic(self) -> bool:
        return True

    def check(self, *, dim: int, points: int, queries: int) -> None:
        """Any size will do."""

    def draw(
        self, batch: int, points: int, queries: int, dim: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"]]:
        return (
            normalize(_gaussian(batch, points, dim, generator, dtype), dim=-1),
            normalize(_gaussian(batch, queries, dim, generator, dtype), dim=-1),
        )


@dataclass(frozen=True)
class Orthogonal:
    """Haar-random orthonormal points (N <= D), queries i.i.d. uniform on the sphere: the paper's D_2 and D_N."""

    @property
    def isotropic(self) -> bool:
        return True

    def check(self, *, dim: int, points: int, queries: int) -> None:
        if points > dim:
            raise InvalidInputError(
                f"points: expected at most dim={dim} orthogonal points, got {points}; "
                f"draw fewer points or use distribution='uniform'"
            )

    def draw(
        self, batch: int, points: int, queries: int, dim: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"]]:
        return (
            orthonormal_frames(batch, points, dim, generator, dtype),
            normalize(_gaussian(batch, queries, dim, generator, dtype), dim=-1),
        )


@dataclass(frozen=True)
class PowerLaw:
    """Directions ``x = z / |z|`` of ``z ~ N(0, diag(1, 2^-alpha, ..., D^-alpha))``, points and queries i.i.d.

    ``alpha`` = 0 is the uniform law; the larger, the fewer directions matter. The axes are the coordinate axes;
    ``Gaussian`` takes any covariance.
    """

    alpha: float

    def __post_init__(self) -> None:
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int | float) or not 0 <= self.alpha < math.inf:
            raise InvalidInputError(f"alpha: expected a finite number of at least 0, got {self.alpha!r}")

    @property
    def isotropic(self) -> bool:
        return self.alpha == 0

    def check(self, *, dim: int, points: int, queries: int) -> None:
        """Any size will do."""

    def draw(
        self, batch: int, points: int, queries: int, dim: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"]]:
        axis = torch.arange(1, dim + 1, dtype=torch.float64, device=generator.device)
        scale = axis.pow(-self.alpha / 2).to(dtype)
        drawn = normalize(_gaussian(batch, points + queries, dim, generator, dtype) * scale, dim=-1)
        return drawn[:, :points], drawn[:, points:]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Directions ``x = z / |z|`` of ``z ~ N(0, covariance)``, points and queries i.i.d.

    ``covariance`` [D, D] is that of z; that of x has the same axes and is close to ``covariance / trace`` when no
    single direction dominates.
    """

    covariance: Tensor
    _root: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        covariance = _finite_matrix("covariance", self.covariance).double()
        if covariance.shape[0] != covariance.shape[1]:
            raise ShapeError(f"covariance: expected a square matrix [D, D], got {list(covariance.shape)}")
        size = covariance.abs().max()
        if size == 0:
            raise InvalidInputError("covariance: expected some variance, got the zero matrix")
        asymmetry = (covariance - covariance.T).abs().max() / size
        if asymmetry > 1e-6:
            raise InvalidInputError(
                f"covariance: expected a symmetric matrix, got one that differs from its transpose by "
                f"{asymmetry:.2g} of its largest entry"
            )
        variances, axes = torch.linalg.eigh((covariance + covariance.T) / 2)
        if variances[0] < -1e-6 * size:
            raise InvalidInputError(
                f"covariance: expected no negative variance in any direction, got {variances[0]:.3g}"
            )
        object.__setattr__(self, "covariance", covariance)
        # Directions do not depend on the scale, and the largest variance 1 keeps them in any dtype's range.
        object.__setattr__(self, "_root", axes * (variances / variances[-1]).clamp_min(0).sqrt())

    @property
    def isotropic(self) -> bool:
        return False

    def check(self, *, dim: int, points: int, queries: int) -> None:
        if len(self.covariance) != dim:
            raise ShapeError(f"covariance: expected [D, D] with D = dim = {dim}, got {list(self.covariance.shape)}")

    def draw(
        self, batch: int, points: int, queries: int, dim: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"]]:
        root = self._root.to(device=generator.device, dtype=dtype)
        drawn = normalize(_gaussian(batch, points + queries, dim, generator, dtype) @ root.T, dim=-1)
        return drawn[:, :points], drawn[:, points:]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of ``vectors`` [M, D], scaled to unit length; all points and queries of one example are distinct rows.

    ``vectors`` is a tensor or array: word vectors, the keys of a trained head, images.
    """

    vectors: Tensor

    def __post_init__(self) -> None:
        vectors = _finite_matrix("vectors", self.vectors)
        if vectors.dtype != torch.float64:
            vectors = vectors.float()
        largest = vectors.abs().amax(dim=-1, keepdim=True)
        zero = torch.nonzero(largest[:, 0] == 0).flatten()
        if len(zero):
            raise InvalidInputError(
                f"vectors: expected rows that have a direction, got {len(zero)} zero rows; "
                f"the first is row {int(zero[0])}"
            )
        # Dividing by the largest entry first keeps the squares of very long or short rows in range.
        object.__setattr__(self, "vectors", normalize(vectors / largest, dim=-1))

    @property
    def isotropic(self) -> bool:
        return False

    def check(self, *, dim: int, points: int, queries: int) -> None:
        rows, width = self.vectors.shape
        if width != dim:
            raise ShapeError(f"vectors: expected [M, D] with D = dim = {dim}, got {[rows, width]}")
        if rows < points + queries:
            raise InvalidInputError(
                f"vectors: expected at least {points + queries} rows ({points} points and {queries} queries "
                f"of one example are distinct), got {rows}"
            )

    def draw(
        self, batch: int, points: int, queries: int, dim: int, generator: torch.Generator, dtype: torch.dtype
    ) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B Q D"]]:
        chosen = distinct_indices(batch, points + queries, len(self.vectors), generator)
        drawn = self.vectors.index_select(0, chosen.flatten().to(self.vectors.device))
        drawn = drawn.to(device=generator.device, dtype=dtype).view(batch, points + queries, dim)
        return drawn[:, :points], drawn[:, points:]


def named_law(distribution: str | PointLaw) -> PointLaw:
    """The law behind ``distribution=``: one of the two names, or a law itself."""
    if isinstance(distribution, str) and distribution in _NAMED:
        return _NAMED[distribution]
    if isinstance(distribution, PointLaw) and not isinstance(distribution, type):
        return distribution
    raise InvalidInputError(
        f"distribution: expected 'uniform', 'orthogonal' or a law of rankwise.tasks.points "
        f"(PowerLaw(alpha), Gaussian(covariance), Rows(vectors)), got {distribution!r}"
    )


_NAMED: dict[str, PointLaw] = {"uniform": Uniform(), "orthogonal": Orthogonal()}


def orthonormal_frames(
    batch: int, points: int, dim: int, generator: torch.Generator, dtype: torch.dtype
) -> Float[Tensor, "B N D"]:
    """Haar-random orthonormal rows: the Q of a Gaussian matrix, its signs fixed so that R has a positive diagonal."""
    gaussian = _gaussian(batch, points, dim, generator, dtype)
    if points == 2 < dim:
        # The same frame by Gram-Schmidt in place, 1.7 to 10 times faster than batched QR. The projection is taken out
        # twice because rounding leaves a part of it when the two Gaussians are nearly parallel; in the plane they
        # come so close to parallel that only QR is safe.
        first, second = gaussian.unbind(dim=1)
        first.div_(torch.linalg.vector_norm(first, dim=-1, keepdim=True))
        for _ in range(2):
            second.addcmul_(torch.linalg.vecdot(second, first)[:, None], first, value=-1)
        second.div_(torch.linalg.vector_norm(second, dim=-1, keepdim=True))
        return gaussian
    frame, triangle = torch.linalg.qr(gaussian.mT)
    signs = torch.diagonal(triangle, dim1=-2, dim2=-1).sign()
    return torch.mul(frame, signs[:, None, :]).mT.contiguous()


def distinct_indices(batch: int, count: int, total: int, generator: torch.Generator) -> Int[Tensor, "B K"]:
    """Uniform ordered choices of ``count`` distinct indices below ``total``, one choice an example.

    Floyd's sampling for all examples side by side: the cost does not grow with ``total``. It makes every set
    equally likely but not every order, hence the shuffle at the end.
    """
    device = generator.device
    chosen = torch.empty(batch, count, dtype=torch.long, device=device)
    for column, last in enumerate(range(total - count, total)):
        drawn = torch.randint(last + 1, (batch,), generator=generator, device=device)
        taken = (chosen[:, :column] == drawn[:, None]).any(dim=-1)
        chosen[:, column] = drawn.masked_fill(taken, last)
    order = torch.rand(batch, count, generator=generator, device=device, dtype=torch.float64).argsort(dim=-1)
    return chosen.gather(1, order)


def _gaussian(
    batch: int, count: int, dim: int, generator: torch.Generator, dtype: torch.dtype
) -> Float[Tensor, "B K D"]:
    return torch.randn(batch, count, dim, generator=generator, device=generator.device, dtype=dtype)


def _finite_matrix(name: str, values: object) -> Float[Tensor, "M D"]:
    """``values`` as a floating tensor of two dimensions without NaN or infinity."""
    try:
        matrix = values.detach() if isinstance(values, Tensor) else torch.tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{name}: expected a matrix of numbers, got {type(values).__name__}: {error}") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ShapeError(f"{name}: expected a matrix of two dimensions, none empty, got shape {list(matrix.shape)}")
    if matrix.is_complex() or matrix.dtype == torch.bool:
        raise InvalidInputError(f"{name}: expected real numbers, got {matrix.dtype}")
    matrix = matrix if matrix.is_floating_point() else matrix.double()
    broken = torch.nonzero(~matrix.isfinite().all(dim=-1)).flatten()
    if len(broken):
        raise InvalidInputError(
            f"{name}: expected finite numbers, got NaN or infinity in {len(broken)} of {len(matrix)} rows; "
            f"the first is row {int(broken[0])}"
        )
    return matrix
