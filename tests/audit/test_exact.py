"""The audit against dense matrices and their full SVDs, layout by layout: its faster ways change no number."""

import numpy as np
import pytest
import torch

from dense_forms import dense_forms
from rankwise.audit.audit import audit_weights
from rankwise.models.files.source import open_model
from rankwise.models.layouts import load_layer, place
from rankwise.nn import one_thread, one_thread_each
from tiny_models import CONFIGS, tiny_model


def dense_ranks(matrix):
    s = np.linalg.svd(matrix, compute_uv=False)
    p = s[s > 1e-13 * s[0]] / s.sum()
    energy = np.cumsum(s**2) / np.sum(s**2)
    return (
        np.exp(-(p * np.log(p)).sum()),
        (s**2).sum() / s[0] ** 2,
        *(int((energy < f - 1e-9).sum()) + 1 for f in (0.9, 0.99)),
    )


def dense_shares(forms):
    """Of every pair: the share of the smaller subspace of 90 % energy that lies in the other, on both sides."""
    bases = []
    for matrix in forms:
        u, s, vh = np.linalg.svd(matrix)
        kept = int((np.cumsum(s**2) / np.sum(s**2) < 0.9 - 1e-9).sum()) + 1
        bases.append((u[:, :kept], vh[:kept].T))
    return {
        (i, j): tuple(
            np.square(one.T @ other).sum() / min(one.shape[1], other.shape[1])
            for one, other in zip(bases[i], bases[j], strict=True)
        )
        for i in range(len(forms))
        for j in range(i + 1, len(forms))
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_ranks_and_overlaps_are_those_of_dense_svds(name, saved):
    source = open_model(saved(name))
    placement = place(source)
    report = audit_weights(source, placement)
    for ref, layer in zip(placement.layers, report.layers, strict=True):
        qk, ov = dense_forms(load_layer(source, ref).folded())
        for head, one, other in zip(layer.head_reports, qk, ov, strict=True):
            for found, dense in ((head.qk, one), (head.ov, other)):
                ours = (found.effective, found.stable, found.energy_90, found.energy_99)
                assert ours == pytest.approx(dense_ranks(dense), rel=1e-4)
        for form, matrices in (("QK", qk), ("OV", ov)):
            shares = dense_shares(matrices)
            listed = [pair for pair in layer.overlaps if pair.form == form]
            for pair in listed:
                assert (pair.left, pair.right) == pytest.approx(shares[pair.heads], rel=1e-4)
            closest = sorted((min(share) for share in shares.values()), reverse=True)
            assert [min(pair.left, pair.right) for pair in listed] == pytest.approx(closest[: len(listed)], rel=1e-4)
            assert len(listed) >= min(3, len(shares))


def test_pairs_that_are_not_looked_at_are_none_of_the_closest(monkeypatch):
    """With three pairs looked at first, and with all, the same pairs are listed."""
    model = tiny_model("llama", hidden_size=96, num_attention_heads=24, num_key_value_heads=8)
    monkeypatch.setattr("rankwise.audit.overlap._LOOKED_AT_FIRST", 10**6)
    every = audit_weights(model)
    monkeypatch.setattr("rankwise.audit.overlap._LOOKED_AT_FIRST", 3)
    few = audit_weights(model)
    for layer, other in zip(every.layers, few.layers, strict=True):
        assert [pair.heads for pair in layer.overlaps] == [pair.heads for pair in other.overlaps]
        for pair, same in zip(layer.overlaps, other.overlaps, strict=True):
            assert (pair.left, pair.right) == pytest.approx((same.left, same.right), rel=1e-5)


def test_threads_change_nothing_and_are_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen = one_thread_each(lambda item: (item, torch.get_num_threads()), range(5))
        assert torch.get_num_threads() == 2
        with one_thread() as threads:
            assert (threads, torch.get_num_threads()) == (2, 1)
        two = audit_weights(tiny_model("qwen2"))
    finally:
        torch.set_num_threads(before)
    assert seen == [(item, 1) for item in range(5)]
    with one_thread():
        one = audit_weights(tiny_model("qwen2"))
    for layer, other in zip(two.layers, one.layers, strict=True):
        for head, same in zip(layer.head_reports, other.head_reports, strict=True):
            assert head.qk_singular_values == pytest.approx(same.qk_singular_values, rel=1e-9)
