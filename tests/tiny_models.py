"""Random tiny models of every layout, built from a configuration alone; every dimension differs from every other."""

import torch
import transformers
from transformers import AutoModel

LAYERS, VOCAB = 2, 50
_TEXT = {"vocab_size": VOCAB, "max_position_embeddings": 64}
_LLAMA = _TEXT | {
    "hidden_size": 42, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 44,
    "num_hidden_layers": LAYERS,
}  # fmt: skip
_BERT = _TEXT | {"hidden_size": 40, "num_attention_heads": 5, "intermediate_size": 44, "num_hidden_layers": LAYERS}
_MLA = _TEXT | {
    "hidden_size": 39, "num_attention_heads": 3, "num_key_value_heads": 3, "intermediate_size": 44,
    "moe_intermediate_size": 12, "num_hidden_layers": LAYERS, "kv_lora_rank": 14, "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4, "v_head_dim": 5, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 2,
}  # fmt: skip

CONFIGS = {
    "gpt2": ("GPT2Config", {"vocab_size": VOCAB, "n_positions": 64, "n_embd": 40, "n_head": 5, "n_layer": LAYERS}),
    "bert": ("BertConfig", _BERT),
    "roberta": ("RobertaConfig", _BERT),
    "distilbert": ("DistilBertConfig", _TEXT | {"dim": 40, "n_heads": 5, "hidden_dim": 44, "n_layers": LAYERS}),
    "vit": ("ViTConfig", _BERT | {"image_size": 16, "patch_size": 8}),
    "llama": ("LlamaConfig", _LLAMA),
    "llama-biased": ("LlamaConfig", _LLAMA | {"attention_bias": True}),
    "llama-multi-query": ("LlamaConfig", _LLAMA | {"num_key_value_heads": 1}),
    "mistral": ("MistralConfig", _LLAMA | {"sliding_window": 16}),
    "qwen2": ("Qwen2Config", _LLAMA),
    "qwen3": ("Qwen3Config", _LLAMA),
    "qwen3-biased": ("Qwen3Config", _LLAMA | {"attention_bias": True}),
    "gemma2": ("Gemma2Config", _LLAMA | {"query_pre_attn_scalar": 9}),
    "gemma3": ("Gemma3TextConfig", _LLAMA | {"query_pre_attn_scalar": 9, "sliding_window": 16}),
    "gpt-neox": ("GPTNeoXConfig", _BERT | {"rotary_pct": 0.5}),
    "falcon-multi-query": ("FalconConfig", {"vocab_size": VOCAB, "hidden_size": 40, "num_attention_heads": 5,
                                            "num_hidden_layers": LAYERS, "multi_query": True}),
    "falcon-grouped": ("FalconConfig", {"vocab_size": VOCAB, "hidden_size": 48, "num_attention_heads": 6,
                                        "num_kv_heads": 2, "num_hidden_layers": LAYERS, "bias": True,
                                        "new_decoder_architecture": True}),
    "falcon-alibi": ("FalconConfig", {"vocab_size": VOCAB, "hidden_size": 40, "num_attention_heads": 5,
                                      "num_hidden_layers": LAYERS, "multi_query": False, "alibi": True, "bias": True}),
    "whisper": ("WhisperConfig", {"vocab_size": VOCAB, "d_model": 40, "encoder_layers": 1, "decoder_layers": LAYERS,
                                  "encoder_attention_heads": 4, "decoder_attention_heads": 5, "encoder_ffn_dim": 44,
                                  "decoder_ffn_dim": 44, "num_mel_bins": 8, "max_source_positions": 16,
                                  "max_target_positions": 16, "pad_token_id": 0, "bos_token_id": 1,
                                  "eos_token_id": 2, "decoder_start_token_id": 1}),
    "t5": ("T5Config", {"vocab_size": VOCAB, "d_model": 40, "d_kv": 7, "d_ff": 44, "num_layers": 1, "num_heads": 6,
                        "num_decoder_layers": LAYERS}),
    "deepseek-v2": ("DeepseekV2Config", _MLA | {"q_lora_rank": None}),
    "deepseek-v3": ("DeepseekV3Config", _MLA | {"q_lora_rank": 18}),
}  # fmt: skip


def tiny_model(name, *, dtype=torch.float32, seed=0, **changes):
    """A model of the layout ``name``, all weights (gains and biases too) drawn from the seed."""
    kind, fields = CONFIGS[name]
    torch.manual_seed(seed)
    config = getattr(transformers, kind)(**fields | changes)
    model = randomised(AutoModel.from_config(config, attn_implementation="eager"), seed)
    return model.to(dtype).eval()


def randomised(model, seed):
    """The model with every parameter drawn from the seed: matrices around 0, gains and biases around 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            centre = 1.0 if parameter.ndim == 1 else 0.0
            parameter.copy_(centre + 0.2 * torch.randn(parameter.shape, generator=generator))
    return model
