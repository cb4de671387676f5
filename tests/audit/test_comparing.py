"""Two models head by head, against dense products, planted changes and real rounding."""

import json

import numpy as np
import pytest
import torch

import rankwise
from dense_forms import dense_forms
from rankwise.audit.comparing import compare_weights
from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.models.layouts import load_layer, place
from rankwise.models.tensor_source import as_source
from tiny_heads import heads_of
from tiny_models import CONFIGS, tiny_model


def changes(comparison):
    """Every form of every head."""
    heads = [head for layer in comparison.layers for head in layer.head_changes]
    return [form for head in heads for form in (head.qk, head.ov)]


def dense(model):
    source = as_source(model)
    layers = [load_layer(source, ref).folded() for ref in place(source).layers]
    return [(weights.ref.scale, *dense_forms(weights)) for weights in layers]


@pytest.mark.parametrize("name", CONFIGS)
def test_changes_are_those_of_dense_forms(name):
    first, second = tiny_model(name), tiny_model(name, seed=1)
    found = compare_weights(first, second)
    for layer, (scale, *ours), (other, *theirs) in zip(found.layers, dense(first), dense(second), strict=True):
        for at, head in enumerate(layer.head_changes):
            for change, one, two, sizes in zip((head.qk, head.ov), ours, theirs, ((scale, other), (1, 1)), strict=True):
                before, after = one[at] * sizes[0], two[at] * sizes[1]
                expected = np.linalg.norm(after - before) / np.linalg.norm(before)
                assert change.change == pytest.approx(expected, rel=1e-4)
                assert change.beyond == change.change  # float32 loses nothing that is seen here
                values = np.linalg.svd(after - before, compute_uv=False)
                assert change.directions == (values > 1e-5 * values[0]).sum()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_copy_moves_nothing_and_a_rounded_one_nothing_beyond_rounding(name):
    model = tiny_model(name)
    same = compare_weights(model, tiny_model(name))
    assert same.moved == 0
    assert max(change.change for change in changes(same)) == 0
    rounded = compare_weights(model, tiny_model(name, dtype=torch.bfloat16))
    assert rounded.moved == 0
    ratios = [change.change / change.rounding for change in changes(rounded)]
    assert np.median(ratios) == pytest.approx(1, abs=0.1)
    assert 0.7 < min(ratios) <= max(ratios) < 1.35


def test_the_basis_of_a_head_is_not_a_change():
    """llama.cpp stores the rows of a head's queries and keys in another order."""
    model, other = tiny_model("llama"), tiny_model("llama")
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(0))).Q
    for layer in heads_of("llama", other):
        for blocks in (layer.q, layer.k):
            for block in blocks:
                block[:] = turn @ block
    found = compare_weights(model, other)
    assert found.moved == 0
    assert max(change.change for change in changes(found)) < 1e-6


def planted(model, rank):
    """A change of this rank in all queries of the second layer, and in one head's values of the first."""
    generator = torch.Generator().manual_seed(3)
    weight = model.layers[1].self_attn.q_proj.weight
    with torch.no_grad():
        weight += 0.1 * torch.randn(48, rank, generator=generator) @ torch.randn(rank, 96, generator=generator)
        model.layers[0].self_attn.o_proj.weight[:, 8:16] *= 1.5  # head 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_rank_of_a_planted_change_is_found(dtype):
    model, tuned = tiny_model("llama", hidden_size=96), tiny_model("llama", hidden_size=96)
    planted(tuned, 2)
    found = compare_weights(model, tuned.to(dtype))
    first, second = (
        [(head.qk.directions, head.ov.directions) for head in layer.head_changes] for layer in found.layers
    )
    assert first == [(0, 8) if head == 1 else (0, 0) for head in range(6)]
    assert second == [(2, 0)] * 6
    assert found.moved == 7
    assert found.layers[0].head_changes[1].ov.beyond == pytest.approx(0.5, abs=0.01)


def test_models_of_two_shapes_are_refused():
    with pytest.raises(InvalidInputError, match=r"expected 6 heads on 2 of rank 8 .* got 6 heads on 1 of rank 8"):
        compare_weights(tiny_model("llama"), tiny_model("llama-multi-query"))
    with pytest.raises(InvalidInputError, match=r"expected the 2 attention layers of .* got 3"):
        compare_weights(tiny_model("llama"), tiny_model("llama", num_hidden_layers=3))


def test_the_command_and_the_function_say_the_same(tmp_path, capsys):
    model = tiny_model("llama", hidden_size=96)
    model.save_pretrained(tmp_path / "base")
    planted(model, 2)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "tuned")
    command = ["audit", str(tmp_path / "base"), str(tmp_path / "tuned")]
    assert main([*command, "-o", str(tmp_path / "c.json")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("tuned against base: 7 of 12 heads moved by more than rounding explains.\nQK of the median")
    assert "Moved most in OV: decoder 0 head 1 50 % in 8 directions" in shown
    assert shown.splitlines()[-1] == str(tmp_path / "c.html")
    assert "7 of 12 heads moved from base to tuned" in (tmp_path / "c.html").read_text()
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["format"] == "rankwise-comparison/1"
    result = rankwise.audit(tmp_path / "base", tmp_path / "tuned")
    assert result.to_json() == written
    assert result.headline == "\n".join(shown.splitlines()[:3])
    assert [row["moved"] for row in result.rows] == [False, True, *[False] * 4, *[True] * 6]
    assert result.summary[0]["moved"] == 1
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == written
    assert main([*command, "--text", "README.md"]) == 2
    assert "expected one model to run, got two to compare" in capsys.readouterr().err
