"""Factors beside the blocks of a GGUF file: in blocks too, measured as stored, and smaller than what they replace."""

import json

import gguf
import numpy as np
import pytest
import torch

from rankwise.reduce import load_reduced
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.reduction import Texts, reduce_model
from rankwise.reduce.storage import read_factors, rounded, write_factors

DIM, WIDE, WORDS = 64, 96, 60


def matrix(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A llama of two layers, matrices in Q4_1."""
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(WORDS)
    shapes = {"token_embd": (WORDS, DIM), "output_norm": (DIM,)}
    for layer in range(2):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in {
            "attn_norm": (DIM,), "attn_q": (DIM, DIM), "attn_k": (DIM, DIM), "attn_v": (DIM, DIM),
            "attn_output": (DIM, DIM), "ffn_norm": (DIM,), "ffn_gate": (WIDE, DIM), "ffn_up": (WIDE, DIM),
            "ffn_down": (DIM, WIDE)}.items()}  # fmt: skip
    for seed, (name, shape) in enumerate(shapes.items()):
        kind = gguf.GGMLQuantizationType["F32" if len(shape) == 1 else "Q4_1"]
        numbers = np.ones(shape) if len(shape) == 1 else 0.2 * matrix(*shape, seed=seed).numpy()
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(numbers.astype(np.float32), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def tokens(texts, seed):
    return torch.randint(0, WORDS, (texts, 24), generator=torch.Generator().manual_seed(seed))


TEXTS = Texts(MaskedPieces(tokens(4, 0), ("a",)), None, MaskedPieces(tokens(4, 1), ("b",)))


def reduced(model, out, **options):
    return reduce_model(model, ReductionOptions(recall=False, context=0, **options), lambda running: TEXTS, out=out)


@pytest.mark.parametrize("keep", [0.5, 0.15])
def test_a_gguf_loads_as_it_was_measured_and_is_smaller_where_its_factors_are(model, keep, tmp_path):
    """Half of square matrices needs more numbers than they have."""
    report = reduced(model, tmp_path / "out", keep=keep)
    ids = TEXTS.evaluation.tokens
    with torch.no_grad():
        logits = load_reduced(tmp_path / "out")(input_ids=ids, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert float(loss) == pytest.approx(report.cost.loss, abs=1e-5)
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["factor_dtype"] == "Q8_0"
    replaced = 2 * 2 * DIM * DIM * 5 // 8  # Q4_1 has five bits a number
    factors = (tmp_path / "out" / "factors.safetensors").stat().st_size
    headers = 2000
    assert (factors < replaced + headers) == (keep < 0.5)
    assert "factors in Q8_0" in (tmp_path / "out" / "README.md").read_text()
    assert "of the original: " in (tmp_path / "out" / "README.md").read_text()


def test_blocks_hold_what_was_rounded(tmp_path):
    """Rows of whole blocks, columns of whole blocks, neither, and a bias."""
    factors = {"row": matrix(7, 64), "column": matrix(96, 7), "neither": matrix(7, 9), "bias": matrix(96)}
    for kind in ("Q8_0", "float16", "float32"):
        stored = {name: rounded(value, kind) for name, value in factors.items()}
        write_factors(tmp_path / kind, stored, kind)
        read = read_factors(tmp_path / kind, factors, kind)
        assert all(torch.equal(read[name], stored[name]) for name in factors)
    assert torch.equal(rounded(factors["bias"], "Q8_0"), factors["bias"])
    assert 0 < float((rounded(factors["row"], "Q8_0") - factors["row"]).std()) < 0.01
