"""Multi-head latent attention: keys and values of every head are unfolded from one small latent per token.

Legend: B batch, I tokens, J tokens with those of a cache, D dim, H heads,
S = nope + rope score coordinates, V value coordinates,
L_q and L_kv the latents' dimensions, P rotating pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn.cache import TokenCache
from rankwise.nn.factored import FactoredMatrix
from rankwise.nn.masks import Positions, checked_positions, combined_mask, structural_mask, token_positions
from rankwise.nn.mixing import softmax_mix, softmax_weights, weighted_sum
from rankwise.nn.rotary import rotate, rotation
from rankwise.spec import LatentSpec


class LatentAttention(nn.Module):
    """Self-attention of DeepSeek-V2 and V3 from a ``LatentSpec``; equal to theirs in ``transformers`` weight by weight.

    With ``n`` the RMSNorm (its gain included), ``R_i`` the rotation of position i and one rope key for all heads::

        q_h,i = [ U_Q,h n(D_Q x_i) ; R_i U_R,h n(D_Q x_i) ]          k_h,j = [ U_K,h n(D_KV x_j) ; R_j D_R x_j ]
        output_i = sum_h W_O,h sum_j softmax_j( <q_h,i, k_h,j> / sqrt(nope + rope) ) U_V,h n(D_KV x_j)

    (without ``q_lora_rank``, n(D_Q x) is x). One matmul takes x to all latents, one each to the queries, to the keys
    and values, and to the output, whatever H is. Keys and values are unfolded before attention, as in training and
    prefill, or, where that is less work (decoding from a cache), U_K is absorbed into the queries and U_V into the
    output, so that heads attend to the latents themselves. YaRN, which stretches the rotary frequencies and multiplies
    the score scale by mscale^2 in the long-context checkpoints, is out of scope: the scale is the plain one.
    """

    def __init__(
        self, spec: LatentSpec, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        if not isinstance(spec, LatentSpec):
            raise InvalidInputError(f"LatentAttention: expected a LatentSpec, got {type(spec).__name__}")

        def linear(source: int, target: int, bias: bool = False) -> nn.Linear:
            return nn.Linear(source, target, bias=bias, device=device, dtype=dtype)

        def norm(size: int) -> nn.RMSNorm:
            return nn.RMSNorm(size, eps=spec.norm_eps, device=device, dtype=dtype)

        self.spec = spec
        self.down = linear(spec.dim, (spec.q_lora_rank or 0) + spec.cached_per_token, spec.bias)
        self.query_norm = None if spec.q_lora_rank is None else norm(spec.q_lora_rank)
        self.query_up = linear(spec.query_source_dim, spec.heads * spec.score_dim)
        self.latent_norm = norm(spec.kv_lora_rank)
        self.latent_up = linear(spec.kv_lora_rank, spec.heads * (spec.qk_nope_head_dim + spec.v_head_dim))
        self.out = linear(spec.heads * spec.v_head_dim, spec.dim, spec.bias)

    def score_scale(self, head: int = 0) -> float:
        """What multiplies ``<q, k>``: 1 / sqrt(nope + rope), the same for every head."""
        return float(self.spec.score_dim**-0.5)

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes that decoding keeps per token in this layer's type: kv_lora_rank + rope scalars."""
        return self.spec.cache_bytes_per_token(self.out.weight.element_size())

    def new_cache(self, batch: int, capacity: int) -> TokenCache:
        """An empty cache for ``capacity`` tokens: ``cached_per_token`` numbers each, whatever H is."""
        weight = self.out.weight
        sizes = ((1, self.spec.cached_per_token),)
        return TokenCache(batch, capacity, sizes, device=weight.device, dtype=weight.dtype)

    def forward(
        self,
        x: Float[Tensor, "..."],
        *,
        mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        positions: Positions | None = None,
        cache: TokenCache | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "... I D"] | tuple[Float[Tensor, "... I D"], Float[Tensor, "... H I J"]]:
        """Self-attention, with or without earlier tokens.

        - ``x``: [B, I, D], or [I, D]; then batch is left out everywhere, and a ``mask`` may be [H, I, J].
        - ``mask``: [I, J], [B, I, J] or [B, H, I, J], where B, H and I may be 1: booleans, True = visible, or numbers
          that are added to the scores.
        - ``key_padding_mask``: [B, J]: booleans, True = padding that nobody sees, or numbers that are added.
        - ``positions``: [I] or [B, I]; 0, 1, 2, ... by default, and with a ``cache`` the places after its last token.
        - ``cache``: earlier tokens, which x sees too, and to which it is added (``new_cache``); J counts them.
        - ``return_weights``: also return the attention matrices [B, H, I, J], before dropout.

        Of a token that may see no key the output is zero and so are its weights, never NaN.
        """
        if x.ndim != 2:
            output, weights = self._attend(x, mask, key_padding_mask, positions, cache, return_weights)
            return output if weights is None else (output, weights)
        mask = mask[None] if mask is not None and mask.ndim == 3 else mask
        padding = None if key_padding_mask is None else key_padding_mask[None]
        output, weights = self._attend(x[None], mask, padding, positions, cache, return_weights)
        return output[0] if weights is None else (output[0], weights[0])

    def _attend(
        self,
        x: Tensor,
        mask: Tensor | None,
        key_padding_mask: Tensor | None,
        positions: Positions | None,
        cache: TokenCache | None,
        return_weights: bool,
    ) -> tuple[Float[Tensor, "B I D"], Float[Tensor, "B H I J"] | None]:
        """``forward`` of a batch; its last value is None unless ``return_weights``."""
        spec, dropout = self.spec, self.spec.dropout if self.training else 0.0
        if x.ndim != 3 or x.shape[-1] != spec.dim:
            raise ShapeError(f"x: expected [batch, tokens, dim] = [B, N, {spec.dim}], got {list(x.shape)}")
        if cache is not None and not spec.causal:
            raise InvalidInputError("cache: expected a causal layer, whose earlier tokens never change")
        batch, tokens, _ = x.shape
        kept = 0 if cache is None else cache.length
        positions = checked_positions("positions", positions, batch, tokens, x.device)
        placed = positions is not None
        masked = mask is not None or key_padding_mask is not None or placed
        asking = token_positions(positions, tokens, x.device)
        if cache is not None:
            asking = cache.next_positions(tokens, positions)

        queries, latents = self._latents(x, asking)
        asked = asking
        if cache is not None:
            (latents,) = cache.extend((latents,), asking if placed else None)
            asked = token_positions(
                None if cache.positions is None else cache.positions[:, : cache.length], cache.length, x.device
            )
        sizes = (batch, spec.heads, tokens, latents.shape[1])
        visible, added = None, None
        plain_causal = spec.causal and not masked and not kept
        if not plain_causal or return_weights:
            newest = kept > 0 and tokens == 1 and not placed  # which sees all that is kept
            structure = None if newest else structural_mask(asking, asked, causal=spec.causal, window=None)
            visible, added = combined_mask(structure, mask, key_padding_mask, sizes)

        absorbed = cache is not None and _absorbing_pays(spec, tokens, latents.shape[1])
        queries, keys, values = self._absorbed(queries, latents) if absorbed else self._unfolded(queries, latents)
        weights = None
        if return_weights:
            weights = softmax_weights(queries, keys, visible, added)
            mixed = weighted_sum(weights, values, dropout)
        else:
            mixed = softmax_mix(queries, keys, values, visible, added=added, causal=plain_causal, dropout=dropout)
        if absorbed:
            mixed = torch.einsum("bihl,hvl->bihv", mixed, self._up()[1])
        output: Tensor = self.out(mixed.flatten(2))
        if masked and visible is not None:
            sees_nothing = ~visible.any(-1).any(1)
            output = output.masked_fill(sees_nothing[..., None], 0.0)
        return output, weights

    def _latents(
        self, x: Float[Tensor, "B I D"], positions: Int[Tensor, "b I"]
    ) -> tuple[Float[Tensor, "B I H S"], Float[Tensor, "B I 1 _"]]:
        """Queries of all heads (already times the score scale), and what a cache keeps: latent and turned rope key."""
        spec = self.spec
        nope, rope = spec.qk_nope_head_dim, spec.qk_rope_head_dim
        query_latent, latent, key_rope = self.down(x).split((spec.q_lora_rank or 0, spec.kv_lora_rank, rope), dim=-1)
        source = x if self.query_norm is None else self.query_norm(query_latent)
        # the scale goes where there is least to multiply
        queries = self.query_up(source * self.score_scale()).unflatten(-1, (spec.heads, spec.score_dim))
        latent = self.latent_norm(latent)[:, :, None]
        if not rope:
            return queries, latent
        cos, sin = rotation(positions[..., None], spec.rope, rope, x.dtype)
        query_nope, query_rope = queries.split((nope, rope), dim=-1)
        queries = torch.cat((query_nope, rotate(query_rope, cos, sin, spec.rope.interleaved)), dim=-1)
        return queries, torch.cat((latent, rotate(key_rope[:, :, None], cos, sin, spec.rope.interleaved)), dim=-1)

    def _unfolded(
        self, queries: Float[Tensor, "B I H S"], latents: Float[Tensor, "B J 1 _"]
    ) -> tuple[Float[Tensor, "B I H S"], Float[Tensor, "B J H S"], Float[Tensor, "B J H V"]]:
        """Keys and values of every head, from the latents of all tokens."""
        spec = self.spec
        latent, key_rope = latents.split((spec.kv_lora_rank, spec.qk_rope_head_dim), dim=-1)
        nope, heads = spec.qk_nope_head_dim, spec.heads
        unfolded = self.latent_up(latent.squeeze(2)).unflatten(-1, (heads, nope + spec.v_head_dim))
        keys, values = unfolded.split((nope, spec.v_head_dim), dim=-1)
        if spec.qk_rope_head_dim:
            keys = torch.cat((keys, key_rope.expand(-1, -1, heads, -1)), dim=-1)
        return queries, keys, values

    def _absorbed(
        self, queries: Float[Tensor, "B I H S"], latents: Float[Tensor, "B J 1 _"]
    ) -> tuple[Float[Tensor, "B I H _"], Float[Tensor, "B J 1 _"], Float[Tensor, "B J 1 _"]]:
        """``<q, U_K c> = <U_K^T q, c>``: queries for the latents themselves, one key head for all."""
        nope, rope = queries.split((self.spec.qk_nope_head_dim, self.spec.qk_rope_head_dim), dim=-1)
        queries = torch.cat((torch.einsum("bihn,hnl->bihl", nope, self._up()[0]), rope), dim=-1)
        return queries, latents, latents[..., : self.spec.kv_lora_rank]

    def _up(self) -> tuple[Float[Tensor, "H nope L"], Float[Tensor, "H V L"]]:
        """U_K and U_V of every head."""
        sizes = (self.spec.qk_nope_head_dim, self.spec.v_head_dim)
        keys, values = self.latent_up.weight.unflatten(0, (self.spec.heads, -1)).split(sizes, dim=1)
        return keys, values

    def qk_nope(self, head: int) -> FactoredMatrix:
        """``D_Q^T g_Q U_Q,h^T  U_K,h g_KV D_KV`` [D, D] of rank at most nope, the norms' gains g folded in.

        The scores without positions are ``score_scale * x_i^T qk_nope x_j / (rms(D_Q x_i) rms(D_KV x_j))``, biases
        apart: the norms only divide each token by a positive number (no query norm without ``q_lora_rank``).
        """
        nope = self.spec.qk_nope_head_dim
        return FactoredMatrix(self._query_rows(head)[:nope].mT, self._latent_rows(head)[:nope])

    def qk_rope(self, head: int) -> FactoredMatrix:
        """``D_Q^T g_Q U_R,h^T  D_R`` [D, D] of rank at most rope: the positional scores at offset 0.

        They are ``score_scale * x_i^T qk_rope x_j / rms(D_Q x_i)`` where i and j share one position.
        """
        key_rows = self.down.weight[self.down.out_features - self.spec.qk_rope_head_dim :]
        return FactoredMatrix(self._query_rows(head)[self.spec.qk_nope_head_dim :].mT, key_rows)

    def ov(self, head: int) -> FactoredMatrix:
        """``W_O,h  U_V,h g_KV D_KV`` [D, D] of rank at most v_head_dim; token j adds ``ov x_j / rms(D_KV x_j)``."""
        size = self.spec.v_head_dim
        values = self._latent_rows(head)[self.spec.qk_nope_head_dim :]
        return FactoredMatrix(self.out.weight[:, head * size : (head + 1) * size], values)

    def _query_rows(self, head: int) -> Float[Tensor, "S D"]:
        rows = self._rows_of(self.query_up, head)
        if self.query_norm is None:
            return rows
        return rows * self.query_norm.weight @ self.down.weight[: self.spec.q_lora_rank]

    def _latent_rows(self, head: int) -> Float[Tensor, "nope_and_V D"]:
        rows = self._rows_of(self.latent_up, head)
        start = self.spec.q_lora_rank or 0
        return rows * self.latent_norm.weight @ self.down.weight[start : start + self.spec.kv_lora_rank]

    def _rows_of(self, up: nn.Linear, head: int) -> Float[Tensor, "rows source"]:
        if not 0 <= head < self.spec.heads:
            raise InvalidInputError(f"head: expected 0 .. {self.spec.heads - 1}, got {head}")
        size = up.out_features // self.spec.heads
        return up.weight[head * size : (head + 1) * size]

    @classmethod
    def from_transformers(cls, state: Mapping[str, Tensor], spec: LatentSpec) -> LatentAttention:
        """The layer with the weights of ``DeepseekV2Attention`` or ``DeepseekV3Attention`` (their ``state_dict()``).

        ``spec`` says what the weights cannot: the rope base, whether pairs are interleaved (V2: always; V3:
        ``rope_interleave``), causality. Type and device are those of the weights.
        """
        expected = _transformers_shapes(spec)
        missing, unknown = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
        if missing or unknown:
            raise InvalidInputError(
                f"state: expected exactly {sorted(expected)} for {spec}; missing {missing}, unexpected {unknown}"
            )
        for name, shape in expected.items():
            if tuple(state[name].shape) != shape:
                raise ShapeError(f"{name}: expected {list(shape)} for {spec}, got {list(state[name].shape)}")
        weight = state["o_proj.weight"]
        if not weight.is_floating_point():
            raise InvalidInputError(f"o_proj.weight: expected floating-point weights, got {weight.dtype}")
        layer = cls(spec, device="meta").to(weight.dtype).to_empty(device=weight.device)
        layer.load_state_dict(_from_transformers_names(state, spec))
        return layer

    def to_transformers(self) -> dict[str, Tensor]:
        """This layer's weights under the names and in the shapes of ``transformers``, sharing memory."""
        own, spec = self.state_dict(), self.spec
        sizes = (spec.q_lora_rank or 0, spec.cached_per_token)
        state = {_QUERY_UP[spec.q_lora_rank is None]: own["query_up.weight"]}
        state |= {theirs: own[ours] for theirs, ours in _SAME.items() if ours in own}
        for kind in ("weight", "bias") if spec.bias else ("weight",):
            query, latent = own[f"down.{kind}"].split(sizes)
            state[f"kv_a_proj_with_mqa.{kind}"] = latent
            if spec.q_lora_rank is not None:
                state[f"q_a_proj.{kind}"] = query
        return state


def _absorbing_pays(spec: LatentSpec, queries: int, keys: int) -> bool:
    """Whether attending to the latents takes fewer multiplications than unfolding them: per head, ::

    absorbed  I (nope + V) L  +  I J (2 L + rope)      unfolded  J (nope + V) L  +  I J (nope + rope + V)
    """
    folded, L = spec.qk_nope_head_dim + spec.v_head_dim, spec.kv_lora_rank
    absorbed = queries * folded * L + queries * keys * (2 * L + spec.qk_rope_head_dim)
    return absorbed < keys * folded * L + queries * keys * (folded + spec.qk_rope_head_dim)


_QUERY_UP = ("q_b_proj.weight", "q_proj.weight")  # with and without a query latent
_SAME = {
    "q_a_layernorm.weight": "query_norm.weight",
    "kv_a_layernorm.weight": "latent_norm.weight",
    "kv_b_proj.weight": "latent_up.weight",
    "o_proj.weight": "out.weight",
    "o_proj.bias": "out.bias",
}


def _transformers_shapes(spec: LatentSpec) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(tensor.shape) for name, tensor in LatentAttention(spec, device="meta").to_transformers().items()
    }


def _from_transformers_names(state: Mapping[str, Tensor], spec: LatentSpec) -> dict[str, Tensor]:
    own = {ours: state[theirs] for theirs, ours in _SAME.items() if theirs in state}
    own["query_up.weight"] = state[_QUERY_UP[spec.q_lora_rank is None]]
    for kind in ("weight", "bias") if spec.bias else ("weight",):
        parts = [] if spec.q_lora_rank is None else [state[f"q_a_proj.{kind}"]]
        own[f"down.{kind}"] = torch.cat([*parts, state[f"kv_a_proj_with_mqa.{kind}"]])
    return own
