"""Hand-built weights: what heads of each kind can and cannot do.

Every constructor returns a module that is called like the layer, ``module(queries, points)`` with queries [B, Q, D]
and points [B, N, D], and answers [B, Q, D]. Legend: d = dim, H heads, r rank.

Theorems of Amsel, Yehudai and Bruna (2024): ``exact_nearest``, and that two rank-1 layers approximate the target for
N = 2 (``majority_vote`` is their construction). ``soft_vote`` and ``linear_scores`` are ours, ``selecting_head`` is a
textbook projection. The others are the random
features and toy cases whose errors have closed forms (rankwise.theory.kernels).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from rankwise.errors import InvalidInputError, ShapeError, require_int, require_number
from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.generalized import BilinearScore, GeneralizedHeads


def exact_nearest(dim: int, *, beta: float | None = None, dtype: torch.dtype = torch.float32) -> MultiheadAttention:
    """``X hardmax(X^T y)``: one full-rank head is nearest-neighbour search, exactly, for any N points of equal norm.

    Of points of unequal norms it chooses the largest inner product, which a long one may have without being nearest.
    With ``beta`` it is the softmax ``X sm(beta X^T y)``, which tends to it as beta grows
    (rankwise.theory.depth.softmax_error says how fast).
    """
    return _full_rank_head(dim, 1.0, beta, dtype)


def exact_farthest(dim: int, *, beta: float | None = None, dtype: torch.dtype = torch.float32) -> MultiheadAttention:
    """``X hardmax(-X^T y)``: the farthest of points of equal norm; ``module(points)`` is self-attention."""
    return _full_rank_head(dim, -1.0, beta, dtype)


def biased_nearest(dim: int, bias: float, *, dtype: torch.dtype = torch.float32) -> GeneralizedHeads:
    """``x_1 if <x_1 - x_2, y> + bias > 0 else x_2`` (N = 2): one full-rank head whose phi knows the order."""
    require_int("dim", dim, minimum=1)
    require_number("bias", bias)

    def phi(keys: Float[Tensor, "*B N R"], y: Float[Tensor, "*B D"]) -> Float[Tensor, "*B N"]:
        if keys.shape[-2] != 2:
            raise ShapeError(f"biased_nearest: expected points [B, 2, D], got {keys.shape[-2]} points")
        first, second = (keys @ y.unsqueeze(-1)).squeeze(-1).unbind(-1)
        chosen = (first - second + bias > 0).to(keys.dtype)
        return torch.stack((chosen, 1 - chosen), dim=-1)

    head = GeneralizedHeads(dim, dim, 1, phi, dtype=dtype)
    return _written(head, keys=torch.eye(dim)[None], weights=torch.ones(1))


def random_rank_one(
    dim: int,
    heads: int,
    generator: torch.Generator,
    weights: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> GeneralizedHeads:
    """``sum_h a_h X hardmax(X^T k_h q_h^T y)`` with q_h uniform on the sphere, cos<q_h, k_h> uniform on [-1, 1].

    ``weights`` a [H] are 1/H unless given; ``rankwise.theory.kernels.optimal_weights`` finds the best for the
    directions ``module.keys[:, :, 0]`` and ``module.phi.query_weight[:, :, 0]`` that a seed draws. For N = 2
    orthogonal points the error is ``1 - 2 a.b + a^T C a``.
    """
    require_int("dim", dim, minimum=2)
    require_int("heads", heads, minimum=1)
    query = normalize(torch.randn(heads, dim, generator=generator, dtype=torch.float64), dim=-1)
    other = torch.randn(heads, dim, generator=generator, dtype=torch.float64)
    other = normalize(other - (other * query).sum(-1, keepdim=True) * query, dim=-1)
    cosine = 2 * torch.rand(heads, 1, generator=generator, dtype=torch.float64) - 1
    key = cosine * query + (1 - cosine.square()).sqrt() * other
    return _hardmax_heads(query[..., None], key[..., None], weights, dtype)


def random_subspaces(
    dim: int,
    rank: int,
    heads: int,
    generator: torch.Generator,
    weights: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> GeneralizedHeads:
    """``sum_h a_h X hardmax(X^T P_h y)``, P_h the projection on a uniformly random subspace of dimension ``rank``."""
    require_int("dim", dim, minimum=1)
    require_int("heads", heads, minimum=1)
    if require_int("rank", rank, minimum=1) > dim:
        raise InvalidInputError(f"rank: expected at most dim={dim}, got {rank}")
    frame = torch.linalg.qr(torch.randn(heads, dim, rank, generator=generator, dtype=torch.float64)).Q
    return _hardmax_heads(frame, frame, weights, dtype)


@torch.no_grad()
def selecting_head(projection: Float[Tensor, "R D"], *, dtype: torch.dtype = torch.float32) -> MultiheadAttention:
    """``X hardmax(X^T P^T P y)`` with a given P [R, D]: among points seen through R coordinates, the largest score.

    Rows of a random rotation are a Johnson-Lindenstrauss projection (rankwise.theory.selection has its accuracy on
    random codes), those of ``discriminant_directions`` the best linear discriminant of given codes.
    """
    rank, dim = projection.shape
    head = MultiheadAttention(dim, 1, rank, value_rank=dim, scores="hardmax", bias=False, dtype=dtype)
    for weight, matrix in (
        (head.q_weight, projection),
        (head.k_weight, projection),
        (head.v_weight, torch.eye(dim)),
        (head.o_weight, torch.eye(dim)),
    ):
        weight.copy_(matrix[None])
    return head


def choices_by_rank(points: Float[Tensor, "B N D"], queries: Float[Tensor, "B D"]) -> Int[Tensor, "B D"]:
    """What ``selecting_head`` chooses with the first 1, 2, ..., D coordinates as P: ``argmax_j`` of the score."""
    scores, found = torch.zeros(points.shape[:2]), []
    for coordinate, asked in zip(points.permute(2, 0, 1).contiguous(), queries.mT, strict=True):
        scores.addcmul_(coordinate, asked[:, None])
        found.append(scores.argmax(dim=1))
    return torch.stack(found, dim=1)


def discriminant_directions(codes: Float[Tensor, "N D"]) -> Float[Tensor, "D D"]:
    """Orthonormal rows, most telling first: the directions along which ``codes`` differ most.

    Fisher's linear discriminant of N classes with these means and isotropic noise: the principal axes of the codes.
    """
    _, _, directions = torch.linalg.svd(codes - codes.mean(dim=0), full_matrices=True)
    return directions


def equispaced_plane(heads: int, *, dtype: torch.dtype = torch.float32) -> GeneralizedHeads:
    """d = 2: rank-1 heads q = k at angles ``pi h / H`` with their best weights, which symmetry makes equal.

    ``a = b(0) / sum_j C_0j`` with b(0) = 3/4 and ``C_0j = 1/2 + 2 (1/2 - j/H)^2``; the error ``1 - b(0) H a`` is
    .4375, .25, .1818 for H = 1, 2, 4 and stalls at 5/32: keys that equal queries are not enough (our derivation).
    """
    require_int("heads", heads, minimum=1)
    step = torch.arange(heads, dtype=torch.float64) / heads
    direction = torch.stack(((math.pi * step).cos(), (math.pi * step).sin()), dim=-1)[..., None]
    best = 0.75 / (0.5 + 2 * (0.5 - step).square()).sum()
    return _hardmax_heads(direction, direction, best.expand(heads), dtype)


class TwoLayerVote(nn.Module):
    """Two rank-1 attention layers in R^{d+2} that tally votes on two points and look up the winner (no MLP, no norm).

    Tokens are (x_1, 1, 0), (x_2, -1, 0) and (y, 0, 0): index and scratchpad are appended. In layer 1 every head
    attends to one of the points and writes its index into the scratchpad of y, ``S = sum of votes``, kept by the
    residual. In layer 2 the score of point j is ``index_j S`` and the first d coordinates of the winner are copied,
    one rank-1 head a coordinate. S = 0 (only an even number of votes ties) goes to x_1.
    """

    def __init__(self, tally: MultiheadAttention, lookup: MultiheadAttention) -> None:
        super().__init__()
        self.tally, self.lookup = tally, lookup

    def forward(self, queries: Float[Tensor, "... D"], points: Float[Tensor, "... D"]) -> Float[Tensor, "B Q D"]:
        dim = self.tally.spec.dim - 2
        if queries.ndim != 3 or queries.shape[-1] != dim or points.shape != (queries.shape[0], 2, dim):
            raise ShapeError(
                f"vote: expected queries [B, Q, {dim}] and points [B, 2, {dim}], "
                f"got {list(queries.shape)} and {list(points.shape)}"
            )
        index = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=points.dtype, device=points.device)
        tagged = torch.cat((points, index.expand(len(points), 2, 2)), dim=-1)
        y = pad(queries, (0, 2))
        y = y + self.tally(y, tagged)
        return self.lookup(y, tagged)[..., :dim]


def majority_vote(
    dim: int, heads: int, generator: torch.Generator, *, dtype: torch.dtype = torch.float32
) -> TwoLayerVote:
    """The paper's two-layer construction for N = 2: H random rank-1 hardmax heads q = k vote, the majority wins.

    Its accuracy is ``rankwise.theory.depth.majority_accuracy(dim, heads)``, about ``1 - sqrt(d/H)/2``; for
    orthogonal points the squared error is twice the share of wrong answers. Odd H avoids ties.
    """
    require_int("dim", dim, minimum=1)
    require_int("heads", heads, minimum=1)
    directions = normalize(torch.randn(heads, dim, generator=generator, dtype=torch.float64), dim=-1)
    tally = MultiheadAttention(dim + 2, heads, 1, scores="hardmax", bias=False, dtype=dtype)
    return TwoLayerVote(_write_tally(tally, directions), _lookup(dim, dtype))


def soft_vote(dim: int, scale: float, *, dtype: torch.dtype = torch.float32) -> TwoLayerVote:
    """Ours: d rank-1 softmax heads q = k = e_i at a small score scale s instead of many hard votes.

    Where the softmax is nearly linear the scratchpad holds ``S ~ (s/2) <x_1 - x_2, y>``, whose sign is the answer:
    d heads do what the majority needs thousands for, because a soft vote keeps the margin.
    """
    require_int("dim", dim, minimum=1)
    require_number("scale", scale, above=0)
    tally = MultiheadAttention(dim + 2, dim, 1, bias=False, dtype=dtype)
    _write_tally(tally, torch.eye(dim, dtype=torch.float64))
    with torch.no_grad():
        tally.q_weight.mul_(scale)
    return TwoLayerVote(tally, _lookup(dim, dtype))


@torch.no_grad()
def linear_scores(dim: int, rank: int, scale: float, *, dtype: torch.dtype = torch.float32) -> MultiheadAttention:
    """Ours: d/r softmax heads of rank r < d (rounded up) with whole values add up to ``C y``, C the points' covariance.

    Head h has scores ``(s / a_h) <P_h x_j, y>``, P_h the projection on its own r coordinates, and values
    ``(a_h / s) I`` with ``sum_h a_h = 0``. At a small scale s a softmax is linear::

        sm(t)_j = (1 + t_j - mean(t)) / N + O(s^2)

    The constants cancel, the projections add up to I, and ``sum_j <x_j - mean(x), y> x_j / N + O(s)`` is left, the work
    of scores of full rank. What rank limits is what a softmax does beyond the first degree.
    """
    blocks = coordinate_blocks(dim, rank)
    require_number("scale", scale, above=0)
    heads = len(blocks)
    weights = balanced_weights(heads)
    layer = MultiheadAttention(dim, heads, rank, value_rank=dim, bias=False, dtype=dtype)
    layer.q_weight.copy_(blocks * (scale * math.sqrt(rank) / weights)[:, None, None])
    layer.k_weight.copy_(blocks)
    layer.v_weight.copy_(torch.eye(dim).expand(heads, dim, dim))
    layer.o_weight.copy_(torch.eye(dim) * (weights / scale)[:, None, None])
    return layer


def coordinate_blocks(dim: int, rank: int) -> Float[Tensor, "H R D"]:
    """The coordinates cut into blocks P_h of ``rank`` for d/r heads (rounded up; the last block ends in zeros)."""
    if require_int("rank", rank, minimum=1) >= require_int("dim", dim, minimum=2):
        raise InvalidInputError(f"rank: expected less than dim={dim}, so that there are heads to add, got {rank}")
    heads = -(-dim // rank)
    return pad(torch.eye(dim, dtype=torch.float64), (0, 0, 0, heads * rank - dim)).unflatten(0, (heads, rank))


def balanced_weights(heads: int) -> Float[Tensor, "H"]:
    """Weights a_h, none of them 0, of two or more heads whose common part cancels: sum a_h = 0."""
    weights = torch.ones(heads, dtype=torch.float64)
    weights[1::2] = -1.0
    if heads % 2:
        weights[-3:] = torch.tensor([1.0, 1.0, -2.0])
    return weights


@torch.no_grad()
def _full_rank_head(dim: int, sign: float, beta: float | None, dtype: torch.dtype) -> MultiheadAttention:
    if beta is not None:
        require_number("beta", beta, above=0)
    head = MultiheadAttention(dim, 1, dim, scores="hardmax" if beta is None else "softmax", bias=False, dtype=dtype)
    identity = torch.eye(dim, dtype=torch.float64)[None]
    for weight in (head.q_weight, head.k_weight, head.v_weight, head.o_weight):
        weight.copy_(identity)
    head.q_weight.mul_(sign if beta is None else sign * beta * math.sqrt(dim))
    return head


def _hardmax_heads(
    queries: Float[Tensor, "H D R"], keys: Float[Tensor, "H D R"], weights: Tensor | None, dtype: torch.dtype
) -> GeneralizedHeads:
    heads, dim, rank = keys.shape
    if weights is None:
        weights = torch.full((heads,), 1 / heads, dtype=torch.float64)
    elif weights.shape != (heads,):
        raise ShapeError(f"weights: expected [heads] = [{heads}], got {list(weights.shape)}")
    score = BilinearScore(dim, rank, heads, scores="hardmax", dtype=dtype)
    with torch.no_grad():
        score.query_weight.copy_(queries)
    return _written(GeneralizedHeads(dim, rank, heads, score, dtype=dtype), keys, weights)


@torch.no_grad()
def _written(module: GeneralizedHeads, keys: Float[Tensor, "H D R"], weights: Float[Tensor, "H"]) -> GeneralizedHeads:
    assert module.value_scale is not None
    module.keys.copy_(keys)
    module.value_scale.copy_(weights)
    return module


@torch.no_grad()
def _write_tally(layer: MultiheadAttention, directions: Float[Tensor, "H d"]) -> MultiheadAttention:
    """Every head: key = query = (direction, 0, 0), value = index, output = scratchpad."""
    dim = directions.shape[1]
    layer.q_weight.copy_(pad(directions, (0, 2))[:, None])
    layer.k_weight.copy_(layer.q_weight)
    for weight, coordinate in ((layer.v_weight, dim), (layer.o_weight, dim + 1)):
        weight.zero_()
        weight[:, :, coordinate] = 1.0
    return layer


@torch.no_grad()
def _lookup(dim: int, dtype: torch.dtype) -> MultiheadAttention:
    """d rank-1 hardmax heads with one score, ``index_j S``; head i copies coordinate i."""
    layer = MultiheadAttention(dim + 2, dim, 1, scores="hardmax", bias=False, dtype=dtype)
    for weight, coordinate in ((layer.q_weight, dim + 1), (layer.k_weight, dim)):
        weight.zero_()
        weight[:, :, coordinate] = 1.0
    for weight in (layer.v_weight, layer.o_weight):
        weight.copy_(pad(torch.eye(dim), (0, 2))[:, None])
    return layer
