"""Small GGUF models as the reference library writes them."""

import numpy as np

DIM, HEADS, GROUPS, RANK, LAYERS = 64, 6, 2, 8, 2


def write_gguf(path, architecture="llama", quantisation="F32", edit=None, layers=LAYERS, **metadata):
    """A small model; ``edit`` may change a layer's tensors; they are returned."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_embedding_length(DIM)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_key_length(RANK)
    writer.add_value_length(RANK)
    writer.add_rope_dimension_count(RANK)
    writer.add_token_list([f"token {i}" for i in range(5000)])
    writer.add_token_scores([0.5] * 5000)
    for key, value in metadata.items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}[type(value)]
        add(f"{architecture}.{key}", value)
    rng = np.random.default_rng(0)
    written = {}
    for layer in range(layers):
        tensors = {
            "attn_norm": np.ones(DIM), "attn_q": rng.normal(size=(HEADS * RANK, DIM)),
            "attn_k": rng.normal(size=(GROUPS * RANK, DIM)), "attn_v": rng.normal(size=(GROUPS * RANK, DIM)),
            "attn_output": rng.normal(size=(DIM, HEADS * RANK)),
        }  # fmt: skip
        if edit is not None:
            edit(tensors)
        for name, tensor in tensors.items():
            kind = gguf.GGMLQuantizationType[quantisation if tensor.ndim == 2 and tensor.shape[1] % 32 == 0 else "F32"]
            data = gguf.quants.quantize(tensor.astype(np.float32), kind)
            writer.add_tensor(f"blk.{layer}.{name}.weight", data, raw_dtype=kind)
            written[f"blk.{layer}.{name}.weight"] = gguf.quants.dequantize(data, kind).reshape(tensor.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written
