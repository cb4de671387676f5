"""Tiny random models of the architectures that ``transformers`` has, and their heads cut by hand from its own modules.

Sizes come from the default configuration of each class, every known width made small. Heads are cut by what the modules
themselves say (``num_heads``, ``head_dim``), not by names of files or configurations; fused tensors by a table.
"""

import re
import warnings
from dataclasses import dataclass

import torch
from transformers import AutoConfig, AutoModel
from transformers.utils import logging

_SMALL = {
    "vocab_size": 50, "hidden_size": 48, "d_model": 48, "n_embd": 48, "dim": 48, "emb_dim": 48, "embedding_size": 48,
    "embed_dim": 48, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2,
    "decoder_layers": 2, "num_decoder_layers": 2, "depth": 2, "num_attention_heads": 6, "n_head": 6, "n_heads": 6,
    "num_heads": 6, "encoder_attention_heads": 6, "decoder_attention_heads": 6, "attention_heads": 6,
    "num_key_value_heads": 2, "num_kv_heads": 2, "head_dim": 8, "d_kv": 8, "intermediate_size": 52, "n_inner": 52,
    "ffn_dim": 52, "d_ff": 52, "encoder_ffn_dim": 52, "decoder_ffn_dim": 52, "hidden_dim": 52,
    "moe_intermediate_size": 12, "shared_expert_intermediate_size": 12, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "max_position_embeddings": 64,
    "n_positions": 64, "image_size": 16, "patch_size": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "projection_dim": 20, "out_hidden_size": 48, "sliding_window": 5, "rotary_dim": 4,
    "kv_channels": 8, "max_seq_len": 64, "max_source_positions": 32, "max_target_positions": 32, "num_mel_bins": 8,
    "n_ctx": 64,
}  # fmt: skip
_MAMBA = {"mamba_n_heads": 6, "mamba_d_head": 16}
_LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
_CHANGES = {
    "granitemoehybrid": _MAMBA | {"layer_types": ["mamba", "attention"]},
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "zamba2": {"layer_types": ["mamba", "hybrid"], "mamba_headdim": 16, "n_mamba_heads": 6},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "qwen3_next": _LINEAR | {"layer_types": ["linear_attention", "full_attention"]},
    "recurrent_gemma": {"num_hidden_layers": 3, "attention_window_size": 5},
    "codegen": {"n_head": 8, "n_embd": 64},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 5},
    "nemotron": {"num_key_value_heads": 2},
    "hunyuan_v1_dense": {"head_dim": 8},
    "ministral": {"head_dim": 8},
    "roc_bert": {"pronunciation_vocab_size": 20, "shape_vocab_size": 20},
    "esm": {"vocab_size": 50},
    "luke": {"entity_vocab_size": 20},
    "swin": {"image_size": 32, "num_heads": [2, 4], "depths": [1, 2], "embed_dim": 24, "window_size": 2},
    "swinv2": {"image_size": 32, "num_heads": [2, 4], "depths": [1, 2], "embed_dim": 24, "window_size": 2},
}
ARCHITECTURES = (
    "gpt2", "bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "vit", "llama", "mistral",
    "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "gemma3", "gpt_neox",
    "falcon", "whisper", "t5", "mt5", "opt", "phi", "phi3", "phimoe", "olmo", "olmo2", "olmo3", "olmoe", "gpt_oss",
    "granite", "granitemoe", "granitemoeshared", "granitemoehybrid", "glm", "glm4", "glm4_moe", "stablelm",
    "starcoder2", "smollm3", "cohere", "cohere2", "llama4_text", "qwen3_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl",
    "mllama", "llava", "paligemma", "mpnet", "albert", "modernbert", "deberta", "deberta-v2", "nomic_bert", "esm",
    "bart", "mbart", "marian", "m2m_100", "pegasus", "blenderbot", "plbart", "clip", "siglip", "dinov2",
    "dinov2_with_registers", "dinov3_vit", "beit", "data2vec-vision", "deit", "swin", "wav2vec2", "hubert", "wavlm",
    "unispeech", "sew", "data2vec-audio", "bloom", "mpt", "gptj", "gpt_neo", "gpt_bigcode", "codegen", "jamba",
    "bamba", "zamba2", "lfm2", "nemotron_h", "nemotron", "persimmon", "xglm", "biogpt", "openai-gpt", "ctrl", "xlm",
    "flaubert", "ernie", "ernie4_5", "megatron-bert", "rembert", "roformer", "exaone4", "seed_oss", "helium",
    "arcee", "apertus", "umt5", "longt5", "t5gemma", "pixtral", "internvl", "xlm-roberta-xl", "recurrent_gemma",
    "convbert", "mobilebert", "xlnet", "jetmoe"
)  # fmt: skip
REFUSED = {
    "convbert": "something else than these heads",  # some heads are convolutions
    "mobilebert": "of the same .* inputs as the keys",  # values see another input than keys
    "xlnet": "expected tensors named like",  # stored as (in, heads, rank)
    "jetmoe": "expected tensors named like",  # queries are chosen by experts
}
"""Architectures that cannot be placed, and what the refusal says."""

_TRIPLES = (("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("query_proj", "key_proj", "value_proj"),
            ("q_lin", "k_lin", "v_lin"), ("q", "k", "v"), ("Wq", "Wk", "Wv"))  # fmt: skip
_FUSED = ("c_attn", "query_key_value", "qkv_proj", "Wqkv", "qkv", "in_proj")
_OUT = ("o_proj", "out_proj", "dense", "o", "Wo", "proj", "projection", "projection_layer", "out_lin", "c_proj")
_RANKS = ("head_dim", "attention_head_size", "key_value_proj_dim", "dim_per_head", "head_size", "attention_head_dim",
          "depth")  # fmt: skip
_PER_HEAD = {"gpt_neox", "bloom", "falcon", "persimmon", "deberta"}


def tiny_architecture(name):
    """A model of the architecture with all weights random, gains and biases too."""
    kind = type(AutoConfig.for_model(name))
    stated = kind().to_dict()
    changes = _CHANGES.get(name, {})
    fields = {
        key: value for key, value in (_shrunk(stated) | changes).items() if key != "layer_types" or key in changes
    }
    logging.set_verbosity_error()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # some classes still use torch.jit
        model = AutoModel.from_config(kind(**fields), attn_implementation="eager").float().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            centre = 1.0 if parameter.ndim == 1 else 0.0
            parameter.copy_(centre + 0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def _shrunk(stated):
    small = {}
    for key, value in stated.items():
        if isinstance(value, dict) and (key.endswith("_config") or key in ("encoder", "decoder")):
            small[key] = _shrunk(value)
        elif key in _SMALL and isinstance(value, int | float):
            small[key] = _SMALL[key]
    return small


@dataclass
class Heads:
    """Views q[h], k[g], v[g], o[h] of one block, [rank, width], into the model's own parameters."""

    q: list
    k: list
    v: list
    o: list


def cut_heads(name, model):
    """The heads of every block, by the name of the tensor that holds its queries."""
    modules = dict(model.named_modules())
    found = {}
    for path, module in modules.items():
        if "linear_attn" in path or "mamba" in path or hasattr(module, "output_gate"):
            continue
        children = dict(module.named_children())
        triple = next((names for names in _TRIPLES if all(hasattr(children.get(one), "weight") for one in names)), None)
        fused = next((one for one in _FUSED if hasattr(children.get(one), "weight")), None)
        above = modules.get(path.rpartition(".")[0])
        out = next((children[one] for one in _OUT if one in children and one != fused), None)
        out = out if out is not None else getattr(getattr(above, "output", None), "dense", None)
        if triple is not None:
            found[f"{path}.{triple[0]}.weight".lstrip(".")] = _separate(module, [children[one] for one in triple], out)
        elif fused is not None and re.search("att", path):
            found[f"{path}.{fused}.weight"] = _fused(name, module, children[fused], out, model.config)
    return found


def _rank(module, rows):
    for key in _RANKS:
        value = getattr(module, key, None)
        if isinstance(value, int) and value > 0 and rows % value == 0:
            return value
    heads = next(
        getattr(module, key)
        for key in ("num_heads", "n_heads", "n_head", "num_attention_heads")
        if hasattr(module, key)
    )
    return rows // heads


def _rows(weight, rank):
    return list(weight.data.unflatten(0, (-1, rank)))


def _separate(module, projections, out):
    q, k, v = (projection.weight for projection in projections)
    rank = _rank(module, len(q))
    heads, outputs = len(q) // rank, out.weight.data.T
    if len(outputs) * 2 == len(q):  # each query is followed by its gate
        queries = [rows[:rank] for rows in q.data.unflatten(0, (-1, 2 * rank))]
        heads //= 2
    else:
        queries = _rows(q, rank)
    values = len(outputs) // heads
    return Heads(queries, _rows(k, rank), _rows(v, values), _rows_of(outputs, values))


def _rows_of(matrix, rank):
    return list(matrix.unflatten(0, (-1, rank)))


def _fused(name, module, projection, out, config):
    transposed = type(projection).__name__ == "Conv1D"
    weight = projection.weight.data.T if transposed else projection.weight.data
    outputs = out.weight.data if transposed else out.weight.data.T
    rank = _rank(module, len(outputs))
    rows, heads = weight.unflatten(0, (-1, rank)), len(outputs) // rank
    if name == "codegen":
        split = rows.unflatten(0, (4, 3, heads // 4))
        q, v, k = ([split[i, part, j] for i in range(4) for j in range(heads // 4)] for part in range(3))
    elif name in _PER_HEAD and not (name == "falcon" and config.multi_query):
        q, k, v = (list(rows[part::3]) for part in range(3))
    else:
        groups = (len(rows) - heads) // 2
        q, k, v = list(rows[:heads]), list(rows[heads : heads + groups]), list(rows[heads + groups :])
    return Heads(q, k, v, _rows_of(outputs, rank))
