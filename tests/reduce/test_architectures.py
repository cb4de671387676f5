"""Every architecture that can be audited is reduced, or refused with the true reason, before anything long begins.

``runnable_sites`` writes keys and values in another basis and compares outputs, with and without a cache: a model that
passes it is reduced as it is meant to be.
"""

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import architectures
from architectures import ARCHITECTURES
from architectures import REFUSED as UNPLACED
from rankwise.errors import InvalidInputError
from rankwise.reduce import load_reduced
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.reduction import Texts, reduce_model
from saved_models import saved, tokens

_NO_TOKENS = "expected a model that reads tokens"
_FUSED = "queries, keys and values are one module"
_ROTATES = "rotates keys by code of its own"
REFUSED = UNPLACED | {
    **dict.fromkeys(
        ("vit", "dinov2", "dinov2_with_registers", "dinov3_vit", "beit", "data2vec-vision", "deit", "swin", "swinv2",
         "wav2vec2", "hubert", "wavlm", "unispeech", "sew", "data2vec-audio", "pixtral"), _NO_TOKENS
    ),
    **dict.fromkeys(("modernbert", "deberta"), _FUSED),
    **dict.fromkeys(("gptj", "codegen", "llama4_text"), _ROTATES),
    **dict.fromkeys(("openai-gpt", "recurrent_gemma"), "caches no keys and values"),
    **dict.fromkeys(("siglip", "esm", "zamba2", "qwen2_vl", "qwen2_5_vl"), "to run on token ids alone"),
    "clip": "get_input_embeddings",
    "albert": "runs 2 times per pass with the same weights",
    "mllama": "Unrecognized configuration class",
}  # fmt: skip
"""``zamba2``, ``esm`` and the two of Qwen2 cannot run at the sizes of these tests."""
QUICK = ("gpt2", "phi", "qwen3_next", "lfm2", "jamba", "whisper", "mpnet", "t5", "gptj", "albert", "vit", "openai-gpt")


def tiny(name, monkeypatch):
    if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and name not in ("bert", "roberta", "gemma3", "xlm"):
        monkeypatch.setattr(architectures, "AutoModel", AutoModelForCausalLM)
    return architectures.tiny_architecture(name)


def check(name, folder, monkeypatch):
    saved(tiny(name, monkeypatch), folder)
    options = ReductionOptions(keep=0.75, method="weights", context=0)
    if name in REFUSED:
        with pytest.raises(InvalidInputError, match=REFUSED[name]):
            reduce_model(folder, options)
    else:
        report = reduce_model(folder, options)
        assert report.kept_coordinates.after <= 0.76 * report.kept_coordinates.before


@pytest.mark.parametrize("name", QUICK)
def test_an_architecture_is_reduced_or_refused(name, tmp_path, monkeypatch):
    check(name, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - set(QUICK)))
def test_every_architecture_is_reduced_or_refused(name, tmp_path, monkeypatch):
    check(name, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["granitemoehybrid", "phi", "lfm2", "gpt_neo", "ctrl", "whisper"])
def test_a_decoder_of_its_own_kind_is_measured_written_and_loaded(name, tmp_path, monkeypatch):
    """Layers without attention, keys rotated in part, norms and layer numbers of other names, parts that never run."""
    folder, out = saved(tiny(name, monkeypatch), tmp_path / "model"), tmp_path / "out"
    texts = Texts(MaskedPieces(tokens(6), ("a",)), None, MaskedPieces(tokens(4, seed=1), ("b",)))
    options = ReductionOptions(keep=0.5, recall=False, context=8)
    report = reduce_model(folder, options, lambda running: texts, out=out)
    assert report.generation.cache_bytes.after < report.generation.cache_bytes.before
    model, ids = load_reduced(out), texts.evaluation.tokens
    with torch.no_grad():
        whole = model(input_ids=ids, use_cache=False).logits
        steps = [model(input_ids=ids[:, :7], use_cache=True)]
        for at in range(7, 12):
            steps.append(model(input_ids=ids[:, at : at + 1], past_key_values=steps[0].past_key_values, use_cache=True))
    loss = torch.nn.functional.cross_entropy(whole[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert float(loss) == pytest.approx(report.cost.loss, abs=1e-4)
    torch.testing.assert_close(torch.cat([step.logits for step in steps], 1), whole, rtol=0, atol=1e-3)


def test_gates_after_the_values_are_seen_without_being_told(monkeypatch, tmp_path):
    """A model whose attention scales single coordinates of its outputs is refused, whatever its layout says."""
    from transformers.models.bert import modeling_bert

    plain = modeling_bert.BertSelfAttention.forward

    def gated(self, *args, **options):
        mixed, *rest = plain(self, *args, **options)
        return (mixed * torch.linspace(0.1, 2, mixed.shape[-1]), *rest)

    folder = saved(architectures.tiny_architecture("bert"), tmp_path)
    monkeypatch.setattr(modeling_bert.BertSelfAttention, "forward", gated)
    with pytest.raises(InvalidInputError, match="does more with keys and values than is seen"):
        reduce_model(folder, ReductionOptions(keep=0.75, method="weights", context=0))
