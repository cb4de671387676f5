"""The table against the slides' own notation, typed here once more as formulas, and against published configs."""

import subprocess
import sys
from fractions import Fraction

import pytest

from rankwise.shapes import LatentShape, ModelShape, published_shapes, shape_of_config
from rankwise.shapes.published import SLIDES as FROM_THE_SLIDES

SLIDES = [  # year, model, d, L, w / d, D, r, H r / d
    (2017, "Attention is all you need", 512, 6, 4, 2, 64, 1),
    (2018, "GPT, GPT-2", 768, 12, 4, 2, 64, 1),
    (2019, "BERT-Large", 1024, 24, 4, 2, 64, 1),
    (2021, "ViT-Huge", 1280, 32, 4, 2, 80, 1),
    (2021, "CLIP (text encoder)", 1024, 12, 4, 2, 64, 1),
    (2021, "Jurassic-1", 13824, 76, 4, 2, 144, 1),
    (2021, "Gopher 280B", 16384, 80, 4, 2, 128, 1),
    (2021, "LaMDA", 8192, 64, 8, 2, 128, 2),
    (2022, "Chinchilla 70B", 8192, 80, 4, 2, 128, 1),
    (2022, "GPT-3", 12288, 96, 4, 2, 128, 1),
    (2023, "PaLM", 18432, 118, 4, 2, 256, Fraction(2, 3)),
    (2023, "LLaMA, Llama-2", 8192, 80, Fraction(8, 3), 2, 128, 1),
    (2024, "OLMo", 8192, 80, Fraction(8, 3), 2, 128, 1),
]


@pytest.mark.parametrize(
    ("row", "shape"),
    list(zip(SLIDES, [s for s in published_shapes() if s.source == FROM_THE_SLIDES], strict=True)),
    ids=[r[1] for r in SLIDES],
)
def test_every_row_says_what_the_slides_say(row, shape):
    year, name, dim, layers, mlp_ratio, mlp_depth, rank, rank_share = row
    assert (shape.year, shape.name, shape.dim, shape.layers) == (year, name, dim, layers)
    assert shape.mlp_width == pytest.approx(float(mlp_ratio * dim), abs=0.5)
    assert (shape.mlp_depth, shape.rank, shape.value_rank) == (mlp_depth, rank, rank)
    assert shape.heads == rank_share * dim / rank
    assert shape.rank_share == pytest.approx(float(rank_share))
    assert shape.parameters == 4 * rank * shape.heads * dim


CONFIGS = {  # the keys of each model's own config.json, in its own words
    "T5-11B": {"model_type": "t5", "d_model": 1024, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 128,
               "d_kv": 128, "d_ff": 65536},
    "Whisper large": {"model_type": "whisper", "d_model": 1280, "decoder_layers": 32, "decoder_attention_heads": 20,
                      "decoder_ffn_dim": 5120, "encoder_layers": 32, "encoder_attention_heads": 20},
    "Llama 3 8B": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                   "num_key_value_heads": 8, "intermediate_size": 14336},
    "Llama 3 70B": {"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                    "num_key_value_heads": 8, "intermediate_size": 28672},
    "Mistral-Nemo 12B": {"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40,
                         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                         "intermediate_size": 14336},
    "OLMo 2 7B": {"model_type": "olmo2", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                  "num_key_value_heads": 32, "intermediate_size": 11008},
    "ModernBERT large": {"model_type": "modernbert", "hidden_size": 1024, "num_hidden_layers": 28,
                         "num_attention_heads": 16, "intermediate_size": 2624},
    "DeepSeek-V3": {"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
                    "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
                    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432},
    "Gemma 3 12B": {"model_type": "gemma3_text", "hidden_size": 3840, "num_hidden_layers": 48,
                    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 15360},
    "Gemma 3 27B": {"model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62,
                    "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504},
    "Qwen3 0.6B": {"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
                   "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072},
    "Qwen3 8B": {"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
                 "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288},
    "Qwen3 235B-A22B": {"model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94,
                        "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
                        "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts_per_tok": 8},
    "gpt-oss-120b": {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36,
                     "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
                     "intermediate_size": 4 * 2880},  # the file says 2880, of each of the 4 experts of a token
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_later_row_says_what_the_config_says(name):
    (row,) = [shape for shape in published_shapes() if shape.name == name]
    config = shape_of_config(CONFIGS[name])
    for column in ("dim", "layers", "mlp_width", "mlp_depth", "rank", "value_rank", "heads", "kv_heads", "latent",
                   "kv_bytes_per_token"):  # fmt: skip
        assert getattr(config, column) == getattr(row, column), column


def test_rows_are_the_slides_or_have_a_config_and_are_in_order_of_years():
    rows = published_shapes()
    assert {row.name for row in rows if row.source != FROM_THE_SLIDES} == set(CONFIGS)
    assert [row.year for row in rows] == sorted(row.year for row in rows)
    assert len({row.name for row in rows}) == len(rows)


def test_derived_columns_by_hand():
    first, *_ = published_shapes()
    assert first.parameters == first.stored_parameters == 4 * 512**2
    assert first.kv_bytes_per_token == 2 * 6 * (512 + 512)
    gpt3 = next(shape for shape in published_shapes() if shape.name == "GPT-3")
    assert gpt3.kv_bytes_per_token == 4_718_592


def test_palm_shares_one_key_and_value():
    palm = next(shape for shape in published_shapes() if shape.name == "PaLM")
    assert palm.kv_heads == 1
    assert palm.kv_bytes_per_token == 2 * 118 * 2 * 256
    assert palm.stored_parameters == 18432 * 256 * (48 + 1 + 1 + 48)


def test_latent_attention_counts_its_factors():
    """DeepSeek-V3, from the numbers of its paper: 128 heads, latents of 1536 and 512, 128 + 64 coordinates."""
    shape = next(shape for shape in published_shapes() if shape.name == "DeepSeek-V3")
    assert shape.latent == LatentShape(keyvalue=512, rope=64, query=1536)
    queries = 7168 * 1536 + 1536 * 128 * 192
    keys_and_values = 7168 * (512 + 64) + 512 * 128 * (128 + 128)
    assert shape.stored_parameters == queries + keys_and_values + 128 * 128 * 7168
    assert shape.kv_bytes_per_token == 70_272
    assert shape.parameters == 2 * (192 + 128) * 128 * 7168


def test_unequal_ranks_and_groups():
    shape = ModelShape(name="", dim=10, layers=3, cached_layers=2, heads=6, kv_heads=2, rank=4, value_rank=5)
    assert shape.parameters == 6 * 10 * (4 + 4 + 5 + 5)
    assert shape.stored_parameters == 10 * (6 * 4 + 2 * 4 + 2 * 5 + 6 * 5)
    assert shape.kv_bytes_per_token == 2 * 2 * (2 * 4 + 2 * 5)
    assert shape.mlp_ratio is None


def test_shapes_do_not_import_torch():
    code = "import sys, rankwise.shapes as s; s.published_shapes(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
