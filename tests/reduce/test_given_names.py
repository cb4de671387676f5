"""A layout that is mapped by hand is reduced as one that is known, on disk and in memory."""

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaAttention, apply_rotary_pos_emb  # noqa: F401 - the cache looks here

import rankwise
from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.models import TensorNames
from rankwise.reduce import load_reduced
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.reduction import Texts, reduce_model
from saved_models import saved, tiny_language_model, tokens

TEXTS = Texts(MaskedPieces(tokens(4), ("a",)), None, MaskedPieces(tokens(6, seed=1), ("b",)))
LLAMA = {letter: f"model.layers.{{layer}}.self_attn.{letter}_proj.weight" for letter in "qkvo"}
GPT2 = dict.fromkeys("qkv", "transformer.h.{layer}.attn.c_attn.weight") | {
    "o": "transformer.h.{layer}.attn.c_proj.weight"
}


class Renamed(LlamaAttention):
    """Projections under names that nobody has seen."""

    q_proj = property(lambda self: self.alpha)
    k_proj = property(lambda self: self.beta)
    v_proj = property(lambda self: self.gamma)
    o_proj = property(lambda self: self.delta)


RENAMED = dict(zip("qkvo", (f"model.layers.{{layer}}.self_attn.{name}.weight" for name in
                            ("alpha", "beta", "gamma", "delta")), strict=True))  # fmt: skip


def heads_of(model):
    return model.config.num_attention_heads, getattr(model.config, "num_key_value_heads", None)


def renamed(model):
    for layer in model.model.layers:
        attention = layer.self_attn
        for letter, name in zip("qkvo", ("alpha", "beta", "gamma", "delta"), strict=True):
            attention.add_module(name, attention._modules.pop(f"{letter}_proj"))
        attention.__class__ = Renamed
    return model


@pytest.mark.parametrize(("name", "tensors", "more"), [
    ("llama", LLAMA, {}),
    ("gpt2", GPT2, {"transposed": True, "order": "turn"}),
])  # fmt: skip
def test_given_names_reduce_as_the_known_layout_does(name, tensors, more, tmp_path):
    model = tiny_language_model(name)
    folder = saved(model, tmp_path / "model")
    heads, groups = heads_of(model)
    names = TensorNames(**tensors, heads=heads, kv_heads=groups, **more)
    known = reduce_model(folder, ReductionOptions(keep=0.5, context=0), lambda running: TEXTS)
    out = tmp_path / "out"
    report = reduce_model(folder, ReductionOptions(keep=0.5, context=0, names=names), lambda running: TEXTS, out=out)
    assert report.cost.loss == pytest.approx(known.cost.loss, rel=1e-5)
    assert report.kept_coordinates == known.kept_coordinates
    ids = TEXTS.evaluation.tokens
    with torch.no_grad():
        logits = load_reduced(out)(input_ids=ids, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert float(loss) == pytest.approx(report.cost.loss, abs=1e-5)


def test_a_module_of_unknown_names_is_reduced_under_given_ones():
    options = {"keep": 0.5, "tokens": tokens(8), "context": 0, "recall": False}
    known = rankwise.reduce(tiny_language_model("llama"), **options)
    model = renamed(tiny_language_model("llama"))
    with pytest.raises(InvalidInputError, match="rankwise reduce takes the same options"):
        rankwise.reduce(model, **options)
    heads, groups = heads_of(model)
    done = rankwise.reduce(model, names=RENAMED | {"heads": heads, "kv_heads": groups}, **options)
    assert done.report.cost.loss == pytest.approx(known.report.cost.loss, rel=1e-5)
    ids = tokens(2)
    with torch.no_grad():
        ours, theirs = (one.model(input_ids=ids, use_cache=True).logits for one in (done, known))
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_queries_and_keys_alone_cannot_be_reduced(tmp_path, capsys):
    model = tiny_language_model("llama")
    folder = saved(model, tmp_path / "model")
    heads, groups = heads_of(model)
    options = ["--q", LLAMA["q"], "--k", LLAMA["k"], "--heads", str(heads), "--kv-heads", str(groups)]
    assert main(["reduce", str(folder), "--rank", "4", "--method", "weights", *options]) == 2
    assert "expected values and outputs too (--v, --o)" in capsys.readouterr().err
    everything = [*options, "--v", LLAMA["v"], "--o", LLAMA["o"]]
    assert main(["reduce", str(folder), "--rank", "4", "--method", "weights", *everything]) == 0
