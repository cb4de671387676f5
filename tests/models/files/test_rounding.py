"""Rounding errors drawn once more are as large as those that storing a tensor makes."""

import numpy as np
import pytest
import torch

from gguf_files import RANK, write_gguf
from rankwise.audit.comparing import compare_weights
from rankwise.models.files.rounding import rerounded
from rankwise.models.files.source import open_model
from rankwise.models.files.tensor_file import TensorInfo

FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16}
CODES = ("Q8_0", "Q5_0", "Q5_1", "Q4_0", "Q4_1")


def stored(values, dtype):
    """``values`` as the type keeps them."""
    if dtype in FLOATS:
        return torch.from_numpy(values).to(FLOATS[dtype]).float().numpy()
    quants = pytest.importorskip("gguf", reason="GGUF's types need the extra gguf")
    kind = quants.GGMLQuantizationType[dtype]
    return quants.quants.dequantize(quants.quants.quantize(values, kind), kind).reshape(values.shape)


@pytest.mark.parametrize("dtype", [*FLOATS, *CODES])
def test_an_error_drawn_once_more_has_the_size_of_the_first(dtype):
    values = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32) * 0.02
    kept = stored(values, dtype)
    info = TensorInfo("w", dtype, kept.shape)
    again = rerounded(kept, info, 0)
    first, second = np.linalg.norm(kept - values), np.linalg.norm(again - kept)
    assert second == pytest.approx(first, rel=0.05)
    assert np.array_equal(again, rerounded(kept, info, 0))
    assert not np.array_equal(again, rerounded(kept, info, 1))


def test_float32_is_exact_and_a_block_of_one_value_has_no_step():
    values = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    assert rerounded(values, TensorInfo("w", "F32", values.shape), 0) is values
    flat = np.zeros((2, 32), dtype=np.float32)
    assert np.array_equal(rerounded(flat, TensorInfo("w", "Q4_0", flat.shape), 0), flat)


@pytest.mark.parametrize("quantisation", ["Q8_0", "Q4_0", "Q4_1"])
def test_a_quantised_file_differs_from_the_full_one_by_rounding_alone(quantisation, tmp_path):
    pytest.importorskip("gguf", reason="GGUF files need the extra gguf")
    write_gguf(tmp_path / "full.gguf")
    write_gguf(tmp_path / "quantised.gguf", quantisation=quantisation)
    write_gguf(
        tmp_path / "tuned.gguf", quantisation=quantisation, edit=lambda tensors: tensors["attn_q"][:RANK].fill(0)
    )
    full = open_model(tmp_path / "full.gguf")
    found = compare_weights(full, open_model(tmp_path / "quantised.gguf"))
    assert found.moved == 0
    for layer in found.layers:
        for head in layer.head_changes:
            assert head.qk.change == pytest.approx(head.qk.rounding, rel=0.2)
    tuned = compare_weights(full, open_model(tmp_path / "tuned.gguf"))
    assert [[head.moved for head in layer.head_changes] for layer in tuned.layers] == [[True] + [False] * 5] * 2
