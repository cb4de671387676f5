"""Multi-head attention in which dim, heads, rank, value rank, key heads and context dim are all free.

Legend: B batch, I queries, J keys, D dim, C context dim, H heads, G key/value heads, R rank, V value rank.
"""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn.cache import TokenCache
from rankwise.nn.factored import FactoredMatrix
from rankwise.nn.masks import combined_mask, structural_mask, token_positions
from rankwise.nn.merging import merged_scores_pay, merged_values_pay
from rankwise.nn.mixing import (
    choice_weights,
    choose,
    hardmax_choice,
    softmax_mix,
    softmax_weights,
    weighted_sum,
)
from rankwise.nn.projecting import projected
from rankwise.nn.rotary import rotated_pair
from rankwise.nn.structured import structured_keys, structured_queries
from rankwise.spec import AttentionSpec, RotarySpec


class MultiheadAttention(nn.Module):
    """``y_i -> (1/A) [ sum_h W_O,h W_V,g X phi_j(s_h <W_Q,h y_i, W_K,g x_j>) + sum of A output biases ]``.

    g = h // (H/G); phi is softmax, or hardmax (one-hot argmax, ties to the lowest index); s_h = e^{beta_h}/sqrt(R)
    with beta_h = 0, or learned, one scalar a head (``temperature="learned"``). Every projection has a bias
    (``bias=True``). Weights are stored a head at a time: ``q_weight`` [H, R, D], ``k_weight`` [G, R, C],
    ``v_weight`` [G, V, C], ``o_weight`` [H, V, D], and ``o_bias`` [A, D]; A = ``average`` (1: the plain sum).

    Other options: ``qk_norm`` RMS-normalises every query and key over its R coordinates with one learned gain for
    all heads; ``rope`` rotates queries and keys (a ``RotarySpec``, a base, or True); ``causal`` lets a query at
    position i see keys at positions j <= i; ``window`` w lets it see ``|i - j| < w``. ``rank`` may exceed ``dim``.
    ``score_form`` "block_low_rank" or "monarch" with ``blocks`` gives every head a full-rank form ``W_Q^T W_K`` at a
    fraction of the weights (``rankwise.nn.structured``); R is then ``spec.score_dim`` in the formula above.
    ``dropout`` sets that share of the attention weights to zero in training.

    Gradient of hardmax: it flows through the chosen value and the output map; through the choice there is none,
    so the weights of queries and keys (and the temperature) receive none, or zeros.

    Unlike ``torch.nn.MultiheadAttention``: batch comes first, ``mask`` is True where visible, a query that sees no key
    yields zeros (no bias either) instead of NaN, and ``rank`` is dim / heads only where none is given.
    Whatever the sizes, each projection is one matrix product; where it saves work (large rank) W_Q^T W_K or W_O W_V
    are multiplied first. The bias of keys adds the same to all scores of a query and cancels; ``k_bias`` (kept for
    exchange with other libraries) then receives no gradient, elsewhere one that is zero up to rounding.
    """

    q_bias: nn.Parameter | None
    k_bias: nn.Parameter | None
    v_bias: nn.Parameter | None
    o_bias: nn.Parameter | None
    log_beta: nn.Parameter | None
    block_weight: nn.Parameter | None

    def __init__(
        self,
        dim: int,
        heads: int,
        rank: int | None = None,
        *,
        value_rank: int | None = None,
        kv_heads: int | None = None,
        context_dim: int | None = None,
        scores: Literal["softmax", "hardmax"] = "softmax",
        temperature: Literal["fixed", "learned"] = "fixed",
        qk_norm: bool = False,
        rope: RotarySpec | float | None = None,
        causal: bool = False,
        window: int | None = None,
        bias: bool = True,
        average: int = 1,
        score_form: Literal["low_rank", "block_low_rank", "monarch"] = "low_rank",
        blocks: int | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        spec = AttentionSpec(
            dim=dim,
            heads=heads,
            rank=AttentionSpec.standard(dim=dim, heads=heads).rank if rank is None else rank,
            value_rank=value_rank,
            kv_heads=kv_heads,
            context_dim=context_dim,
            scores=scores,
            temperature=temperature,
            qk_norm=qk_norm,
            rope=_rotary_spec(rope),
            causal=causal,
            window=window,
            bias=bias,
            average=average,
            score_form=score_form,
            blocks=blocks,
            dropout=dropout,
        )
        self.spec = spec
        D, C, H, G, R, V = spec.dim, spec.source_dim, spec.heads, spec.key_heads, spec.score_dim, spec.value_dim

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        score_shapes = spec.score_shapes()
        self.q_weight, self.k_weight = parameter(*score_shapes["q_weight"]), parameter(*score_shapes["k_weight"])
        self.block_weight = parameter(*score_shapes["block_weight"]) if "block_weight" in score_shapes else None
        self.v_weight, self.o_weight = parameter(G, V, C), parameter(H, V, D)
        if bias:
            self.q_bias, self.k_bias, self.v_bias = parameter(H, R), parameter(G, R), parameter(G, V)
            self.o_bias = parameter(spec.average, D)
        else:
            for name in ("q_bias", "k_bias", "v_bias", "o_bias"):
                self.register_parameter(name, None)
        if temperature == "learned":
            self.log_beta = parameter(H)
        else:
            self.register_parameter("log_beta", None)
        self.q_norm = nn.RMSNorm(R, eps=1e-6, device=device, dtype=dtype) if qk_norm else None
        self.k_norm = nn.RMSNorm(R, eps=1e-6, device=device, dtype=dtype) if qk_norm else None
        self.reset_parameters()

    @classmethod
    def from_spec(
        cls, spec: AttentionSpec, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> MultiheadAttention:
        """The layer that ``spec`` describes."""
        fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
        return cls(**fields, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Initialise as PyTorch does, a head at a time: the scale of Q and K depends on neither H nor R.

        Q, K, V ~ U(+-sqrt(6 / (4 fan-in))), O ~ U(+-1/sqrt(H V / A)), biases and log beta 0, gains 1.
        """
        for weight in (self.q_weight, self.k_weight, self.block_weight, self.v_weight):
            if weight is not None:
                nn.init.uniform_(weight, -math.sqrt(1.5 / weight.shape[-1]), math.sqrt(1.5 / weight.shape[-1]))
        bound = math.sqrt(self.spec.average / (self.spec.heads * self.spec.value_dim))
        nn.init.uniform_(self.o_weight, -bound, bound)
        for zero in (self.q_bias, self.k_bias, self.v_bias, self.o_bias, self.log_beta):
            if zero is not None:
                nn.init.zeros_(zero)
        for norm in (self.q_norm, self.k_norm):
            if norm is not None:
                norm.reset_parameters()

    @overload
    def forward(
        self,
        query: Float[Tensor, "... D"],
        context: Float[Tensor, "... C"] | None = None,
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        positions: Int[Tensor, "..."] | None = None,
        context_positions: Int[Tensor, "..."] | None = None,
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
        positions: Int[Tensor, "..."] | None = None,
        context_positions: Int[Tensor, "..."] | None = None,
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
        positions: Int[Tensor, "..."] | None = None,
        context_positions: Int[Tensor, "..."] | None = None,
        cache: TokenCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Self-attention ``attn(x)`` or cross-attention ``attn(query, context)``.

        Args:
            query: [B, I, D], or [I, D]; then batch is left out everywhere, and a ``mask`` may be [H, I, J].
            context: [B, J, C], the tokens that keys and values are read from; None means ``query`` itself.
            mask: [I, J], [B, I, J] or [B, H, I, J], where B, H and I may be 1: booleans, True = visible, or numbers
                that are added to the scores.
            key_padding_mask: [B, J]: booleans, True = padding that nobody sees, or numbers that are added.
            positions: [I] or [B, I], where the queries stand (for ``rope``, ``causal`` and ``window``); 0, 1, 2, ... by
                default, and with a ``cache`` the places after its last token.
            context_positions: [J] or [B, J], the same for the context; ``positions`` in self-attention.
            cache: earlier tokens, which the query sees too, and to which it is added (``new_cache``); J counts them.
            return_weights: also return the attention matrices [B, H, I, J], before dropout.
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
        places: tuple[Tensor | None, Tensor | None],
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

    def qk(self, head: int) -> FactoredMatrix:
        """``W_Q^T W_K`` [D, C] of one head: the bilinear form of its scores, before scale, temperature and bias."""
        h, g = self._head(head)
        if self.spec.score_form == "low_rank":
            return FactoredMatrix(self.q_weight[h].mT, self.k_weight[g])
        every_query, every_key = (
            torch.eye(size, device=self.q_weight.device, dtype=self.q_weight.dtype)[None]
            for size in (self.spec.dim, self.spec.source_dim)
        )
        queries = structured_queries(every_query, self.q_weight, self.block_weight)
        keys = structured_keys(every_key, self.k_weight, self.block_weight)
        return FactoredMatrix(queries[0, :, h], keys[0, :, g].mT)

    def ov(self, head: int) -> FactoredMatrix:
        """``W_O W_V`` [D, C] of one head: what it adds to the output for a token it attends to (before 1/A)."""
        h, g = self._head(head)
        return FactoredMatrix(self.o_weight[h].mT, self.v_weight[g])

    def score_scale(self, head: int) -> Float[Tensor, ""]:
        """What multiplies ``<W_Q y, W_K x>`` of one head: e^beta / sqrt(R), beta = 0 unless learned."""
        h, scales = self._head(head)[0], self._score_scales()
        return self.q_weight.new_tensor(scales) if isinstance(scales, float) else scales[h, 0]

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> MultiheadAttention:
        """The same function with free sizes; keeps dtype and device. Batch comes first here, and masks are inverted."""
        from rankwise.nn.torch_exchange import from_torch

        return from_torch(cls, module)

    def to_torch(self) -> nn.MultiheadAttention:
        """The same function as PyTorch's module, where that exists: ``heads*rank == dim == heads*value_rank``."""
        from rankwise.nn.torch_exchange import to_torch

        return to_torch(self)

    def extra_repr(self) -> str:
        """The sizes, and the options that are not the defaults."""
        fields = self.spec.__dataclass_fields__
        shown = {name: getattr(self.spec, name) for name in fields}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items() if value != fields[name].default)

    def _checked(
        self,
        query: Tensor,
        context: Tensor | None,
        positions: Tensor | None,
        context_positions: Tensor | None,
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
        for name, given, tokens in (
            ("positions", positions, query.shape[1]),
            ("context_positions", context_positions, context.shape[1]),
        ):
            if given is not None and given.shape not in ((tokens,), (query.shape[0], tokens)):
                raise ShapeError(
                    f"{name}: expected [{tokens}] or [{query.shape[0]}, {tokens}], got {list(given.shape)}"
                )
        return query, context, positions, context_positions

    def _head(self, head: int) -> tuple[int, int]:
        if isinstance(head, bool) or not isinstance(head, int) or not 0 <= head < self.spec.heads:
            raise InvalidInputError(f"head: expected a whole number from 0 to {self.spec.heads - 1}, got {head!r}")
        return head, head // (self.spec.heads // self.spec.key_heads)

    def _score_scales(self) -> Float[Tensor, "H 1"] | float:
        """e^beta / sqrt(R), for every head or for all."""
        scale = self.spec.score_dim**-0.5
        return scale if self.log_beta is None else self.log_beta[:, None].exp() * scale

    def _projections(
        self, query: Float[Tensor, "B I D"], context: Float[Tensor, "B J C"], merge_scores: bool, merge_values: bool
    ) -> tuple[Float[Tensor, "B I H r"], Float[Tensor, "B J g r"], Float[Tensor, "B J w v"]]:
        """Scaled queries, keys and values, each of its rank, or, where merged, with the context for keys or values."""
        if self.spec.score_form != "low_rank":
            queries, keys = self._structured_projections(query, context)
            values = context[:, :, None] if merge_values else projected(context, [(self.v_weight, self.v_bias)])[0]
            return queries, keys, values
        parts = [self._merged_scores() if merge_scores else self._scaled_queries()]
        parts += [] if merge_scores else [(self.k_weight, self.k_bias)]
        parts += [] if merge_values else [(self.v_weight, self.v_bias)]
        if context is query:
            flat = projected(query, parts)
        else:
            flat = projected(query, parts[:1]) + (projected(context, parts[1:]) if len(parts) > 1 else [])
        as_it_is = context[:, :, None]
        queries, *others = flat
        keys = as_it_is if merge_scores else others[0]
        return queries, keys, as_it_is if merge_values else others[-1]

    def _structured_projections(
        self, query: Float[Tensor, "B I D"], context: Float[Tensor, "B J C"]
    ) -> tuple[Float[Tensor, "B I H r"], Float[Tensor, "B J G r"]]:
        scales = 1.0 if self.q_norm is not None else self._score_scales()

        def scaled(weight: Tensor) -> Tensor:
            return weight * (scales if isinstance(scales, float) else scales.view(-1, *[1] * (weight.ndim - 1)))

        blocks = None if self.block_weight is None else scaled(self.block_weight)
        queries = structured_queries(query, scaled(self.q_weight), blocks)
        keys = structured_keys(context, self.k_weight, blocks)
        queries = queries if self.q_bias is None else queries + scaled(self.q_bias)
        return queries, keys if self.k_bias is None else keys + self.k_bias

    def _scaled_queries(self) -> tuple[Float[Tensor, "H R D"], Float[Tensor, "H R"] | None]:
        """The weights carry the score scale, because there are fewer of them than activations."""
        if self.q_norm is not None:
            return self.q_weight, self.q_bias
        scales = self._score_scales()
        weight = self.q_weight * (scales if isinstance(scales, float) else scales[..., None])
        return weight, None if self.q_bias is None else self.q_bias * scales

    def _merged_scores(self) -> tuple[Float[Tensor, "H C D"], Float[Tensor, "H C"] | None]:
        """``s_h W_K^T (W_Q y + b_Q)``, a query for the context itself.

        In (W_Q y + b_Q)^T (W_K x + b_K) the part without x is the same for all keys, so it cancels in the softmax.
        """
        q_weight, q_bias = self._scaled_queries()
        to_context = self._every_head(self.k_weight).mT
        return to_context @ q_weight, None if q_bias is None else (to_context @ q_bias[..., None]).squeeze(-1)

    def _output_map(self, merge_values: bool) -> tuple[Float[Tensor, "hv D"], Float[Tensor, "D"] | None]:
        """The flat map from all heads' mixed values (or, merged, mixed contexts) to the output."""
        A = self.spec.average
        weight = self.o_weight if A == 1 else self.o_weight / A
        bias = None if self.o_bias is None else self.o_bias[0] if A == 1 else self.o_bias.mean(0)
        if merge_values:
            if self.v_bias is not None and bias is not None:
                # Attention weights sum to one, so the bias of values reaches the output unchanged; they do not where a
                # mask hides every key from one head alone, which is why such masks are not merged.
                bias = torch.addmv(bias, weight.flatten(0, 1).mT, self._every_head(self.v_bias).flatten())
            weight = self._every_head(self.v_weight).mT @ weight
        return weight.flatten(0, 1), bias

    def _every_head(self, shared: Float[Tensor, "G ..."]) -> Float[Tensor, "H ..."]:
        group = self.spec.heads // self.spec.key_heads
        return shared if group == 1 else shared.repeat_interleave(group, 0)


def _rotary_spec(rope: RotarySpec | float | None) -> RotarySpec | None:
    if rope is None or isinstance(rope, RotarySpec):
        return rope
    if rope is True:
        return RotarySpec()
    if isinstance(rope, bool) or not isinstance(rope, int | float):
        raise InvalidInputError(f"rope: expected a RotarySpec, a base such as 10000.0, True or None, got {rope!r}")
    return RotarySpec(base=float(rope))
