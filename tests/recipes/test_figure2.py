import math

import pytest
import torch

from rankwise.measure.alignment import angle_and_scale
from rankwise.recipes import figure1, figure2
from rankwise.recipes.figure2 import FIGURE, published_medians
from rankwise.sweep.trained_weights import trained_model
from recipe_rows import points_from, trained_here


@pytest.mark.parametrize(("preset", "heads"), [("laptop", [1, 4, 16]), ("full", [1, 8, 64])])
def test_the_runs_are_full_rank_cells_of_figure_1(preset, heads):
    """Trained once for both figures: the ids are the same."""
    runs = list(FIGURE.sweep(preset, seeds=2).expand())
    assert {run.model.rank for run in runs} == {FIGURE.presets[preset].dim}
    assert [run.model.heads for run in runs if run.seed == 0] == heads
    assert {run.id for run in runs} <= {run.id for run in figure1.FIGURE.sweep(preset, seeds=2).expand()}


def test_angle_and_scale_of_known_matrices():
    identity = torch.eye(9)
    assert angle_and_scale(-40 * identity, -1) == pytest.approx((0, 40), abs=1e-5)
    assert angle_and_scale(3 * identity, -1) == pytest.approx((180, 3), abs=1e-5)
    rotation = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    assert angle_and_scale(rotation, 1) == pytest.approx((90, 1))
    half = torch.diag(torch.tensor([-1.0, -1.0, 0.0, 0.0]))
    assert angle_and_scale(half, -1) == pytest.approx((45, math.sqrt(0.5)))
    assert angle_and_scale(torch.zeros(3, 3), 1) == (90.0, 0.0)
    random = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    assert angle_and_scale(random, -1)[0] == pytest.approx(90, abs=5)


def test_rows_measure_the_weights_that_were_validated(tmp_path):
    """The scores of the first head, computed from the rows' formula, are what the loaded layer computes."""
    trained = trained_here(next(FIGURE.sweep("smoke").expand()), tmp_path)
    (row,) = FIGURE.rows([trained])
    assert row["head"] == 0
    (layer,) = trained_model(trained).requires_grad_(False).attention_layers()
    scores = torch.exp(layer.log_beta[0]) / math.sqrt(16) * layer.q_weight[0].T @ layer.k_weight[0]
    assert row["qk_scale"] == pytest.approx(float(scores.norm()) / 4, rel=1e-5)
    cosine = -float(scores.trace()) / (4 * float(scores.norm()))
    assert row["qk_angle"] == pytest.approx(math.degrees(math.acos(cosine)), rel=1e-4)
    written = layer.o_weight[0].T @ layer.v_weight[0]
    assert row["ov_scale"] == pytest.approx(float(written.norm()) / 4, rel=1e-5)


def extra(qk_angle, ov_angle=30.0):
    return {"head": 0, "qk_angle": qk_angle, "qk_scale": 100.0, "ov_angle": ov_angle, "ov_scale": 2.0}


def test_the_authors_medians_stand_beside_heads_of_their_size_as_ours_are_measured():
    """One head: 179.58 degrees from +I, and a scale of 2400 before the factor 1/sqrt(64) of the scores."""
    assert published_medians(64, 16)[1] == pytest.approx((0.42, 300))
    assert set(published_medians(64, 16)) == {1, 8, 64}
    assert published_medians(16, 8) == {}
    points = points_from(FIGURE, "full", lambda run: 0.02, lambda run: extra(10.0))
    scores, values = FIGURE.picture(FIGURE.presets["full"], points).draw().axes
    crosses = [line for line in scores.lines if line.get_marker() == "x"]
    assert [line.get_xdata()[0] for line in crosses if len(line.get_xdata())] == pytest.approx([0.42, 3.7, 11.46])
    assert not [line for line in values.lines if line.get_marker() == "x"]


def test_heads_are_summed_up_and_drawn():
    points = points_from(FIGURE, "smoke", lambda run: 0.02, lambda run: extra(10.0 + 40.0 * run.seed), seeds=2)
    one, *_ = FIGURE.reading(FIGURE.presets["smoke"], points)
    assert one == "1 head: 30.0 degrees from -I on average, 50.0 at most."
    scores, values = FIGURE.picture(FIGURE.presets["smoke"], points).draw().axes
    assert sorted(x for line in scores.lines[:2] for x in line.get_xdata()) == [10, 10, 50, 50]
    assert {y for line in values.lines[:2] for y in line.get_ydata()} == {2.0}
    assert figure2.FIGURE.keys == ("heads", "seed", "head"), "heads of different seeds are never averaged"
