"""Ranks planted in random models of every layout are found again, head by head, also in half precision."""

import numpy as np
import pytest
import torch

from rankwise.audit.audit import audit_weights
from rankwise.models.files.source import open_model
from tiny_heads import heads_of
from tiny_models import CONFIGS, tiny_model


def plant(rows, rng):
    """Zero some rows; the others' numbers."""
    keep = rng.random(len(rows)) < rng.uniform(0.3, 0.9)
    rows[torch.from_numpy(~keep)] = 0
    return set(np.flatnonzero(keep).tolist())


def plant_layer(layer, rng):
    """Zero rows at random in every matrix of every head; the ranks of QK and OV that are left, head by head."""
    group = len(layer.q) // len(layer.k)
    rope = set() if layer.rope_k is None else {len(layer.k[0]) + row for row in plant(layer.rope_k, rng)}
    kept = {part: [plant(rows, rng) for rows in getattr(layer, part)] for part in "qkvo"}
    qk = [len(kept["q"][h] & (kept["k"][h // group] | rope)) for h in range(len(layer.q))]
    ov = [len(kept["o"][h] & kept["v"][h // group]) for h in range(len(layer.q))]
    return qk, ov


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_planted_ranks_are_found_in_every_layout(name, dtype, tmp_path):
    model = tiny_model(name, dtype=dtype)
    rng = np.random.default_rng(1)
    planted = {layer.name: plant_layer(layer, rng) for layer in heads_of(name, model)}
    model.save_pretrained(tmp_path)
    report = audit_weights(open_model(tmp_path))
    found = {
        layer.name: (
            [head.qk.numerical for head in layer.head_reports],
            [head.ov.numerical for head in layer.head_reports],
        )
        for layer in report.layers
    }
    assert found == planted
    assert not report.not_audited
    assert set(report.storage) == {"F32" if dtype == torch.float32 else "BF16"}
    # the numbers differ between heads, so that a head read for another would show
    assert len({rank for qk, _ in planted.values() for rank in qk}) > 2


@pytest.mark.parametrize("name", ["llama", "falcon-grouped"])
def test_each_query_head_is_read_on_its_own_key_head(name, tmp_path):
    """Only key head 1 is left: exactly its own query heads have any QK."""
    model = tiny_model(name)
    for layer in heads_of(name, model):
        layer.k[0][:] = 0
        layer.v[1][:] = 0
    model.save_pretrained(tmp_path)
    for layer in audit_weights(open_model(tmp_path)).layers:
        assert [head.kv_head for head in layer.head_reports] == [0, 0, 0, 1, 1, 1]
        assert [head.qk.numerical for head in layer.head_reports] == [0, 0, 0, 8, 8, 8]
        assert [head.ov.numerical for head in layer.head_reports] == [8, 8, 8, 0, 0, 0]
        assert [group.heads for group in layer.groups] == [(0, 1, 2), (3, 4, 5)]
        assert [group.qk.numerical for group in layer.groups] == [0, 8]
