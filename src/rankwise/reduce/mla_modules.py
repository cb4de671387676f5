"""A decoder's attention in the form of DeepSeek-V2: the stock class's own code, with our weights.

Legend: D dim, H query heads, G key heads, R rank, k size of the latent, p rotary numbers, m both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rankwise.errors import InvalidInputError
from rankwise.reduce.latent_modules import joint_map
from rankwise.reduce.linear_modules import bias_of, weight_of
from rankwise.reduce.mla_shape import MlaDirections, MlaShape, slow_rows
from rankwise.reduce.sites import Site

_FAMILIES = {"LlamaForCausalLM", "MistralForCausalLM"}


class LatentAndSlots(nn.Module):
    """``[latent, rotary key]`` of a token; apart, so that healing sees each in its own size."""

    def __init__(self, down: tuple[Tensor, Tensor], rope: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.down, self.rope = _linear(*down), _linear(*rope)

    def forward(self, hidden: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B N m"]:
        return torch.cat([self.down(hidden), self.rope(hidden)], -1)


class MlaBlock(nn.Module):
    """Stands where a Llama's attention stood, and calls the stock attention of DeepSeek-V2."""

    def __init__(self, attention: nn.Module, frequencies: Float[Tensor, " slots"]) -> None:
        super().__init__()
        self.attention = attention
        self.frequencies: Tensor
        self.register_buffer("frequencies", frequencies, persistent=False)

    def forward(
        self, hidden_states: Tensor, position_ids: Tensor, position_embeddings: object = None, **options: Any
    ) -> Any:
        turns = position_ids[..., None].float() * self.frequencies
        return self.attention(hidden_states, position_embeddings=torch.polar(torch.ones_like(turns), turns), **options)


@dataclass(frozen=True)
class MlaPlan:
    """One layer in this form; weights and biases of its projections."""

    site: Site
    shape: MlaShape
    frequencies: Float[Tensor, " slots"]
    query: Float[Tensor, "query_rows D"]
    down: tuple[Float[Tensor, "k D"], Float[Tensor, " k"]]
    rope: tuple[Float[Tensor, "p D"], Float[Tensor, " p"]]
    up: Float[Tensor, "up_rows k"]
    output: tuple[Float[Tensor, "D HV"], Float[Tensor, " D"]]


def require_mla(model: Any, sites: tuple[Site, ...]) -> None:
    """Refuse a model that the stock class cannot hold, with the reason."""
    kind, config = type(model).__name__, model.config
    reason = None
    if kind not in _FAMILIES:
        reason = f"{kind}: only the blocks of {', '.join(sorted(_FAMILIES))} are those of DeepSeek-V2 but for attention"
    elif getattr(config, "sliding_window", None) is not None:
        reason = "attention within a window, which the stock class does not have"
    elif any(bias_of(model.get_submodule(site.q.module)).any() for site in sites):
        reason = "biases on queries, which the stock class does not have"
    elif config.rope_parameters["rope_type"] in ("dynamic", "longrope", "yarn"):
        reason = f"rotary positions of the kind {config.rope_parameters['rope_type']!r}, which change with the length"
    elif len(model.model.rotary_emb.inv_freq) * 2 != sites[0].k.index.shape[1]:
        reason = "keys of which only a part is rotated"
    if reason is not None:
        raise InvalidInputError(f"--format mla: expected a model that DeepSeek-V2 can hold, got {reason}")


def mla_plan(model: Any, found: MlaDirections, shape: MlaShape) -> MlaPlan:
    """The layer of ``found``, cut to ``shape``."""
    site = found.site
    (heads, rank), group = site.k.index.shape, len(site.q.index) // len(site.k.index)
    half, slow = rank // 2, slow_rows(site, shape.slow)
    weight, bias = joint_map(model, site)
    keys, key_bias = weight[: heads * rank].unflatten(0, (heads, rank)), bias[: heads * rank].view(heads, rank)
    q = weight_of(model.get_submodule(site.q.module)).double()[torch.from_numpy(site.q.index)]

    k = shape.latent
    inside = torch.tensor([head * rank + row for head in range(heads) for row in slow], dtype=torch.int64)
    rows = torch.cat([inside, torch.arange(heads * rank, len(weight))])
    down, up, shift = found.latent.down[:k], found.latent.up[:, :k], found.latent.shift(k)
    slow_up = up[: len(inside)].view(heads, len(slow), k)
    value_up, value_shift = up[len(inside) :].view(heads, -1, k), shift[len(inside) :].view(heads, -1)

    slots, slot_bias, turned = [], [], []
    complex_keys = torch.complex(keys[:, :half], keys[:, half:])
    complex_bias = torch.complex(key_bias[:, :half], key_bias[:, half:])
    complex_q = torch.complex(q[:, :half], q[:, half:])
    for at, count in enumerate(shape.slots):
        for slot in range(count):
            mix = found.slots[at].down[slot]
            slots.append(torch.view_as_real((mix[:, None] * complex_keys[:, at]).sum(0)).mT)
            slot_bias.append(torch.view_as_real((mix * complex_bias[:, at]).sum()))
            back = found.slots[at].up[:, slot].conj().repeat_interleave(group)
            turned.append(torch.view_as_real(back[:, None] * complex_q[:, at]).transpose(1, 2))
    size = len(slow) + shape.rope
    scale = float(model.get_submodule(site.attention).scaling) * size**0.5
    query = scale * torch.cat([q[:, slow], *turned], 1)
    expanded = torch.cat([slow_up, value_up], 1).repeat_interleave(group, 0)
    o_module = model.get_submodule(site.o.module)
    o = weight_of(o_module).double()[:, torch.from_numpy(site.o.index)]
    constant = torch.einsum("dhv,hv->d", o, value_shift.repeat_interleave(group, 0))
    return MlaPlan(
        site=site,
        shape=shape,
        frequencies=model.model.rotary_emb.inv_freq.repeat_interleave(torch.tensor(shape.slots)),
        query=query.flatten(0, 1).float(),
        down=((down @ weight[rows]).float(), (down @ bias[rows]).float()),
        rope=(torch.cat(slots).float(), torch.cat(slot_bias).float()),
        up=expanded.flatten(0, 1).float(),
        output=(o.flatten(1).float(), (bias_of(o_module).double() + constant).float()),
    )


def mla_config(model: Any, plan: MlaPlan) -> Any:
    """The stock configuration of a model of such layers."""
    from transformers import DeepseekV2Config

    old, shape = model.config, plan.shape
    dim, base = shape.rope, 10_000.0
    standard = base ** (torch.arange(0, dim, 2).float() / dim)  # what the stock class divides its factors into
    factors = (1 / (plan.frequencies.double() * standard.double())).tolist()
    longest = old.max_position_embeddings
    return DeepseekV2Config(
        vocab_size=old.vocab_size,
        hidden_size=old.hidden_size,
        intermediate_size=old.intermediate_size,
        num_hidden_layers=old.num_hidden_layers,
        num_attention_heads=old.num_attention_heads,
        num_key_value_heads=old.num_attention_heads,
        hidden_act=old.hidden_act,
        max_position_embeddings=longest,
        rms_norm_eps=old.rms_norm_eps,
        bos_token_id=old.bos_token_id,
        eos_token_id=old.eos_token_id,
        pad_token_id=old.pad_token_id,
        tie_word_embeddings=old.tie_word_embeddings,
        attention_bias=True,
        mlp_bias=getattr(old, "mlp_bias", False),
        head_dim=dim,
        first_k_dense_replace=old.num_hidden_layers,
        kv_lora_rank=shape.latent,
        q_lora_rank=None,
        qk_nope_head_dim=len(slow_rows(plan.site, shape.slow)),
        qk_rope_head_dim=dim,
        v_head_dim=plan.site.v.index.shape[1],
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": base,
            "factor": 1.0,
            "attention_factor": 1.0,
            "long_factor": factors,
            "short_factor": factors,
            "original_max_position_embeddings": longest,
        },
        attn_implementation=old._attn_implementation,
    )


def mla_modules(model: Any, plan: MlaPlan) -> Mapping[str, nn.Module]:
    """The stock attention of ``plan`` under the path of the attention it replaces; its norm left out."""
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention

    before: Any = model.get_submodule(plan.site.attention)
    config = mla_config(model, plan)
    with torch.device("meta"):
        attention: Any = DeepseekV2Attention(config, int(before.layer_idx))
    attention.q_proj = _linear(plan.query, None)
    attention.kv_a_proj_with_mqa = LatentAndSlots(plan.down, plan.rope)
    attention.kv_a_layernorm = nn.Identity()
    attention.kv_b_proj = _linear(plan.up, None)
    attention.o_proj = _linear(*plan.output)
    return {plan.site.attention: MlaBlock(attention.eval(), plan.frequencies)}


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    made.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        made.bias = nn.Parameter(bias, requires_grad=False)
    return made
