"""Select or search: what a prefix of coordinates chooses, the rank that 99 % take, and the two figures."""

import pytest
import torch

from rankwise.nn.constructions import choices_by_rank, selecting_head
from rankwise.recipes import select_trained
from rankwise.recipes.closed_form import select
from rankwise.spec import SelectSpec
from rankwise.tasks import Select
from recipe_rows import points_from


def test_prefix_sums_choose_what_hand_built_heads_choose():
    batch = Select(SelectSpec(dim=6, points=5, noise=1.0)).sample(200, torch.Generator().manual_seed(0))
    chosen = choices_by_rank(batch.points, batch.queries[:, 0])
    for rank in (1, 4, 6):
        head = selecting_head(torch.eye(6)[:rank])
        answers = head(batch.queries, batch.points)[:, 0]
        assert torch.equal(batch.points[torch.arange(200), chosen[:, rank - 1]], answers)


def test_rank_needed_is_that_from_which_on_99_percent_are_right():
    assert select.rank_needed(torch.tensor([0.5, 0.985, 0.995, 0.989, 0.991, 1.0])) == 5
    assert select.rank_needed(torch.ones(3)) == 1
    assert select.rank_needed(torch.tensor([0.5, 0.5, 1.0])) == 3


SMALL = select.Settings(dim=24, codes=(8, 32), noises=(0.0, 0.5, 4.0), samples=1500)


@pytest.fixture(scope="module")
def ranks():
    return select.FIGURE.compute(SMALL)


def test_selection_takes_its_closed_form_and_search_takes_everything(ranks):
    for mark in ranks:
        if mark["kind"] == "new" and mark["noise"] < 1:
            assert abs(mark["measured"] - mark["exact"]) <= 1 + 4 * mark["measured_se"]
            assert mark["exact"] <= mark["sufficient"]
        elif mark["kind"] == "new":
            assert "exact" not in mark
            assert mark["measured"] >= 22
        elif mark["kind"] == "search":
            assert mark["measured"] >= 23
    fixed = {(mark["kind"], mark["codes"]): mark["measured"] for mark in ranks}
    assert fixed["discriminant", 8] < fixed["random", 8]


def test_reading_and_picture_of_the_marks(ranks):
    lines = select.FIGURE.reading(SMALL, ranks)
    assert lines[0].startswith("Without noise, every doubling of the codes takes ")
    assert all(line.endswith(".") for line in lines)
    figure = select.FIGURE.picture(SMALL, ranks).draw()
    assert figure.axes[0].get_title() == "rank grows like log $N$"
    assert len(select.FIGURE.table(ranks)["codes"]) == 2 * 6


def test_trained_cells_differ_in_codes_and_rank_alone():
    runs = list(select_trained.FIGURE.sweep("laptop", seeds=1).expand())
    assert len({run.id for run in runs}) == 2 * 2 * 7
    assert {run.model.value_rank for run in runs} == {32}
    assert len({(run.optim, run.model.heads, run.task.noise) for run in runs}) == 1


def test_trained_reading_and_picture_from_fixed_numbers():
    settings = select_trained.FIGURE.presets["laptop"]
    points = points_from(select_trained.FIGURE, "laptop", lambda run: 0.5 if run.model.rank < 20 else 0.005)
    lines = select_trained.FIGURE.reading(settings, points)
    assert lines[0] == "16 fixed codes: rank 20 learns to be wrong in at most 1 %."
    assert lines[2] == "16 new codes: of hand-built heads, rank 20 is wrong in at most 1 %."
    figure = select_trained.FIGURE.picture(settings, points).draw()
    assert [axes.get_title() for axes in figure.axes] == ["$N = 16$", "$N = 128$"]
