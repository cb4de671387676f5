"""The heads of a ``transformers`` model, cut by hand from its own modules: what the layouts must find in the file.

Every entry is a view into the model's parameters, so that a test can write into one head and nothing else.
"""

from dataclasses import dataclass

import torch


@dataclass
class Heads:
    """Rows q[h], k[g], v[g] [rank, inputs] and o[h] [value rank, outputs] of one layer, and its attention module."""

    name: str
    module: torch.nn.Module
    q: list
    k: list
    v: list
    o: list
    rope_k: torch.Tensor | None = None


def cut(matrix, heads):
    """(heads * rank, inputs) -> rows of each head."""
    return list(matrix.data.unflatten(0, (heads, -1)))


def separate(name, module, names, heads, kv_heads=None):
    q, k, v, o = (getattr(module, part).weight for part in names)
    kv_heads = kv_heads or heads
    return Heads(name, module, cut(q, heads), cut(k, kv_heads), cut(v, kv_heads), cut_columns(o, heads))


def cut_columns(matrix, heads):
    return list(matrix.data.T.unflatten(0, (heads, -1)))


def llama(model):
    config = model.config
    return [
        separate(f"decoder {i}", layer.self_attn, ("q_proj", "k_proj", "v_proj", "o_proj"),
                 config.num_attention_heads, config.num_key_value_heads)
        for i, layer in enumerate(model.layers)
    ]  # fmt: skip


def gpt2(model):
    found = []
    for i, block in enumerate(model.h):
        q, k, v = block.attn.c_attn.weight.data.T.chunk(3)
        heads = model.config.n_head
        o = list(block.attn.c_proj.weight.data.unflatten(0, (heads, -1)))
        found.append(Heads(f"decoder {i}", block.attn, *(list(x.unflatten(0, (heads, -1))) for x in (q, k, v)), o))
    return found


def bert(model):
    heads, found = model.config.num_attention_heads, []
    for i, layer in enumerate(model.encoder.layer):
        own = layer.attention.self
        rows = (cut(part.weight, heads) for part in (own.query, own.key, own.value))
        o = cut_columns(layer.attention.output.dense.weight, heads)
        found.append(Heads(f"encoder {i}", layer.attention, *rows, o))
    return found


def distilbert(model):
    return [
        separate(f"encoder {i}", layer.attention, ("q_lin", "k_lin", "v_lin", "out_lin"), model.config.n_heads)
        for i, layer in enumerate(model.transformer.layer)
    ]


def vit(model):
    return [
        separate(f"encoder {i}", layer.attention, ("q_proj", "k_proj", "v_proj", "o_proj"),
                 model.config.num_attention_heads)
        for i, layer in enumerate(model.layers)
    ]  # fmt: skip


def gpt_neox(model):
    heads, found = model.config.num_attention_heads, []
    for i, layer in enumerate(model.layers):
        fused = layer.attention.query_key_value.weight.data.unflatten(0, (heads, 3, -1))
        o = cut_columns(layer.attention.dense.weight, heads)
        found.append(Heads(f"decoder {i}", layer.attention, *(list(fused[:, part]) for part in range(3)), o))
    return found


def falcon(model):
    config, found = model.config, []
    heads = config.num_attention_heads
    for i, block in enumerate(model.h):
        attention = block.self_attention
        rows = attention.query_key_value.weight.data.unflatten(0, (-1, config.hidden_size // heads))
        if config.new_decoder_architecture:
            step = heads // config.num_kv_heads + 2
            q = [rows[j] for j in range(len(rows)) if j % step < step - 2]
            k, v = list(rows[step - 2 :: step]), list(rows[step - 1 :: step])
        elif config.multi_query:
            q, k, v = list(rows[:heads]), [rows[heads]], [rows[heads + 1]]
        else:
            q, k, v = list(rows[0::3]), list(rows[1::3]), list(rows[2::3])
        found.append(Heads(f"decoder {i}", attention, q, k, v, cut_columns(attention.dense.weight, heads)))
    return found


def whisper(model):
    names, config, found = ("q_proj", "k_proj", "v_proj", "out_proj"), model.config, []
    for i, layer in enumerate(model.encoder.layers):
        found.append(separate(f"encoder {i}", layer.self_attn, names, config.encoder_attention_heads))
    for i, layer in enumerate(model.decoder.layers):
        found.append(separate(f"decoder {i}", layer.self_attn, names, config.decoder_attention_heads))
        found.append(separate(f"cross {i}", layer.encoder_attn, names, config.decoder_attention_heads))
    return found


def t5(model):
    heads, names, found = model.config.num_heads, "qkvo", []
    for i, block in enumerate(model.encoder.block):
        found.append(separate(f"encoder {i}", block.layer[0].SelfAttention, names, heads))
    for i, block in enumerate(model.decoder.block):
        found.append(separate(f"decoder {i}", block.layer[0].SelfAttention, names, heads))
        found.append(separate(f"cross {i}", block.layer[1].EncDecAttention, names, heads))
    return found


def latent(model):
    config, found = model.config, []
    heads, nope = config.num_attention_heads, config.qk_nope_head_dim
    for i, layer in enumerate(model.layers):
        attention = layer.self_attn
        up = attention.kv_b_proj.weight.data.unflatten(0, (heads, -1))
        q = cut((attention.q_proj if config.q_lora_rank is None else attention.q_b_proj).weight, heads)
        o = cut_columns(attention.o_proj.weight, heads)
        rope = attention.kv_a_proj_with_mqa.weight.data[config.kv_lora_rank :]
        found.append(Heads(f"decoder {i}", attention, q, list(up[:, :nope]), list(up[:, nope:]), o, rope))
    return found


_CUTS = {"gpt2": gpt2, "bert": bert, "roberta": bert, "distilbert": distilbert, "vit": vit, "gpt-neox": gpt_neox,
         "falcon": falcon, "whisper": whisper, "t5": t5, "deepseek": latent}  # fmt: skip


def heads_of(name, model):
    """All attention layers of a tiny model, in the order an audit names them."""
    kind = next((kind for kind in _CUTS if name.startswith(kind)), None)
    return llama(model) if kind is None else _CUTS[kind](model)
