"""Masks by name, and the closed forms against the sum over any mask and against a draw."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankwise.audit.mask_baseline import SeenMask, barrier, random_head_rank, seen_mask, uniform_choice_mean
from rankwise.theory.occupancy import hardmax_rank_mean


def band(length, reach):
    return torch.ones(length, length, dtype=torch.bool).tril().triu(1 - reach)


@given(length=st.integers(2, 40), reach=st.integers(1, 40))
def test_any_mask_agrees_with_the_closed_forms_where_they_exist(length, reach):
    reach = min(reach, length)
    visible = band(length, reach)
    expected = SeenMask(kind="causal") if reach == length else SeenMask(kind="window", window=reach)
    assert seen_mask(visible) == expected
    assert uniform_choice_mean(visible) == pytest.approx(hardmax_rank_mean(length, "window", reach), rel=1e-9)
    assert barrier(length, length, visible) == pytest.approx(uniform_choice_mean(visible), rel=1e-9)
    everything = torch.ones(length, length, dtype=torch.bool)
    assert seen_mask(everything) == SeenMask(kind="full")
    assert uniform_choice_mean(everything) == pytest.approx(barrier(length, length, None), rel=1e-9)


def test_a_mask_without_a_name_agrees_with_drawing():
    visible = torch.rand(30, 20, generator=torch.Generator().manual_seed(0)) < 0.3
    visible[3] = False
    assert seen_mask(visible).kind == "other"
    draws = torch.rand(4000, 30, 20, generator=torch.Generator().manual_seed(1)).masked_fill(~visible, -1)
    picked = torch.zeros(4000, 20).scatter_(1, draws[:, visible.any(1)].argmax(-1), 1.0)
    mean, error = picked.sum(1).mean(), picked.sum(1).std() / 4000**0.5
    assert barrier(30, 20, visible) == pytest.approx(float(mean), abs=float(4 * error))
    assert random_head_rank(30, 4, seen_mask(visible)) is None


def test_a_random_head_stays_below_the_barrier():
    for mask, visible in ((SeenMask(kind="full"), None), (SeenMask(kind="causal"), band(64, 64))):
        ranks = [random_head_rank(64, head_dim, mask) for head_dim in (4, 16, 64)]
        assert ranks == sorted(ranks)
        assert ranks[-1] < barrier(64, 64, visible)


def test_a_head_of_one_coordinate_has_no_baseline_of_its_own():
    assert random_head_rank(64, 1, SeenMask(kind="causal")) is None
