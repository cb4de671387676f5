"""A written model: loaded, it gives what was measured; it is smaller; it shows when it is not whole."""

import json

import pytest
import torch
import transformers

from rankwise.errors import InvalidInputError
from rankwise.models.running.model import load_running
from rankwise.reduce import load_reduced
from rankwise.reduce.latent_cache import LatentCache
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.reduction import Texts, reduce_model
from reduce_models import encoder
from saved_models import saved, tiny_language_model, tokens

TEXTS = Texts(MaskedPieces(tokens(4), ("a",)), None, MaskedPieces(tokens(6, seed=1), ("b",)))


def size(folder):
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_decoder_loads_as_it_was_measured(name, dtype, tmp_path):
    folder = saved(tiny_language_model(name).to(dtype), tmp_path / "model")
    out = tmp_path / "out"
    report = reduce_model(folder, ReductionOptions(keep=0.25), lambda running: TEXTS, out=out)
    model = load_reduced(out)
    with torch.no_grad():
        ids = TEXTS.evaluation.tokens
        logits = model(input_ids=ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        assert float(loss) == pytest.approx(report.cost.loss, abs=1e-5)
        assert isinstance(model(input_ids=ids, use_cache=True).past_key_values, LatentCache)
    assert size(out) < size(folder)
    with torch.no_grad():
        original = load_running(folder)(ids).logits
    assert (logits - original).abs().max() > 1e-3
    assert "rankwise.load_reduced" in (out / "README.md").read_text()
    assert json.loads((out / "plan.json").read_text())["factor_dtype"] == str(dtype).removeprefix("torch.")
    assert list(tmp_path.glob(".*")) == []  # nothing left beside it


def test_an_encoder_loads_as_it_was_measured(tmp_path):
    folder = saved(encoder("bert").model, tmp_path / "model")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    out = tmp_path / "out"
    report = reduce_model(folder, ReductionOptions(keep=0.5), lambda running: TEXTS, out=out)
    assert report.cost.neighbours_kept is not None
    with torch.no_grad():
        ours = load_reduced(out)(input_ids=TEXTS.evaluation.tokens).last_hidden_state.mean(1)
        theirs = load_running(folder)(TEXTS.evaluation.tokens).last_hidden_state.mean(1)
    cost = 1 - torch.nn.functional.cosine_similarity(ours, theirs).mean()
    assert float(cost) == pytest.approx(report.cost.cost, abs=1e-5)
    assert size(out) < size(folder)
    assert isinstance(load_reduced(out), transformers.BertModel)
    pooling = out / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace("mean", "max"))
    with pytest.raises(InvalidInputError, match=r"1_Pooling.config\.json: expected the file that was written"):
        load_reduced(out)


def test_what_is_not_whole_is_refused(tmp_path):
    folder = saved(tiny_language_model("llama"), tmp_path / "model")
    with pytest.raises(InvalidInputError, match="half-written"):
        load_reduced(folder)
    out = tmp_path / "out"
    options = ReductionOptions(keep=0.5, method="weights", context=0)
    reduce_model(folder, options, out=out)
    with pytest.raises(InvalidInputError, match="expected a new directory"):
        reduce_model(folder, options, out=out)
    factors = out / "factors.safetensors"
    flipped = bytearray(factors.read_bytes())
    flipped[-1] ^= 1
    factors.write_bytes(flipped)
    with pytest.raises(InvalidInputError, match=r"factors\.safetensors: expected the file that was written"):
        load_reduced(out)
