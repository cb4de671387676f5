"""Spectra from thin factors against dense products."""

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from rankwise.audit.audit import audit_weights
from rankwise.audit.spectra import forms, qk_forms, ranks_of, with_amplitude, with_typical_latent
from rankwise.measure import effective_rank, energy_rank, stable_rank
from rankwise.models.files.source import open_model
from rankwise.models.layouts import Rope, load_layer, place


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def dense_values(left, right):
    return np.linalg.svd(left.T @ right, compute_uv=False)


def assert_values(ours, dense):
    """Equal to the precision of a Gram matrix in float64: the root of that of float64, of the largest value."""
    ours, noise = ours.numpy(), 1e-7 * dense[0]
    np.testing.assert_allclose(ours, dense[: len(ours)], rtol=1e-7, atol=noise)
    np.testing.assert_allclose(dense[len(ours) :], 0, atol=noise)


@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(1, 12), st.integers(1, 12), st.integers(0, 99)
)
def test_every_head_has_the_spectrum_of_its_dense_form(groups, group, rank, left_dim, right_dim, seed):
    """Also where the rank exceeds the dimensions."""
    left, right = random(groups * group, rank, left_dim, seed=seed), random(groups, rank, right_dim, seed=seed + 1)
    found = forms(left, right)
    for head in range(groups * group):
        dense = dense_values(left[head], right[head // group])
        assert_values(found.singular_values[head], dense)
    for g, values in enumerate(found.of_groups()):
        assert_values(values, dense_values(np.concatenate(list(left[g * group : (g + 1) * group]), 1), right[g]))


def test_shared_maps_enter_by_their_triangle():
    left, right, down, other = random(4, 5, 9), random(2, 5, 7), random(9, 30), random(7, 20)
    found = forms(left, right, down, other)
    assert found.sizes == (30, 20)
    for head in range(4):
        assert_values(found.singular_values[head], dense_values(left[head] @ down, right[head // 2] @ other))
    composed = forms(left @ down, right @ other)
    for one, two in ((found.left_spaces, composed.left_spaces), (found.right_spaces, composed.right_spaces)):
        angles = [torch.linalg.matrix_norm(spaces.basis(0).mT @ spaces.basis(3)) for spaces in (one, two)]
        torch.testing.assert_close(*angles)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("start", "pairs"), [(0, 4), (0, 2), (4, 2)])
@pytest.mark.parametrize("distance", [0, 1, 37])
def test_rotated_forms_against_a_matrix_of_rotations(interleaved, start, pairs, distance):
    rope = Rope(np.array([1.0, 0.3, 0.05, 0.01])[:pairs], interleaved, start, 1.2)
    left, right = random(4, 8, 11), random(2, 8, 13)
    turn = np.eye(8)
    for frequency, (a, b) in zip(rope.frequencies, rope.pairs(), strict=True):
        # a key `distance` back, seen from its query: turned backwards
        cos, sin = np.cos(distance * frequency), np.sin(distance * frequency)
        turn[[a, a, b, b], [a, b, a, b]] = 1.2**2 * np.array([cos, sin, -sin, cos])  # of the query and of the key
    found = forms(left, with_amplitude(right, rope)).rotated(rope, distance)
    for head in range(4):
        assert_values(found[head], dense_values(left[head], turn @ right[head // 2]))


@pytest.mark.parametrize("sides", ["left", "right", "both"])
def test_biases_are_one_more_coordinate(sides):
    left, right, left_bias, right_bias = random(4, 5, 9), random(2, 5, 7), random(4, 5), random(2, 5, seed=1)
    found = forms(left, right).with_bias(
        torch.from_numpy(left_bias) if sides != "right" else None,
        torch.from_numpy(right_bias) if sides != "left" else None,
    )
    for head in range(4):
        one = left[head] if sides == "right" else np.concatenate((left[head], left_bias[head][:, None]), 1)
        two = right[head // 2]
        two = two if sides == "left" else np.concatenate((two, right_bias[head // 2][:, None]), 1)
        assert_values(found[head], dense_values(one, two))


def test_chunks_do_not_show(monkeypatch):
    left, right = random(12, 5, 9), random(4, 5, 7)
    whole = forms(left, right)
    monkeypatch.setattr("rankwise.audit.subspaces._CHUNK_BYTES", 1)
    parts = forms(left, right)
    torch.testing.assert_close(whole.singular_values, parts.singular_values)
    torch.testing.assert_close(whole.left_spaces.basis(7).abs(), parts.left_spaces.basis(7).abs())


def test_subspaces_hold_nine_tenths_of_the_energy_and_no_less():
    left, right = random(3, 6, 20), random(3, 6, 15)
    found = forms(left, right)
    for head in range(3):
        dense = left[head].T @ right[head]
        inside = found.left_spaces.basis(head).double().mT.numpy() @ dense
        share = np.square(inside).sum() / np.square(dense).sum()
        assert share >= 0.9 - 1e-6
        smaller = np.linalg.svd(dense)[1][: found.left_spaces.dims[head] - 1]
        assert np.square(smaller).sum() / np.square(dense).sum() < 0.9


def test_ranks_are_those_of_the_room_measure():
    values = torch.rand(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values[1, 3:] = 0
    values[2] = 0
    for row, found in zip(values, ranks_of(values, 100), strict=True):
        assert found.effective == pytest.approx(float(effective_rank(singular_values=row)))
        assert found.stable == pytest.approx(float(stable_rank(singular_values=row)))
        assert found.energy_90 == int(energy_rank(singular_values=row, fraction=0.9))
    assert [found.numerical for found in ranks_of(values, 100)] == [7, 3, 0, 7]


def test_yarn_multiplies_the_rotated_scores_twice(saved, tmp_path):
    """Cosine and sine of queries and keys alike, at distance 0 too; with coordinates that do not turn, ranks see it."""
    folder = shutil.copytree(saved("deepseek-v3"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    stretched = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64, "attention_factor": 1.5}
    (folder / "config.json").write_text(json.dumps(config | {"rope_parameters": stretched | {"rope_theta": 1e4}}))
    source = open_model(folder)
    weights = load_layer(source, place(source).layers[0]).folded()
    found, rope = qk_forms(weights), weights.ref.rope
    assert (rope.amplitude, rope.start, rope.dims) == (1.5, 6, 4)
    queries = weights.q @ with_typical_latent(weights.query_down, 0)
    keys = weights.k @ with_typical_latent(weights.key_down, 4)
    keys[:, 6:] *= 1.5**2
    for head in range(3):
        dense = np.linalg.svd(queries[head].T @ keys[head], compute_uv=False)
        np.testing.assert_allclose(found.singular_values[head].numpy(), dense[: weights.ref.rank], rtol=1e-4)
    torch.testing.assert_close(found.rotated(rope, 0), found.singular_values)


@pytest.mark.parametrize(("down", "latent"), [("q_a_proj", 18), ("kv_a_proj_with_mqa", 14)])
def test_what_a_latents_norm_divides_away_changes_no_form(saved, tmp_path, down, latent):
    folder = shutil.copytree(saved("deepseek-v3"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if f"{down}.weight" in name]:
        tensors[name][:latent] *= 10  # not the shared rotary rows behind the key's latent
    save_file(tensors, folder / "model.safetensors")
    reports = [audit_weights(open_model(path)).layers[0].head_reports for path in (saved("deepseek-v3"), folder)]
    for one, other in zip(*reports, strict=True):
        assert one.qk_norm == pytest.approx(other.qk_norm, rel=1e-4)
        assert one.ov_norm == pytest.approx(other.ov_norm, rel=1e-4)
        assert one.qk.effective == pytest.approx(other.qk.effective, rel=1e-4)


def test_a_typical_latent_has_unit_size_for_inputs_of_unit_size():
    down = 5 * random(10, 400)
    scaled = with_typical_latent(down, rope=3)
    np.testing.assert_array_equal(scaled[7:], down[7:])
    latents = scaled[:7] @ random(400, 5000, seed=2)
    assert np.sqrt(np.square(latents).mean()) == pytest.approx(1, rel=0.02)
    assert (with_typical_latent(np.zeros((10, 4)), rope=3) == 0).all()
