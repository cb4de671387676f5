"""Multi-head latent attention: keys and values of every head are unfolded from one small latent per token.

Legend: B batch, N tokens, D dim, H heads, S = nope + rope score coordinates, V value coordinates,
L_q and L_kv the latents' dimensions, P rotating pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn.factored import FactoredMatrix
from rankwise.nn.masks import combined_mask, structural_mask
from rankwise.nn.mixing import softmax_mix, softmax_weights, weighted_sum
from rankwise.nn.rotary import rotate, rotation
from rankwise.spec.latent import LatentSpec


class LatentAttention(nn.Module):
    """Self-attention of DeepSeek-V2 and V3 from a ``LatentSpec``; equal to theirs in ``transformers`` weight by weight.

    With ``n`` the RMSNorm (its gain included), ``R_i`` the rotation of position i and one rope key for all heads::

        q_h,i = [ U_Q,h n(D_Q x_i) ; R_i U_R,h n(D_Q x_i) ]          k_h,j = [ U_K,h n(D_KV x_j) ; R_j D_R x_j ]
        output_i = sum_h W_O,h sum_j softmax_j( <q_h,i, k_h,j> / sqrt(nope + rope) ) U_V,h n(D_KV x_j)

    (without ``q_lora_rank``, n(D_Q x) is x). One matmul takes x to all latents, one each to the queries, to the keys
    and values, and to the output, whatever H is. Keys and values are unfolded before attention, as in training and
    prefill; decoding with absorbed projections is not offered. YaRN, which stretches the rotary frequencies and
    multiplies the score scale by mscale^2 in the long-context checkpoints, is out of scope: the scale is the plain one.
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

    def forward(
        self,
        x: Float[Tensor, "..."],
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        positions: Tensor | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "B N D"] | tuple[Float[Tensor, "B N D"], Float[Tensor, "B H N N"]]:
        """``x`` [B, N, D] -> [B, N, D], with ``return_weights`` also the attention weights [B, H, N, N].

        ``mask`` (True = visible) is [N, N], [B, N, N] or [B, H, N, N], where B, H and the query's N may be 1;
        ``key_mask`` [B, N] is False at padding; ``positions`` [N] or [B, N] default to 0 .. N - 1.
        Of a token that may see no key the output is zero and so are its weights, never NaN.
        """
        if x.ndim != 3 or x.shape[-1] != self.spec.dim:
            raise ShapeError(f"x: expected [batch, tokens, dim] = [B, N, {self.spec.dim}], got {list(x.shape)}")
        batch, tokens, _ = x.shape
        masked = mask is not None or key_mask is not None or positions is not None
        plain_causal = self.spec.causal and not masked
        visible = None
        if not plain_causal or return_weights:
            placed = self._positions(positions, x)
            structure = structural_mask(placed, placed, causal=self.spec.causal, window=None)
            visible = combined_mask(structure, mask, key_mask, (batch, self.spec.heads, tokens, tokens))

        queries, keys, values = self._unfold(x, self._positions(positions, x))
        weights = None
        if return_weights:
            weights = softmax_weights(queries, keys, visible)
            mixed = weighted_sum(weights, values)
        else:
            mixed = softmax_mix(queries, keys, values, visible, causal=plain_causal)
        output: Tensor = self.out(mixed.flatten(2))
        if masked and visible is not None:
            sees_nothing = ~visible.any(-1).any(1)
            output = output.masked_fill(sees_nothing[..., None], 0.0)
        return output if weights is None else (output, weights)

    def _positions(self, positions: Tensor | None, x: Float[Tensor, "B N D"]) -> Int[Tensor, "b N"]:
        batch, tokens, _ = x.shape
        if positions is None:
            return torch.arange(tokens, device=x.device)[None]
        if positions.dtype not in (torch.int32, torch.int64) or positions.shape not in ((tokens,), (batch, tokens)):
            raise ShapeError(
                f"positions: expected whole numbers [tokens] = [{tokens}] or [batch, tokens] = [{batch}, {tokens}], "
                f"got {positions.dtype} {list(positions.shape)}"
            )
        return positions if positions.ndim == 2 else positions[None]

    def _unfold(
        self, x: Float[Tensor, "B N D"], positions: Int[Tensor, "b N"]
    ) -> tuple[Float[Tensor, "B N H S"], Float[Tensor, "B N H S"], Float[Tensor, "B N H V"]]:
        """Queries (already times the score scale), keys and values of all heads."""
        spec = self.spec
        nope, rope = spec.qk_nope_head_dim, spec.qk_rope_head_dim
        query_latent, latent, key_rope = self.down(x).split((spec.q_lora_rank or 0, spec.kv_lora_rank, rope), dim=-1)
        source = x if self.query_norm is None else self.query_norm(query_latent)
        # the scale goes where there is least to multiply
        queries = self.query_up(source * self.score_scale()).unflatten(-1, (spec.heads, spec.score_dim))
        unfolded = self.latent_up(self.latent_norm(latent)).unflatten(-1, (spec.heads, nope + spec.v_head_dim))
        keys, values = unfolded.split((nope, spec.v_head_dim), dim=-1)

        cos, sin = rotation(positions[..., None], spec.rope, rope, x.dtype)
        query_nope, query_rope = queries.split((nope, rope), dim=-1)
        query_rope = rotate(query_rope, cos, sin, spec.rope.interleaved)
        key_rope = rotate(key_rope[:, :, None], cos, sin, spec.rope.interleaved).expand(-1, -1, spec.heads, -1)
        return torch.cat((query_nope, query_rope), dim=-1), torch.cat((keys, key_rope), dim=-1), values

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
