"""Modules in memory are read like their files."""

import numpy as np
import pytest
import torch

from rankwise.audit.audit import audit_weights
from rankwise.errors import InvalidInputError
from rankwise.models.files.source import open_model
from rankwise.models.layouts import TensorNames, place
from rankwise.models.tensor_source import ModuleSource
from tiny_models import tiny_model


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_model_in_memory_is_audited_like_its_file(name, tmp_path):
    model = tiny_model(name)
    model.save_pretrained(tmp_path)
    ours, theirs = audit_weights(model), audit_weights(open_model(tmp_path))
    assert ours.layers == theirs.layers
    assert (ours.model, ours.file_format) == (type(model).__name__, "module")
    assert ours.storage == theirs.storage


def test_a_plain_module_with_names(tmp_path):
    module = torch.nn.ModuleDict({part: torch.nn.Linear(12, 12, bias=False) for part in ("q", "k")})
    (layer,) = audit_weights(module, place(module, TensorNames(q="q.weight", k="k.weight", heads=3))).layers
    expected = np.linalg.svd((module["q"].weight[:4].T @ module["k"].weight[:4]).detach(), compute_uv=False)[:4]
    np.testing.assert_allclose(layer.head_reports[0].qk_singular_values, expected, rtol=1e-5)


def test_what_a_module_cannot_give_is_told():
    meta = ModuleSource(torch.nn.Linear(2, 2, device="meta"))
    assert meta.unreadable_because("weight") == "on the meta device, without data"
    codes = torch.nn.Module()
    codes.register_buffer("w", torch.zeros(2, dtype=torch.uint8))
    assert ModuleSource(codes).unreadable_because("w") == "stored as U8, which only its own kernels read"
    with pytest.raises(InvalidInputError, match=r"Linear in memory: expected a tensor named 'wight'.*'weight'"):
        meta.info("wight")
    half = ModuleSource(torch.nn.Linear(2, 2, dtype=torch.bfloat16))
    assert half.read("weight").dtype == np.float32
    assert half.storage() == {"BF16": 2}
