"""Score forms of full rank at a fraction of the weights, each as two thin maps: ``M = A^T B``, q = A y, k = B x.

After Kuang, Amsel et al. (2025, arXiv 2509.07963). D and C are cut into b equal blocks, y into ``y_a`` of D/b and x
into ``x_a`` of C/b coordinates.

- ``block_low_rank``, a two-level low-rank matrix: ``M = W_Q^T W_K + blockdiag(E_1^T, ..., E_b^T)``. Queries are
  ``(W_Q y, E_1 y_1, ..., E_b y_b)``, keys ``(W_K x, x)``. Weights of a head: R (D + C) + D C / b.
- ``monarch``, a block tensor-train with two cores: ``M[(a, i), (c, t)] = sum_s A[a, (s, t), i] B[t, (s, a), c]``, where
  (a, i) is coordinate i of block a of y, and (c, t) coordinate t of block c of x. Queries are block-diagonal maps of y,
  keys block-diagonal maps of x read across its blocks: ``k[s, a, t] = sum_c B[t, (s, a), c] x[c, t]``. Each tile
  ``M[(a, :), (:, t)]`` has rank R; R = 1 is a Monarch matrix, R = min(b, D/b) is every matrix. Weights of a head:
  R C (D/b + b), least at b = sqrt(D).

Both are generically of full rank min(D, C); both contain the identity (D = C), so one such head is exact nearest
neighbour search. After the projections nothing knows of the structure: masks, kernels, norms, rotations and caches of
keys see queries and keys of ``score_dim`` coordinates.

Legend: N tokens of all examples, B batch, H heads, G key heads, D dim, C context dim, S score dim, b blocks, R rank.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, cat
from torch.nn.functional import linear


def structured_queries(
    y: Float[Tensor, "B I D"], q_weight: Float[Tensor, "H ..."], block_weight: Float[Tensor, "H b c e"] | None
) -> Float[Tensor, "B I H S"]:
    """``A y`` for every head; without ``block_weight`` the form is ``monarch``."""
    return _monarch_queries(y, q_weight) if block_weight is None else _block_queries(y, q_weight, block_weight)


def structured_keys(
    x: Float[Tensor, "B J C"], k_weight: Float[Tensor, "G ..."], block_weight: Float[Tensor, "H b c e"] | None
) -> Float[Tensor, "B J G S"]:
    """``B x`` for every key head."""
    return _monarch_keys(x, k_weight) if block_weight is None else _block_keys(x, k_weight)


def _block_queries(
    y: Float[Tensor, "B I D"], q_weight: Float[Tensor, "H R D"], block_weight: Float[Tensor, "H b c e"]
) -> Float[Tensor, "B I H S"]:
    """``(W_Q y, E_1 y_1, ..., E_b y_b)``."""
    low_rank = linear(y, q_weight.flatten(0, 1)).unflatten(2, q_weight.shape[:2])
    blocks = _block_products(y.unflatten(2, (block_weight.shape[1], -1)), block_weight)
    return cat((low_rank, blocks.flatten(3)), dim=3)


def _block_keys(x: Float[Tensor, "B J C"], k_weight: Float[Tensor, "G R C"]) -> Float[Tensor, "B J G S"]:
    """``(W_K x, x)``; x is the same for every key head."""
    low_rank = linear(x, k_weight.flatten(0, 1)).unflatten(2, k_weight.shape[:2])
    return cat((low_rank, x[:, :, None].expand(-1, -1, k_weight.shape[0], -1)), dim=3)


def _monarch_queries(y: Float[Tensor, "B I D"], q_weight: Float[Tensor, "H b u e"]) -> Float[Tensor, "B I H S"]:
    """``q[a, (s, t)] = sum_i A[a, (s, t), i] y[a, i]``, u = R C/b."""
    return _block_products(y.unflatten(2, (q_weight.shape[1], -1)), q_weight).flatten(3)


def _monarch_keys(x: Float[Tensor, "B J C"], k_weight: Float[Tensor, "G t w b"]) -> Float[Tensor, "B J G S"]:
    """``k[a, (s, t)] = sum_c B[t, (s, a), c] x[c, t]``, w = R b, in the order of the queries."""
    blocks = k_weight.shape[3]
    across = _block_products(x.unflatten(2, (blocks, -1)).transpose(2, 3), k_weight)
    return across.unflatten(4, (-1, blocks)).permute(0, 1, 2, 5, 4, 3).flatten(3)


def _block_products(parts: Float[Tensor, "B n p e"], weights: Float[Tensor, "h p u e"]) -> Float[Tensor, "B n h p u"]:
    """Every part through its own block of every head: one batched product over the parts."""
    heads, count, rows, _ = weights.shape
    batch, tokens = parts.shape[:2]
    flat = parts.flatten(0, 1).transpose(0, 1)
    products = flat @ weights.permute(1, 3, 0, 2).flatten(2)
    return products.view(count, batch, tokens, heads, rows).permute(1, 2, 3, 0, 4)
