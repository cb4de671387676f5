import pytest

from rankwise.recipes import figure1
from rankwise.recipes.figure3 import FIGURE, KINDS
from recipe_rows import points_from


def kind_of(run):
    return FIGURE.columns(run)["positions"]


@pytest.mark.parametrize("preset", list(FIGURE.presets))
@pytest.mark.parametrize("protocol", ["capacity", "paper"])
def test_every_kind_stands_at_every_rank_and_is_told_from_its_model(preset, protocol):
    settings = FIGURE.presets[preset]
    runs = list(FIGURE.sweep(preset, protocol=protocol, seeds=1).expand())
    expected = [(layers, kind, rank) for layers in settings.layers for kind in KINDS for rank in settings.ranks]
    assert [(run.model.layers, kind_of(run), run.model.rank) for run in runs] == expected


@pytest.mark.parametrize("protocol", ["capacity", "paper"])
def test_parameters_of_the_kinds(protocol):
    """The authors' concatenated heads have four times the attention weights, the equal ones as many."""
    dim, points = 64, 16
    runs = list(FIGURE.sweep("full", protocol=protocol).expand())
    for run in runs:
        kind, attention = kind_of(run), run.model.attention
        weights = 2 * attention.heads * attention.dim * (attention.rank + attention.value_dim)
        alone = 4 * dim**1.5 * dim
        assert weights == {"concatenated": 4 * alone}.get(kind, alone)
        assert run.model.positions == kind.partition(",")[0]
        if kind == "concatenated, equal":
            none = next(other for other in runs if _same_without(other, run))
            extra = run.model.parameters() - none.model.parameters()
            norms_biases_and_table = run.model.layers * 20 * dim + points * dim
            assert abs(extra) <= norms_biases_and_table + run.model.layers * 2048


def _same_without(other, run):
    return (kind_of(other), other.model.rank, other.model.layers) == ("none", run.model.rank, run.model.layers)


def test_without_positions_it_is_figure_1_and_the_papers_rate_is_halved_with_them():
    few = {"protocol": "paper", "only": ("layers=1",)}
    whole = {run.id for run in figure1.FIGURE.sweep("full", **few).expand()}
    runs = list(FIGURE.sweep("full", **few).expand())
    assert {run.id for run in runs if kind_of(run) == "none"} <= whole
    assert {run.optim.lr for run in runs if kind_of(run) != "none"} == {0.005}


@pytest.mark.parametrize("rank", FIGURE.presets["full"].ranks)
def test_the_authors_cut_points_and_positions_into_heads_of_the_rank_on_the_axis(rank):
    """Eight modules of (64 + 64) / rank heads each, averaged, beside eight of 64 / rank without positions."""
    runs = FIGURE.sweep("full", protocol="paper", only=(f"rank={rank}", "layers=1")).expand()
    heads = {kind_of(run): (run.model.heads, run.model.average) for run in runs}
    assert heads["concatenated"] == (8 * 128 // rank, 8)
    assert heads["none"] == heads["additive"] == (8 * 64 // rank, 8)


ERRORS = {"none": 0.4, "additive": 0.4, "concatenated": 0.1, "concatenated, equal": 0.2}


def test_reading_and_the_papers_values():
    points = points_from(FIGURE, "full", lambda run: ERRORS[kind_of(run)])
    additive, concatenated, equal, _ = FIGURE.reading(FIGURE.presets["full"], points)
    for line, gain in ((additive, 1), (concatenated, 4), (equal, 2)):
        assert line.endswith(f"by {gain:.2f} with 1 layer, by {gain:.2f} with 3 layers.")
    figure = FIGURE.picture(FIGURE.presets["full"], points).draw()
    assert [axes.get_title() for axes in figure.axes] == ["1 layer", "3 layers"]
    crosses = [line for line in figure.axes[1].lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses) == 3
    assert 0.00217 in crosses[-1].get_ydata()


def test_a_kind_keeps_its_colour_when_others_are_missing():
    def colours(**options):
        points = points_from(FIGURE, "laptop", lambda run: 0.4, **options)
        handles, labels = FIGURE.picture(FIGURE.presets["laptop"], points).draw().axes[0].get_legend_handles_labels()
        return {label: handle.lines[0].get_color() for handle, label in zip(handles, labels, strict=True)}

    few, every = colours(only=("positions=none,concatenated",)), colours()
    assert set(few) == {"none", "concatenated"}
    assert few.items() <= every.items()
    assert len(set(every.values())) == len(KINDS)
