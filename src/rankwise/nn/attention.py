"""Multi-head attention in which dim, heads, rank, value rank, key heads and context dim are all free.

Legend: B batch, I queries, J keys, D dim, C context dim, H heads, G key/value heads, R rank, V value rank.
"""

from __future__ import annotations

from typing import Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn.attention_weights import AttentionWeights
from rankwise.nn.cache import TokenCache
from rankwise.nn.masks import Positions, checked_positions, combined_mask, structural_mask, token_positions
from rankwise.nn.merging import merged_scores_pay, merged_values_pay
from rankwise.nn.mixing import (
    choice_weights,
    choose,
    hardmax_choice,
    softmax_mix,
    softmax_weights,
    weighted_sum,
)
from rankwise.nn.rotary import rotated_pair


class MultiheadAttention(AttentionWeights):
    """``y_i -> (1/A) [ sum_h W_O,h W_V,g X phi_j(s_h <W_Q,h y_i, W_K,g x_j>) + sum of A output biases ]``.

    g = h // (H/G); phi is softmax, or hardmax (one-hot argmax, ties to the lowest index); s_h = e^{beta_h}/sqrt(R).
    Weights are stored head by head: ``q_weight`` [H, R, D], ``k_weight`` [G, R, C], ``v_weight`` [G, V, C],
    ``o_weight`` [H, V, D], and ``o_bias`` [A, D].

    - ``rank``: R, dim / heads if not given; it may exceed ``dim``.
    - ``temperature``: beta_h is 0, or one learned number per head ("learned").
    - ``bias``: every projection has one.
    - ``average``: A; 1 is the plain sum.
    - ``qk_norm``: RMS-normalise every query and key over its R coordinates, with one learned gain for all heads.
    - ``rope``: rotate queries and keys (a ``RotarySpec``, a base, or True).
    - ``causal``: a query at position i sees keys at positions j <= i; ``window`` w: those with ``|i - j| < w``.
    - ``score_form``: "block_low_rank" or "monarch" with ``blocks`` gives every head a full-rank form ``W_Q^T W_K`` at
      a fraction of the weights (``rankwise.nn.structured``); R is then ``spec.score_dim``.
    - ``dropout``: the share of attention weights that is set to zero in training.

    Unlike ``torch.nn.MultiheadAttention``: batch comes first, ``mask`` is True where visible, and a query that sees no
    key yields zeros (no bias either) instead of NaN. Where it saves work, W_Q^T W_K or W_O W_V are multiplied first.

    Hardmax passes gradients through the chosen value and the output map, not through the choice: queries, keys and
    temperature receive none, or zeros. ``k_bias`` adds the same to all scores of a query and cancels; it is kept for
    exchange with other libraries and receives no gradient, or one that is zero up to rounding.
    """

    @overload
    def forward(
        self,
        query: Float[Tensor, "... D"],
        context: Float[Tensor, "... C"] | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        cache: TokenCache | None = None,
        return_weights: Literal[False] = False,
    ) -> Float[Tensor, "... I D"]: ...

    @overload
    def forward(
        self,
        query: Float[Tensor, "... D"],
        context: Float[Tensor, "... C"] | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        cache: TokenCache | None = None,
        return_weights: Literal[True],
    ) -> tuple[Float[Tensor, "... I D"], Float[Tensor, "... H I J"]]: ...

    def forward(
        self,
        query: Float[Tensor, "... D"],
        context: Float[Tensor, "... C"] | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        cache: TokenCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Self-attention ``attn(x)`` or cross-attention ``attn(query, context)``.

        - ``query``: [B, I, D], or [I, D]; then batch is left out everywhere, and a ``mask`` may be [H, I, J].
        - ``context``: [B, J, C], the tokens that keys and values are read from; None means ``query`` itself.
        - ``mask``: [I, J], [B, I, J] or [B, H, I, J], where B, H and I may be 1: booleans, True = visible, or numbers
          that are added to the scores.
        - ``key_padding_mask``: [B, J]: booleans, True = padding that nobody sees, or numbers that are added.
        - ``positions``: [I] or [B, I], where the queries stand (for ``rope``, ``causal`` and ``window``), as tensor or
          list; 0, 1, 2, ... by default, and with a ``cache`` the places after its last token.
        - ``context_positions``: [J] or [B, J], the same for the context; ``positions`` in self-attention.
        - ``cache``: earlier tokens, which the query sees too, and to which it is added (``new_cache``); J counts them.
        - ``return_weights``: also return the attention matrices [B, H, I, J], before dropout.
        """
        places = (positions, context_positions)
        if query.ndim != 2:
            output, weights = self._attend(query, context, mask, key_padding_mask, places, cache, return_weights)
            return output if weights is None else (output, weights)
        mask = mask[None] if mask is not None and mask.ndim == 3 else mask
        padding = None if key_padding_mask is None else key_padding_mask[None]
        others = None if context is None else context[None]
        output, weights = self._attend(query[None], others, mask, padding, places, cache, return_weights)
        return output[0] if weights is None else (output[0], weights[0])

    def new_cache(self, batch: int, capacity: int) -> TokenCache:
        """An empty cache for ``capacity`` tokens: 2-tensor memory of B capacity G (R + V) numbers."""
        spec, like = self.spec, self.k_weight
        sizes = ((spec.key_heads, spec.score_dim), (spec.key_heads, spec.value_dim))
        return TokenCache(batch, capacity, sizes, device=like.device, dtype=like.dtype)

    def _attend(
        self,
        query: Tensor,
        context: Tensor | None,
        mask: Tensor | None,
        key_padding_mask: Tensor | None,
        places: tuple[Positions | None, Positions | None],
        cache: TokenCache | None,
        return_weights: bool,
    ) -> tuple[Float[Tensor, "B I D"], Float[Tensor, "B H I J"] | None]:
        """``forward`` of a batch; its last value is None unless ``return_weights``."""
        query, context, positions, context_positions = self._checked(query, context, *places, cache)
        spec, dropout = self.spec, self.spec.dropout if self.training else 0.0
        kept = 0 if cache is None else cache.length
        sizes = (query.shape[0], spec.heads, query.shape[1], kept + context.shape[1])
        placed = positions is not None or context_positions is not None
        masked = mask is not None or key_padding_mask is not None or sizes[2] > sizes[3] or placed
        hidden_from_all = sizes[3] == 0
        if hidden_from_all:  # one key that nobody sees stands for none: a largest score needs scores
            context, context_positions = query.new_zeros(sizes[0], 1, spec.source_dim), None

        one_mask = mask is None or mask.ndim < 4 or mask.shape[1] == 1
        merge_scores = cache is None and merged_scores_pay(spec, sizes)
        merge_values = cache is None and one_mask and merged_values_pay(spec, sizes)
        queries, keys, values = self._projections(query, context, merge_scores, merge_values)
        if self.q_norm is not None and self.k_norm is not None:
            queries, keys = self.q_norm(queries) * self._score_scales(), self.k_norm(keys)
        if cache is not None:
            positions = cache.next_positions(sizes[2], positions)
            context_positions = positions
        if spec.rope is not None:
            queries, keys = rotated_pair(queries, keys, positions, context_positions, spec.rope)
        if cache is not None:
            keys, values = cache.extend((keys, values), context_positions if placed else None)
            context_positions = None if cache.positions is None else cache.positions[:, : cache.length]

        visible, added = None, None
        plain_causal = spec.causal and spec.window is None and not masked and not kept
        if hidden_from_all:
            visible = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=query.device)
        elif not plain_causal or return_weights or spec.scores == "hardmax":
            structure = None
            newest = kept > 0 and sizes[2] == 1 and spec.window is None and context_positions is None
            if not newest:  # which sees all that is kept
                asking = token_positions(positions, sizes[2], query.device)
                asked = token_positions(context_positions, sizes[3], query.device)
                structure = structural_mask(asking, asked, causal=spec.causal, window=spec.window)
            visible, added = combined_mask(structure, mask, key_padding_mask, sizes)

        out_weight, out_bias = self._output_map(merge_values)
        weights = None
        if spec.scores == "hardmax":
            choice = hardmax_choice(queries, keys, visible, added)
            mixed = choose(choice, values, dropout)
            weights = choice_weights(choice, sizes[3], query.dtype) if return_weights else None
        elif return_weights:
            weights = softmax_weights(queries, keys, visible, added)
            mixed = weighted_sum(weights, values, dropout)
            weights = weights[..., : sizes[3]]
        else:
            mixed = softmax_mix(queries, keys, values, visible, added=added, causal=plain_causal, dropout=dropout)

        flat = mixed.flatten(2).flatten(0, 1)
        output = flat @ out_weight if out_bias is None else torch.addmm(out_bias, flat, out_weight)
        output = output.view(query.shape)
        if masked and visible is not None:
            sees_nothing = ~visible.any(-1).any(1)
            output = output.masked_fill(sees_nothing[..., None], 0.0)
        return output, weights

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> MultiheadAttention:
        """The same function with free sizes; keeps dtype and device. Batch comes first here, and masks are inverted."""
        from rankwise.nn.torch_exchange import from_torch

        return from_torch(cls, module)

    def to_torch(self) -> nn.MultiheadAttention:
        """The same function as PyTorch's module, where that exists: ``heads*rank == dim == heads*value_rank``."""
        from rankwise.nn.torch_exchange import to_torch

        return to_torch(self)

    def _checked(
        self,
        query: Tensor,
        context: Tensor | None,
        positions: Positions | None,
        context_positions: Positions | None,
        cache: TokenCache | None,
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        spec = self.spec
        if cache is not None and (context is not None or context_positions is not None or not spec.causal):
            raise InvalidInputError(
                "cache: expected self-attention of a causal layer, whose earlier tokens never change; "
                f"got causal={spec.causal} and {'no' if context is None else 'a'} context"
            )
        if query.ndim != 3 or query.shape[2] != spec.dim:
            raise ShapeError(
                f"query: expected [batch, queries, dim={spec.dim}], or the same without batch, got {list(query.shape)}"
            )
        if context is None:
            if spec.source_dim != spec.dim:
                raise InvalidInputError(
                    f"context: expected [batch, keys, context_dim={spec.source_dim}], got None; "
                    f"self-attention needs context_dim = dim = {spec.dim}"
                )
            context, context_positions = query, positions if context_positions is None else context_positions
        elif context.ndim != 3 or context.shape[2] != spec.source_dim or context.shape[0] != query.shape[0]:
            raise ShapeError(
                f"context: expected [batch={query.shape[0]}, keys, context_dim={spec.source_dim}], "
                f"got {list(context.shape)}"
            )
        batch, device = query.shape[0], query.device
        places = checked_positions("positions", positions, batch, query.shape[1], device)
        seen = checked_positions("context_positions", context_positions, batch, context.shape[1], device)
        return query, context, places, seen
