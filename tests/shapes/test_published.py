"""The table against the slides' own notation, typed here once more as formulas."""

import subprocess
import sys
from fractions import Fraction

import pytest

from rankwise.shapes import LatentShape, ModelShape, published_shapes

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
    ("row", "shape"), list(zip(SLIDES, published_shapes(), strict=True)), ids=[r[1] for r in SLIDES]
)
def test_every_row_says_what_the_slides_say(row, shape):
    year, name, dim, layers, mlp_ratio, mlp_depth, rank, rank_share = row
    assert (shape.year, shape.name, shape.dim, shape.layers) == (year, name, dim, layers)
    assert shape.mlp_width == pytest.approx(float(mlp_ratio * dim), abs=0.5)
    assert (shape.mlp_depth, shape.rank, shape.value_rank) == (mlp_depth, rank, rank)
    assert shape.heads == rank_share * dim / rank
    assert shape.rank_share == pytest.approx(float(rank_share))
    assert shape.parameters == 4 * rank * shape.heads * dim


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
    shape = ModelShape(
        name="DeepSeek-V3", dim=7168, layers=61, cached_layers=61, heads=128, kv_heads=128, rank=192, value_rank=128,
        latent=LatentShape(keyvalue=512, rope=64, query=1536),
    )  # fmt: skip
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
