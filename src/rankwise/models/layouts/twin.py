"""A tiny model of the same architecture, built by ``transformers`` from its own source, with random weights.

Everything that decides how heads are laid out stays (switches, kinds of layers, ratios); widths, vocabularies and
numbers of experts become small. No weights of the model are read, no code of its own is run, nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rankwise.models.layouts.twin_config import known_config, without_remarks

_TOKENS = 12
_VOCABULARY = 50
_SMALL = {
    "vocab_size": _VOCABULARY, "hidden_size": 64, "d_model": 64, "n_embd": 64, "dim": 64, "emb_dim": 64,
    "embedding_size": 64, "embed_dim": 64, "num_attention_heads": 8, "n_head": 8, "n_heads": 8, "num_heads": 8,
    "encoder_attention_heads": 8, "decoder_attention_heads": 8, "attention_heads": 8, "head_dim": 8, "d_kv": 8,
    "kv_channels": 8, "rotary_dim": 4, "intermediate_size": 52, "n_inner": 52, "ffn_dim": 52, "d_ff": 52,
    "encoder_ffn_dim": 52, "decoder_ffn_dim": 52, "hidden_dim": 52, "moe_intermediate_size": 12,
    "shared_expert_intermediate_size": 12, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "max_position_embeddings": 64, "n_positions": 64,
    "image_size": 16, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "kv_lora_rank": 14, "q_lora_rank": 18, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
    "v_head_dim": 5, "projection_dim": 20, "out_hidden_size": 64, "sliding_window": 5, "local_attention": 4,
    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": _VOCABULARY, "max_seq_len": 64,
    "max_source_positions": 32, "max_target_positions": 32, "num_mel_bins": 8, "n_ctx": 64, "query_pre_attn_scalar": 9,
    "type_vocab_size": 2, "entity_vocab_size": 20, "pronunciation_vocab_size": 20,
    "shape_vocab_size": 20, "mamba_n_heads": 8, "mamba_d_head": 16, "n_mamba_heads": 8, "mamba_headdim": 16,
    "attention_hidden_size": 128, "attention_head_dim": 16,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
_GROUPED = ("num_key_value_heads", "num_kv_heads")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
           "num_decoder_layers", "depth")  # fmt: skip
_MOST_LAYERS = 128


def tiny_twin(config: Mapping[str, Any]) -> nn.Module | None:
    """A tiny model of the architecture, all weights random; None where it cannot be built."""
    known = known_config(config)
    if known is None or _too_deep(config):
        return None
    from transformers import AutoModel

    for small in (_SMALL, {key: value for key, value in _SMALL.items() if key != "rotary_dim"}):
        try:
            shrunk = type(known)(**_shrunk(known.to_dict(), small))
            with without_remarks():
                model = AutoModel.from_config(shrunk, attn_implementation="eager")
        except Exception:
            continue
        if sum(parameter.numel() for parameter in model.parameters()) > 2**25:
            return None
        return randomised(model.float().eval())
    return None


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with every parameter drawn anew: matrices around 0, gains and biases around 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.requires_grad:  # a table of sines, which is part of the architecture
                continue
            centre = 1.0 if parameter.ndim == 1 else 0.0
            parameter.copy_(centre + 0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def run_twin(model: Any) -> None:
    """Two random inputs through every part of the model that takes one."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, _VOCABULARY, (2, _TOKENS), generator=generator)
    inputs: list[dict[str, Tensor]] = [{"input_ids": tokens}, {"input_ids": tokens, "decoder_input_ids": tokens}]
    image = torch.randn(2, 3, 16, 16, generator=generator)
    inputs += [{"input_ids": tokens, "pixel_values": image}, {"pixel_values": image}]
    sound = torch.randn(2, 4000, generator=generator)
    inputs += [{"input_values": sound}]
    for length in (32, 64):
        features = torch.randn(2, 8, length, generator=generator)
        inputs += [{"input_features": features}, {"input_features": features, "decoder_input_ids": tokens}]
    frames = torch.randn(2, 40, 80, generator=generator)
    inputs += [{"input_features": frames, "decoder_input_ids": tokens}]
    towers = [module for name, module in model.named_modules() if name in _TOWERS]
    with torch.no_grad(), without_remarks():
        for part in [model, *towers]:
            for given in inputs:
                try:
                    part(**given)
                except Exception:
                    continue


_TOWERS = ("text_model", "vision_model", "vision_tower", "visual", "audio_tower", "vision_tower.vision_model")


def _too_deep(config: Mapping[str, Any]) -> bool:
    parts = [config, *(value for value in config.values() if isinstance(value, Mapping))]
    depths = [part.get(key) for part in parts for key in _LAYERS]
    return any(isinstance(depth, int) and depth > _MOST_LAYERS for depth in depths)


def _shrunk(config: Mapping[str, Any], small: Mapping[str, int]) -> dict[str, Any]:
    """The same configuration with small sizes; what is null stays null, lists stay as they are."""
    heads = next((config[key] for key in ("num_attention_heads", "n_head", "num_heads", "n_heads")
                  if isinstance(config.get(key), int)), None)  # fmt: skip
    several = "vl" in str(config.get("model_type"))  # positions in time, height and width
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and (key.endswith("_config") or key in ("encoder", "decoder")):
            found[key] = _shrunk(value, small)
        elif key in _GROUPED and isinstance(value, int):
            found[key] = 8 if value == heads else 1 if value == 1 else 2
        elif key == "pad_token_id":
            found[key] = 0
        elif isinstance(value, Mapping) and ("mrope_section" in value or (key == "rope_parameters" and several)):
            found[key] = {**value, "mrope_section": [2, 1, 1]}
        elif key in small and isinstance(value, int | float) and not isinstance(value, bool):
            found[key] = small[key]
        else:
            found[key] = value
    found.pop("model_type", None)
    return found
