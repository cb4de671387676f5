import math

import pytest
import torch

from rankwise.recipes.biased import FIGURE, margin_deviation
from rankwise.tasks import build_task
from rankwise.train.build import build_model
from recipe_rows import points_from, rows_of


@pytest.mark.parametrize("preset", list(FIGURE.presets))
def test_runs_are_bare_layers_that_can_tell_the_two_points_apart(preset):
    settings = FIGURE.presets[preset]
    runs = list(FIGURE.sweep(preset, seeds=1).expand())
    assert len(runs) == len(settings.ranks) * len(settings.biases)
    assert {run.model.heads for run in runs} == {settings.heads}
    assert max(settings.ranks) == settings.dim + 1
    for run in runs:
        assert (run.model.layers, run.model.norm, run.model.residual, run.model.feedforward) == (1, "none", "none", 0)
        assert (run.model.positions, run.model.position_dim) == ("concatenated", 1)
    deviations = sorted({run.task.biases[0] / math.sqrt(2 / settings.dim) for run in runs})
    assert deviations == pytest.approx(settings.biases)


def test_a_head_of_rank_one_more_than_the_dimension_computes_the_target():
    """The claim of the docstring, hand-built: scores beta(<x, y> + bias of the first point)."""
    run = next(r for r in FIGURE.sweep("smoke").expand() if r.model.rank == 9 and r.task.biases[0] > 0)
    model, task, beta = build_model(run), build_task(run.task), 2000.0
    (layer,) = model.attention_layers()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.positions.copy_(torch.tensor([[1.0], [0.0]]))
        layer.k_weight[0] = torch.eye(9)
        layer.q_weight[0, :8, :8] = beta * 3.0 * torch.eye(8)
        layer.q_bias[0, 8] = beta * 3.0 * run.task.biases[0]
        layer.v_weight[0, :, :8] = torch.eye(8)
        layer.o_weight[0, :, :8] = torch.eye(8)
        batch = task.sample(500, torch.Generator().manual_seed(0))
        error = task.error(model(batch.queries, batch.points), batch)
    assert float(error.mean()) < 2e-3


def test_deviations_are_those_of_the_margin():
    task = build_task(next(FIGURE.sweep("smoke").expand()).task)
    batch = task.sample(20_000, torch.Generator().manual_seed(0))
    margin = ((batch.points[:, 0] - batch.points[:, 1]) * batch.queries[:, 0]).sum(-1)
    assert float(margin.std()) == pytest.approx(margin_deviation(8), rel=0.03)


def test_rows_carry_the_bias_and_the_linear_error():
    rows = rows_of(FIGURE, "smoke", lambda run: 0.1)
    assert [row["bias"] for row in rows] == [0.0] * 3 + [1.0] * 3
    without, with_bias = (float(row["linear_error"]) for row in (rows[0], rows[3]))
    assert with_bias < without < 0.5  # the constant answer gets easier, and the mean of the points errs by .5
    assert rows[0]["of_linear"] == pytest.approx(0.1 / without)


def test_reading_and_picture_from_fixed_numbers():
    points = points_from(
        FIGURE, "smoke", lambda run: 0.8 / run.model.rank, lambda run: {"of_linear": 2.0 / run.model.rank}
    )
    words = "Bias 1: of the best linear predictor's error, 0.5 at rank d/2 and 0.22 at rank d + 1 is left."
    assert FIGURE.reading(FIGURE.presets["smoke"], points)[1] == words
    errors, relative = FIGURE.picture(FIGURE.presets["smoke"], points).draw().axes
    assert errors.xaxis_inverted()
    first = next(line for line in errors.lines if len(line.get_xdata()) == 3)
    assert list(first.get_xdata()) == [4, 0, -1]
    assert [label.get_text() for label in relative.get_xticklabels()] == ["-1", "0", "4"]
