"""The ranks of a matrix, each under its own name.

"Rank" without a definition says nothing about attention: the exact rank of a softmax matrix is n at any head dimension
and temperature, and thresholded ranks depend on the threshold and on n.

With singular values s_1 >= s_2 >= ... >= 0 of a matrix A:

==================== ======================================================== =========================================
hardmax rank         distinct argmax columns of the rows of a score matrix    the exact rank of its one-hot hardmax
numerical rank       number of s_i > rtol s_1
effective rank       exp(-sum p_i log p_i), p_i = s_i / sum s                 Roy & Vetterli 2007: s, not s^2
stable rank          ||A||_F^2 / s_1^2 = sum s_i^2 / s_1^2
energy rank          smallest k with s_1^2 + .. + s_k^2 >= fraction sum s^2
participation ratio  (sum s_i^2)^2 / sum s_i^4                                of the eigenvalues s^2 of A^T A
==================== ======================================================== =========================================

All are batched over leading dimensions and computed in float64 from any real type. The spectral ones are 0 for a
matrix of zeros or without entries, refuse infinite and NaN entries, and take ``singular_values=`` [..., K] in any order
instead of a matrix, for callers who hold a factored matrix or want several ranks of one.

Legend: M rows (queries), N columns (keys), K singular values.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from rankwise.errors import InvalidInputError, ShapeError

_ROUNDING = 1e-14  # of a sum of squares that should equal a fraction of the total exactly


def hardmax_rank(scores: Shaped[Tensor, ...]) -> Int64[Tensor, ...]:
    """The number of distinct columns that hold a row's largest entry, for ``scores`` [..., M, N].

    Exact, no SVD, no tolerance: it is the rank of the matrix whose rows are one-hot at their argmax. ``-inf`` marks
    what a row may not see; a row that sees nothing contributes nothing. Of equal scores the first counts.
    """
    if scores.ndim < 2:
        raise ShapeError(f"scores: expected [..., rows, columns], got {list(scores.shape)}")
    if scores.is_complex():
        raise InvalidInputError(f"scores: expected real numbers, got {scores.dtype}")
    if scores.numel() == 0:
        return torch.zeros(scores.shape[:-2], dtype=torch.int64, device=scores.device)
    best, column = scores.max(dim=-1)
    if bool(best.isnan().any()):
        raise InvalidInputError("scores: expected numbers or -inf, got NaN; check the mask and the softmax before it")
    sees = best != -torch.inf
    picked = torch.zeros(*scores.shape[:-2], scores.shape[-1], dtype=torch.int64, device=scores.device)
    return picked.scatter_reduce(-1, column, sees.to(torch.int64), "amax").sum(-1)


def numerical_rank(
    matrix: Shaped[Tensor, ...] | None = None, rtol: float = 1e-2, *, singular_values: Tensor | None = None
) -> Int64[Tensor, ...]:
    """The number of singular values above ``rtol`` times the largest, 0 <= rtol < 1, for ``matrix`` [..., M, N]."""
    _require_fraction("rtol", rtol, 0 <= rtol < 1, "at least 0 and below 1")
    spectrum = _spectrum(matrix, singular_values)
    return (spectrum > rtol).sum(-1)


def effective_rank(
    matrix: Shaped[Tensor, ...] | None = None, *, singular_values: Tensor | None = None
) -> Float[Tensor, ...]:
    """exp of the entropy of the singular values over their sum (Roy & Vetterli 2007), between 1 and the rank."""
    spectrum = _spectrum(matrix, singular_values)
    share = spectrum / spectrum.sum(-1, keepdim=True).clamp(min=1)
    entropy: Tensor = torch.special.entr(share).sum(-1)
    return entropy.exp() * (spectrum > 0).any(-1)


def stable_rank(
    matrix: Shaped[Tensor, ...] | None = None, *, singular_values: Tensor | None = None
) -> Float[Tensor, ...]:
    """``||A||_F^2 / s_1^2``, between 1 and the rank."""
    return _spectrum(matrix, singular_values).square().sum(-1)


def energy_rank(
    matrix: Shaped[Tensor, ...] | None = None, fraction: float = 0.9, *, singular_values: Tensor | None = None
) -> Int64[Tensor, ...]:
    """The smallest k whose k largest singular values hold ``fraction`` in (0, 1] of the sum of squares."""
    _require_fraction("fraction", fraction, 0 < fraction <= 1, "above 0 and at most 1")
    energy = _spectrum(matrix, singular_values).square()
    # cumulate from the small end, so that the tail keeps its digits next to a large head
    tail = energy.flip(-1).cumsum(-1).flip(-1)
    total = tail[..., :1] if tail.shape[-1] else tail
    return (tail > (1 - fraction + _ROUNDING) * total).sum(-1)


def participation_ratio(
    matrix: Shaped[Tensor, ...] | None = None, *, singular_values: Tensor | None = None
) -> Float[Tensor, ...]:
    """``(sum s^2)^2 / sum s^4``: how many of the eigenvalues s^2 of A^T A take part, between 1 and the rank.

    Of vectors in rows it is the intrinsic dimension of their second moment; subtract their mean first for covariance.
    """
    energy = _spectrum(matrix, singular_values).square()
    return energy.sum(-1).square() / energy.square().sum(-1).clamp(min=1)


def _spectrum(matrix: Tensor | None, singular_values: Tensor | None) -> Float[Tensor, "*batch K"]:
    """Singular values over the largest, descending, in float64: 1, ... or all 0."""
    if (matrix is None) == (singular_values is None):
        raise InvalidInputError("expected either a matrix or singular_values, got both or neither")
    if matrix is not None:
        values = torch.linalg.svdvals(_real("matrix", matrix, least=2))
    else:
        assert singular_values is not None
        values = _real("singular_values", singular_values, least=1).sort(dim=-1, descending=True).values
        if bool((values < 0).any()):
            raise InvalidInputError("singular_values: expected numbers of at least 0, got a negative one")
    largest = values[..., :1]
    spectrum: Tensor = values / torch.where(largest > 0, largest, 1.0)
    return spectrum


def _real(name: str, values: Tensor, *, least: int) -> Float[Tensor, ...]:
    if values.ndim < least:
        wanted = "[..., rows, columns]" if least == 2 else "[..., count]"
        raise ShapeError(f"{name}: expected {wanted}, got {list(values.shape)}")
    if values.is_complex():
        raise InvalidInputError(f"{name}: expected real numbers, got {values.dtype}")
    values = values.to(torch.float64)
    if not bool(values.isfinite().all()):
        raise InvalidInputError(f"{name}: expected finite numbers, got infinite or NaN entries")
    return values


def _require_fraction(name: str, value: object, valid: bool, wanted: str) -> None:
    if isinstance(value, bool) or not valid:
        raise InvalidInputError(f"{name}: expected a number {wanted}, got {value!r}")
