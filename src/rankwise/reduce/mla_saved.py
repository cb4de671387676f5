"""A reduced model as a checkpoint of the stock DeepSeek-V2 class, which loads it without our code.

The class puts a norm on the latent, ``c / sqrt(mean(c^2) + 1e-6)``. A latent scaled by 2^-24 leaves of that only the
constant, which the norm's weight takes back, exact to the rounding of float32. Attention is therefore written in
float32; all other weights keep their stored type.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rankwise.reduce.cutting import Installed
from rankwise.reduce.mla_modules import MlaBlock, MlaPlan, mla_config

_SMALL, _NORM_EPSILON = 2.0**-24, 1e-6


def stock_config(model: Any, installed: Installed) -> Any:
    """The configuration of DeepSeek-V2 for ``model``, in which layers are ``installed``."""
    config = mla_config(model, next(cut for cut in installed.cuts if isinstance(cut, MlaPlan)))
    config.architectures, config.dtype = ["DeepseekV2ForCausalLM"], "float32"
    return config


def stock_attention(installed: Installed) -> dict[str, Tensor]:
    """The tensors of all attention under the names of the stock class, in float32."""
    tensors: dict[str, Tensor] = {}
    for path, block in installed.modules.items():
        assert isinstance(block, MlaBlock)
        attention: Any = block.attention
        both = attention.kv_a_proj_with_mqa
        tensors |= {
            f"{path}.q_proj.weight": attention.q_proj.weight,
            f"{path}.kv_a_proj_with_mqa.weight": torch.cat([_SMALL * both.down.weight, both.rope.weight]),
            f"{path}.kv_a_proj_with_mqa.bias": torch.cat([_SMALL * both.down.bias, both.rope.bias]),
            f"{path}.kv_a_layernorm.weight": torch.full((len(both.down.bias),), _NORM_EPSILON**0.5 / _SMALL),
            f"{path}.kv_b_proj.weight": attention.kv_b_proj.weight,
            f"{path}.o_proj.weight": attention.o_proj.weight,
            f"{path}.o_proj.bias": attention.o_proj.bias,
        }
    return {name: value.detach().contiguous() for name, value in tensors.items()}
