"""Keys and values as one vector, against covariances and SVDs of dense matrices."""

import numpy as np
import pytest
import torch

from rankwise.audit.attention import attention_report, measure_attention
from rankwise.audit.audit import audit_weights
from rankwise.audit.joint import joint_of_weights
from rankwise.audit.report import read_report
from rankwise.measure import energy_rank, equal_parts
from rankwise.models.layouts import load_layer, place
from rankwise.models.running.model import running_from
from rankwise.models.tensor_source import as_source
from saved_models import tiny_language_model, tokens
from tiny_models import CONFIGS, tiny_model


def balanced(x, keys):
    """Columns scaled so that keys and values have energy 1."""
    x = x.astype(np.float64)
    return np.concatenate([part / np.linalg.norm(part) for part in (x[:, :keys], x[:, keys:])], axis=1)


@pytest.mark.parametrize("name", CONFIGS)
def test_by_weights_it_is_the_svd_of_both_projections(name):
    source = as_source(tiny_model(name))
    for ref in place(source).layers:
        stored = load_layer(source, ref)
        found = joint_of_weights(stored)
        if ref.latent is not None:
            assert found is None
            continue
        gain = 1 if stored.key_norm is None else stored.key_norm.gain
        keys, values = ((block * gain).reshape(-1, ref.context_dim) for block in (stored.k, stored.v))
        s = np.linalg.svd(balanced(np.concatenate((keys, values)).T, len(keys)), compute_uv=False)
        assert found.numbers == len(keys) + len(values)
        assert found.singular_values[: len(s)] == pytest.approx(s, abs=1e-6)
        assert found.energy_90 == energy_rank(singular_values=torch.from_numpy(s), fraction=0.9)


@pytest.mark.parametrize("gains", [False, True])
def test_random_weights_need_what_random_weights_are_said_to_need(gains):
    """At sizes above those that are drawn, and with gains of very different sizes."""
    model = tiny_model("llama", hidden_size=1100, num_attention_heads=10, num_key_value_heads=10, head_dim=16)
    if gains:
        with torch.no_grad():
            for block in model.layers:
                block.input_layernorm.weight.copy_(torch.logspace(-1, 1, 1100))
    for layer in audit_weights(model).layers:
        assert layer.joint.numbers == 320
        assert layer.joint.energy_90 == pytest.approx(layer.joint.random_90, abs=5)
        assert layer.joint.energy_99 == pytest.approx(layer.joint.random_99, abs=5)


def test_a_planted_latent_is_seen(tmp_path):
    model = tiny_model("llama")
    generator = torch.Generator().manual_seed(0)
    latent = torch.randn(5, 42, generator=generator)
    with torch.no_grad():
        for block in model.layers:
            for weight in (block.self_attn.k_proj.weight, block.self_attn.v_proj.weight):
                weight.copy_(torch.randn(16, 5, generator=generator) @ latent)
    report = audit_weights(model)
    for layer in report.layers:
        assert layer.joint.energy_99 <= 5
        assert sum(value > 1e-5 for value in layer.joint.singular_values) == 5
        assert layer.joint.random_99 > 20
    report.write(tmp_path / "a.json")
    assert read_report(tmp_path / "a.json").to_json() == report.to_json()


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_on_texts_it_is_the_covariance_of_what_the_model_makes(name):
    """Keys before rotary positions and values, taken by hooks on the model's own modules."""
    model = tiny_language_model(name)
    seen = []
    for module, part in model.named_modules():
        if module.endswith(("k_proj", "v_proj", "c_attn")):
            part.register_forward_hook(lambda _, __, out: seen.append(out.detach().flatten(0, 1)))
    ids = tokens(texts=6, length=20)
    running = running_from(model, objective="causal")
    layers = measure_attention(running, ids)
    seen.clear()
    running(ids)
    for at, layer in enumerate(layers):
        x = torch.cat(seen[2 * at : 2 * at + 2], 1) if name == "llama" else seen[at][:, 40:]
        keys = x.shape[1] // 2
        x = x - x.mean(0)
        scaled = balanced(x.numpy(), keys)
        s = np.linalg.svd(scaled, compute_uv=False)
        found = layer.joint
        assert (found.numbers, found.tokens, found.random_99) == (x.shape[1], 120, None)
        assert found.singular_values[:8] == pytest.approx(s[:8], rel=2e-3)  # samples are kept in half precision
        assert found.energy_99 == pytest.approx(
            int(energy_rank(singular_values=torch.from_numpy(s), fraction=0.99)), abs=1
        )
    report = attention_report(layers, texts=6, source=("x",))
    assert report.layers[0].joint is layers[0].joint


def test_equal_parts_give_every_part_energy_one():
    energy = torch.tensor([1.0, 3.0, 8.0])
    assert (energy * equal_parts(energy, (2, 1))).tolist() == pytest.approx([0.25, 0.75, 1.0])
