"""Generalised heads: any score that sees the points only through a rank-R projection.

Legend: B batch, Q queries, N points, D dim, H heads, R rank, W hidden width of a score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import one_hot

from rankwise.errors import InvalidInputError, ShapeError, require_choice, require_int

Phi = Callable[[Tensor, Tensor], Tensor]
"""``phi(keys [..., N, R], y [..., D]) -> weights [..., N]``, each row of which lies on the simplex."""


class GeneralizedHeads(nn.Module):
    """``y -> sum_h V_h X phi_h(K_h^T X, y)``, the form for which the lower bound is proved.

    ``keys`` K [H, D, R] projects the points; phi_h maps the projected points and the whole query, which is not
    projected, to any weights on the simplex (nonnegative, sum 1). It covers softmax and hardmax heads, biases, rotary
    and additive positions, MLP scores. Values are V_h = a_h I (``values="scaled_identity"``: ``value_scale`` a [H], for
    which the bound is sharpest) or any matrix (``"full"``: ``value_weight`` V [H, D, D]).

    ``phi`` is one callable for all heads or a list of H. The one is called once, with leading dimensions [B, Q, H]:
    keys [B, Q, H, N, R], y [B, Q, H, D] -> [B, Q, H, N]. Each of a list is called with [B, Q]. The arguments are
    expanded views: read them, do not write into them. Modules among them are trained with this one. ``AdditiveScore``
    and ``BilinearScore`` ship with it.

    That phi's result lies on the simplex, up to the root of the type's epsilon, is checked at every eager call (one
    pass over the weights; a synchronisation on an accelerator): outside it the bound says nothing.
    ``check_simplex=False`` turns that off, ``torch.compile`` leaves it out.

    K_h starts with orthonormal columns, which loses no generality (phi can undo any invertible R x R map); V_h as I/H.
    """

    def __init__(
        self,
        dim: int,
        rank: int,
        heads: int,
        phi: Phi | Sequence[Phi] | nn.ModuleList,
        *,
        values: Literal["scaled_identity", "full"] = "scaled_identity",
        check_simplex: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.dim = require_int("dim", dim, minimum=1)
        self.rank = require_int("rank", rank, minimum=1)
        self.heads = require_int("heads", heads, minimum=1)
        self.values = require_choice("values", values, ("scaled_identity", "full"))
        self.check_simplex = check_simplex
        # a ModuleList is callable in name only
        self.phi = phi if callable(phi) and not isinstance(phi, nn.ModuleList) else _one_a_head(phi, heads)
        if isinstance(self.phi, tuple):
            self.phi_modules = nn.ModuleList(each for each in self.phi if isinstance(each, nn.Module))

        self.keys = nn.Parameter(torch.empty(heads, dim, rank, device=device, dtype=dtype))
        self.value_scale: nn.Parameter | None = None
        self.value_weight: nn.Parameter | None = None
        if values == "full":
            self.value_weight = nn.Parameter(torch.empty(heads, dim, dim, device=device, dtype=dtype))
        else:
            self.value_scale = nn.Parameter(torch.empty(heads, device=device, dtype=dtype))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """K_h with orthonormal columns (rows if R > D), V_h = I/H."""
        for key in self.keys:
            # made in float32: no QR exists for narrower types
            key.copy_(nn.init.orthogonal_(torch.empty(self.dim, self.rank, device=key.device)))
        if self.value_scale is not None:
            self.value_scale.fill_(1 / self.heads)
        if self.value_weight is not None:
            self.value_weight.copy_(torch.eye(self.dim) / self.heads)

    def forward(self, queries: Float[Tensor, "..."], points: Float[Tensor, "..."]) -> Float[Tensor, "B Q D"]:
        """``queries`` [B, Q, D] and ``points`` [B, N, D] -> [B, Q, D]."""
        if queries.ndim != 3 or points.ndim != 3 or not queries.shape[-1] == points.shape[-1] == self.dim:
            raise ShapeError(
                f"GeneralizedHeads: expected queries [B, Q, {self.dim}] and points [B, N, {self.dim}], "
                f"got {list(queries.shape)} and {list(points.shape)}"
            )
        if queries.shape[0] != points.shape[0] or not points.shape[1]:
            raise ShapeError(
                f"GeneralizedHeads: expected one batch size and at least one point, "
                f"got queries {list(queries.shape)} and points {list(points.shape)}"
            )
        weights = self.weights(queries, points)
        if self.value_scale is not None:
            return torch.einsum("bqhn,h->bqn", weights, self.value_scale) @ points
        assert self.value_weight is not None
        mixed = weights.flatten(1, 2) @ points
        return mixed.view(*queries.shape[:2], self.heads * self.dim) @ self.value_weight.transpose(1, 2).flatten(0, 1)

    def weights(self, queries: Float[Tensor, "B Q D"], points: Float[Tensor, "B N D"]) -> Float[Tensor, "B Q H N"]:
        """phi_h(K_h^T X, y) of every query and head."""
        sizes = (*queries.shape[:2], self.heads, points.shape[1])
        projected = torch.einsum("bnd,hdr->bhnr", points, self.keys)[:, None].expand(*sizes, self.rank)
        if isinstance(self.phi, tuple):
            rows = [phi(projected[:, :, head], queries) for head, phi in enumerate(self.phi)]
            weights = torch.stack([_checked_shape(row, (*sizes[:2], sizes[3])) for row in rows], dim=2)
        else:
            queries = queries[:, :, None].expand(*sizes[:3], self.dim)
            weights = _checked_shape(self.phi(projected, queries), sizes)
        if self.check_simplex and not torch.compiler.is_compiling():
            _require_simplex(weights.detach())
        return weights


class AdditiveScore(nn.Module):
    """Bahdanau's score for every head at once: ``softmax_n v_h^T tanh(A_h k_n + B_h y + c_h)``.

    A [H, R, W], B [H, D, W], c [H, W], v [H, W]; wide enough, it approximates any continuous score of one projected
    point and the query. But it scores a point without sight of the others, which a phi of the theorem may have:
    ``pooled=True`` adds ``P_h mean_n k_n`` (P [H, R, W]) inside the tanh, and for two points that is all there is to
    see. Called with keys [..., H, N, R] and y [..., H, D], it returns weights [..., H, N].
    """

    pooled_weight: nn.Parameter | None

    def __init__(
        self,
        dim: int,
        rank: int,
        heads: int,
        width: int = 64,
        *,
        pooled: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("dim", dim), ("rank", rank), ("heads", heads), ("width", width)):
            require_int(name, value, minimum=1)

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.key_weight = parameter(heads, rank, width)
        self.pooled_weight = parameter(heads, rank, width) if pooled else None
        self.query_weight = parameter(heads, dim, width)
        self.bias = parameter(heads, width)
        self.score_weight = parameter(heads, width)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Normal with variance 1/(inputs), as if keys and queries had coordinates of variance 1."""
        _, rank, width = self.key_weight.shape
        fan_in = rank + self.query_weight.shape[1]
        for parameter in (self.key_weight, self.pooled_weight, self.query_weight, self.bias):
            if parameter is not None:
                parameter.normal_(std=fan_in**-0.5)
        self.score_weight.normal_(std=width**-0.5)

    def forward(self, keys: Float[Tensor, "... R"], y: Float[Tensor, "... D"]) -> Float[Tensor, "... N"]:
        _require_heads(keys, y, self.query_weight)
        shared = torch.einsum("...hd,hdw->...hw", y, self.query_weight) + self.bias
        if self.pooled_weight is not None:
            shared = shared + torch.einsum("...hr,hrw->...hw", keys.mean(-2), self.pooled_weight)
        hidden = (torch.einsum("...hnr,hrw->...hnw", keys, self.key_weight) + shared.unsqueeze(-2)).tanh()
        return torch.einsum("...hnw,hw->...hn", hidden, self.score_weight).softmax(-1)


class BilinearScore(nn.Module):
    """The ordinary head as a phi: softmax or hardmax over n of ``<k_n, Q_h^T y> / sqrt(R)``, M_h = K_h Q_h^T.

    Q [H, D, R]. Hardmax is one-hot at the first largest score; no gradient passes through its choice, and NaN among
    the scores is an error in eager mode.
    """

    def __init__(
        self,
        dim: int,
        rank: int,
        heads: int,
        *,
        scores: Literal["softmax", "hardmax"] = "softmax",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("dim", dim), ("rank", rank), ("heads", heads)):
            require_int(name, value, minimum=1)
        self.scores = require_choice("scores", scores, ("softmax", "hardmax"))
        self.query_weight = nn.Parameter(torch.empty(heads, dim, rank, device=device, dtype=dtype))
        nn.init.normal_(self.query_weight, std=dim**-0.5)

    def forward(self, keys: Float[Tensor, "... R"], y: Float[Tensor, "... D"]) -> Float[Tensor, "... N"]:
        _require_heads(keys, y, self.query_weight)
        query = torch.einsum("...hd,hdr->...hr", y, self.query_weight) * self.query_weight.shape[-1] ** -0.5
        scores = (keys @ query.unsqueeze(-1)).squeeze(-1)
        if self.scores == "softmax":
            return scores.softmax(-1)
        if not torch.compiler.is_compiling() and scores.isnan().any():
            raise InvalidInputError("hardmax: expected numbers, got NaN among the scores, of which none is the largest")
        return one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)


def _one_a_head(phi: Sequence[Phi] | nn.ModuleList, heads: int) -> tuple[Phi, ...]:
    if not isinstance(phi, list | tuple | nn.ModuleList) or not all(callable(each) for each in phi):
        raise InvalidInputError(f"phi: expected a callable or a list of {heads} callables, got {phi!r}")
    if len(phi) != heads:
        raise InvalidInputError(f"phi: expected one callable, or one for each of the {heads} heads, got {len(phi)}")
    return tuple(phi)


def _require_heads(keys: Tensor, y: Tensor, query_weight: Tensor) -> None:
    heads, dim, _ = query_weight.shape
    if keys.ndim < 3 or keys.shape[-3] != heads or tuple(y.shape[-2:]) != (heads, dim):
        raise ShapeError(
            f"phi: expected keys [..., {heads}, N, R] and y [..., {heads}, {dim}] (this score holds the weights of all "
            f"its heads: pass it alone, not in a list), got {list(keys.shape)} and {list(y.shape)}"
        )


def _checked_shape(weights: Tensor, expected: tuple[int, ...]) -> Tensor:
    if tuple(weights.shape) != expected:
        raise ShapeError(f"phi: expected weights {list(expected)}, one a point, got {list(weights.shape)}")
    return weights


def _require_simplex(weights: Float[Tensor, "B Q H N"]) -> None:
    tolerance = torch.finfo(weights.dtype).eps ** 0.5
    sums = weights.sum(-1)
    on_simplex = (weights >= -tolerance).all() & ((sums - 1).abs() <= tolerance).all()  # NaN fails both
    if not on_simplex:
        raise InvalidInputError(
            f"phi: expected weights on the simplex (nonnegative, each row sums to 1), got a smallest weight of "
            f"{weights.min():.3g} and sums from {sums.min():.6g} to {sums.max():.6g}; end phi with .softmax(-1)"
        )
