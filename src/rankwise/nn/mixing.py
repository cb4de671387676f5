"""From queries, keys and values to the mixed values: the part of attention between its projections.

Legend: B batch, I queries, J keys, H heads, G key heads, W value heads (both divide H), S = H/G query heads of a
key head, R rank, V value rank.
Every tensor stays in the order its projection wrote it, [B, tokens, heads, size], so that a key head that serves
all queries (G = 1: multi-query attention, or a merged projection) costs no copy.
Scores arrive scaled: the caller folds 1/sqrt(R) and the temperature into the queries' weights.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import dropout as dropped
from torch.nn.functional import pad, scaled_dot_product_attention

from rankwise.errors import InvalidInputError
from rankwise.nn.cpu.gate import hand_gradients_apply
from rankwise.nn.cpu.short_mix import ProductMix, ShortMix, products_pay, turning_pays
from rankwise.nn.masks import structural_mask, token_positions

# Below this many keys the batched product beats the fused kernel on a CPU (benchmarks/layer.py measures both).
FUSED_KERNEL_FROM_KEYS = 96


def softmax_mix(
    queries: Float[Tensor, "B I H R"],
    keys: Float[Tensor, "B J G R"],
    values: Float[Tensor, "B J W V"],
    visible: Bool[Tensor, "b h i J"] | None,
    *,
    added: Float[Tensor, "_ _ _ J"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "B I H V"]:
    """``softmax(q k^T + added) v`` for every head; a query that sees no key gets zeros.

    - ``visible``: which keys count; None for all.
    - ``added``: added to the scores; where it is minus infinity, ``visible`` must be False.
    - ``causal``: stands for the plain causal mask when ``visible`` is None, for kernels that know it without one.
    - ``dropout``: the share of attention weights set to zero, the others growing by 1 / (1 - dropout).
    """
    if _fused_pays(queries, keys, values):
        return _fused_mix(queries, keys, values, visible, added, causal, dropout)
    if causal:
        asking, asked = (token_positions(None, x.shape[1], x.device) for x in (queries, keys))
        structure = structural_mask(asking, asked, causal=True, window=None)
        visible = None if structure is None else structure[:, None]
    mixed: Tensor
    if added is None and not dropout and hand_gradients_apply(keys):
        if visible is None and products_pay(queries, keys, values):
            mixed = ProductMix.apply(queries, keys, values)
            return mixed
        if turning_pays(queries, keys, values):
            mixed = ShortMix.apply(queries, keys, values, None if visible is None else ~visible)
            return mixed
    weights = _grouped_softmax(queries, keys, visible, added)
    return _weighted_sum(dropped(weights, dropout) if dropout else weights, values)


def softmax_weights(
    queries: Float[Tensor, "B I H R"],
    keys: Float[Tensor, "B J G R"],
    visible: Bool[Tensor, "b h i J"] | None,
    added: Float[Tensor, "_ _ _ J"] | None = None,
) -> Float[Tensor, "B H I J"]:
    """The attention matrix itself: ``softmax(q k^T + added)``, zero where hidden."""
    return _grouped_softmax(queries, keys, visible, added).transpose(2, 3).flatten(1, 2)


def weighted_sum(
    weights: Float[Tensor, "B H I J"], values: Float[Tensor, "B J W V"], dropout: float = 0.0
) -> Float[Tensor, "B I H V"]:
    """``sum_j weights[i, j] v_j`` for a given attention matrix per head."""
    return _weighted_sum((dropped(weights, dropout) if dropout else weights)[:, :, :, None], values)


def hardmax_choice(
    queries: Float[Tensor, "B I H R"],
    keys: Float[Tensor, "B J G R"],
    visible: Bool[Tensor, "b h i J"] | None,
    added: Float[Tensor, "_ _ _ J"] | None = None,
) -> Int[Tensor, "B I H"]:
    """The key each query chooses: argmax of its scores, ties to the lowest index; -1 where it sees none."""
    scores = _grouped_scores(queries, keys)
    if added is not None:
        scores = scores + _grouped_mask(added, keys.shape[2])
    if not torch.compiler.is_compiling() and scores.isnan().any():
        raise InvalidInputError("hardmax: expected numbers, got NaN among the scores, of which none is the largest")
    if visible is None:
        choice = scores.argmax(-1)
    else:
        grouped = _grouped_mask(visible, keys.shape[2])
        choice = scores.masked_fill(~grouped, float("-inf")).argmax(-1).masked_fill(~grouped.any(-1), -1)
    return choice.transpose(1, 2).flatten(2)


def choose(
    choice: Int[Tensor, "B I H"], values: Float[Tensor, "B J W V"], dropout: float = 0.0
) -> Float[Tensor, "B I H V"]:
    """The chosen values, copied and not multiplied, so that they are exact; zeros for a choice of -1."""
    batch, _, heads = choice.shape
    example = torch.arange(batch, device=choice.device)[:, None, None]
    value_head = torch.arange(heads, device=choice.device) // (heads // values.shape[2])
    chosen = values[example, choice.clamp(min=0), value_head].masked_fill((choice < 0)[..., None], 0.0)
    return chosen * dropped(chosen.new_ones(*choice.shape, 1), dropout) if dropout else chosen


def choice_weights(choice: Int[Tensor, "B I H"], keys: int, dtype: torch.dtype) -> Float[Tensor, "B H I J"]:
    """The one-hot attention matrix of a choice."""
    return (choice.transpose(1, 2)[..., None] == torch.arange(keys, device=choice.device)).to(dtype)


def _grouped_scores(queries: Float[Tensor, "B I H R"], keys: Float[Tensor, "B J G R"]) -> Float[Tensor, "B G I S J"]:
    """All scores of a key head in one product, whose rows are (query, query head of the group)."""
    groups = keys.shape[2]
    rows = queries.unflatten(2, (groups, -1)).transpose(1, 2)
    columns = keys.transpose(1, 2).flatten(0, 1)
    scores = torch.bmm(rows.flatten(2, 3).flatten(0, 1), columns.mT)
    return scores.view(*rows.shape[:4], keys.shape[1])


def _grouped_softmax(
    queries: Float[Tensor, "B I H R"],
    keys: Float[Tensor, "B J G R"],
    visible: Bool[Tensor, "b h i J"] | None,
    added: Float[Tensor, "_ _ _ J"] | None,
) -> Float[Tensor, "B G I S J"]:
    scores = _grouped_scores(queries, keys)
    if added is not None:
        scores = scores + _grouped_mask(added, keys.shape[2]).to(scores.dtype)
    if visible is None:
        return scores.softmax(-1)
    hidden = ~_grouped_mask(visible, keys.shape[2])
    # A finite floor, not -inf: a row without a visible key must not become NaN, forward or backward.
    return scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)


def _grouped_mask(mask: Shaped[Tensor, "b h i J"], groups: int) -> Shaped[Tensor, "b g i s J"]:
    if mask.shape[1] == 1:
        return mask[:, :, :, None]
    return mask.unflatten(1, (groups, -1)).transpose(2, 3)


def _weighted_sum(weights: Float[Tensor, "B G I S J"], values: Float[Tensor, "B J W V"]) -> Float[Tensor, "B I H V"]:
    value_heads = values.shape[2]
    if weights.shape[1] != value_heads:  # keys and values are shared by different groups of heads
        weights = weights.transpose(1, 2).flatten(2, 3).unflatten(2, (value_heads, -1)).transpose(1, 2)
    mixed = torch.bmm(weights.flatten(2, 3).flatten(0, 1), values.transpose(1, 2).flatten(0, 1))
    return mixed.view(*weights.shape[:4], values.shape[3]).transpose(1, 2).flatten(2, 3)


def _fused_pays(
    queries: Float[Tensor, "B I H R"], keys: Float[Tensor, "B J G R"], values: Float[Tensor, "B J W V"]
) -> bool:
    if torch.compiler.is_exporting():  # an exported program must not depend on the length it was traced with
        return True
    if queries.shape[1] == 1 and not torch.is_grad_enabled():
        # Decoding: padding the smaller rank would copy the cache for every token.
        return keys.shape[2:] == values.shape[2:]
    return keys.shape[1] >= FUSED_KERNEL_FROM_KEYS


def _fused_mix(
    queries: Float[Tensor, "B I H R"],
    keys: Float[Tensor, "B J G R"],
    values: Float[Tensor, "B J W V"],
    visible: Bool[Tensor, "b h i J"] | None,
    added: Float[Tensor, "_ _ _ J"] | None,
    causal: bool,
    dropout: float,
) -> Float[Tensor, "B I H V"]:
    """``scaled_dot_product_attention``, which never holds an I x J matrix when both ranks agree: pad the smaller."""
    groups, value_heads, heads = keys.shape[2], values.shape[2], queries.shape[2]
    if groups != value_heads:
        shared = max(groups, value_heads)
        keys = keys.repeat_interleave(shared // groups, dim=2)
        values = values.repeat_interleave(shared // value_heads, dim=2)
    rank, value_rank = keys.shape[3], values.shape[3]
    if rank < value_rank:
        queries, keys = pad(queries, (0, value_rank - rank)), pad(keys, (0, value_rank - rank))
    elif value_rank < rank:
        values = pad(values, (0, rank - value_rank))
    bias: Tensor | None = visible
    if added is not None and visible is not None:
        bias = added.to(queries.dtype).masked_fill(~visible, float("-inf"))
    rows = queries.transpose(1, 2)
    alone = queries.shape[1] == 1 and not causal
    if alone:  # the heads that share a key head are its queries, so that nothing is read or expanded twice
        rows = rows.reshape(len(queries), keys.shape[2], -1, queries.shape[3])
        if bias is not None and bias.shape[1] > 1:
            bias = bias.reshape(len(bias), keys.shape[2], -1, bias.shape[3])
    mixed = scaled_dot_product_attention(
        rows,
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=bias,
        dropout_p=dropout,
        is_causal=causal,
        scale=1.0,
        enable_gqa=rows.shape[1] != keys.shape[2],
    )
    if alone:
        mixed = mixed.reshape(len(queries), heads, 1, -1)
    return mixed.transpose(1, 2)[..., :value_rank]
