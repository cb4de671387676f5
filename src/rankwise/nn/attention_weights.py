"""The weights of attention with free sizes, and the linear maps that they are: what happens before and after mixing.

Legend: B batch, I queries, J keys, D dim, C context dim, H heads, G key/value heads, R rank, V value rank.
"""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rankwise.errors import InvalidInputError
from rankwise.nn.factored import FactoredMatrix
from rankwise.nn.projecting import projected
from rankwise.nn.structured import structured_keys, structured_queries
from rankwise.spec import AttentionSpec, RotarySpec


class AttentionWeights(nn.Module):
    """``q_weight`` [H, R, D], ``k_weight`` [G, R, C], ``v_weight`` [G, V, C], ``o_weight`` [H, V, D], and their biases.

    What each does in attention: ``MultiheadAttention``, which is these weights and a way to mix values.
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
    ) -> Self:
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

    def extra_repr(self) -> str:
        """The sizes, and the options that are not the defaults."""
        fields = self.spec.__dataclass_fields__
        shown = {name: getattr(self.spec, name) for name in fields}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items() if value != fields[name].default)

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
