import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes import figure1, figure3
from rankwise.recipes.figure3 import KINDS, PRESETS, draw, kind_of, points_of, reading
from recipe_rows import trained


def rows(preset, error_of, **options):
    return figure3.rows([trained(run, error_of(run)) for run in figure3.sweep(preset, **options).expand()])


@pytest.mark.parametrize("preset", list(PRESETS))
@pytest.mark.parametrize("protocol", ["capacity", "paper", "wide"])
def test_every_kind_stands_at_every_rank_and_is_told_from_its_model(preset, protocol):
    settings = PRESETS[preset]
    runs = list(figure3.sweep(preset, protocol=protocol).expand())
    assert len({run.id for run in runs}) == len(settings.sequences) * len(KINDS) * len(settings.ranks)
    for layers in settings.sequences:
        found = [(kind_of(run.model), run.model.rank) for run in runs if run.model.layers == layers]
        assert found == [(kind, rank) for kind in KINDS for rank in settings.ranks]


@pytest.mark.parametrize("protocol", ["capacity", "paper"])
def test_parameters_of_the_kinds(protocol):
    """The authors' concatenated heads have four times the attention weights, the equal ones as many."""
    dim, points = 64, 16
    runs = list(figure3.sweep("paper", protocol=protocol).expand())
    for run in runs:
        kind, rank = kind_of(run.model), run.model.rank
        attention = run.model.attention
        weights = 2 * attention.heads * attention.dim * (attention.rank + attention.value_dim)
        alone = 4 * dim**1.5 * dim
        assert weights == {"concatenated": 4 * alone}.get(kind, alone)
        assert run.model.positions == kind.partition(",")[0]
        if kind == "concatenated, equal":
            none = next(other for other in runs if _same(other, run, rank))
            extra = run.model.parameters() - none.model.parameters()
            norms_biases_and_table = run.model.layers * 20 * dim + points * dim
            assert abs(extra) <= norms_biases_and_table + run.model.layers * 2048


def test_positions_start_short_where_no_norm_shortens_them():
    gains = {kind_of(run.model): run.model.position_gain for run in figure3.sweep("smoke", protocol="wide").expand()}
    assert gains == {"none": None, "additive": None, "concatenated": 0.2, "concatenated, equal": 0.2}
    assert {run.model.position_gain for run in figure3.sweep("smoke").expand()} == {None}


def _same(other, run, rank):
    return kind_of(other.model) == "none" and other.model.rank == rank and other.model.layers == run.model.layers


def test_without_positions_it_is_figure_1_also_by_the_papers_protocol():
    whole = {run.id for run in figure1.sweep("paper-whole", protocol="paper").expand()}
    none = [run for run in figure3.sweep("paper", protocol="paper").expand() if run.model.positions == "none"]
    assert {run.id for run in none} <= whole
    later = next(run for run in figure3.sweep("paper", protocol="paper").expand() if run.model.positions == "additive")
    assert (later.optim.lr, later.optim.steps * later.optim.batch) == (0.005, 51_200_000)


def test_points_reading_and_authors():
    errors = {"none": 0.4, "additive": 0.4, "concatenated": 0.1, "concatenated, equal": 0.2}
    found = points_of(rows("paper", lambda run: errors[kind_of(run.model)]))
    at = {(p.layers, p.positions, p.rank): p for p in found}
    assert at[3, "concatenated", 8].authors == 0.00217
    assert at[1, "additive", 64].authors == 0.0152
    assert at[3, "concatenated, equal", 8].authors is None
    lines = reading(found).split("\n")
    assert lines[0].startswith("1 layer, heads of rank below 64")
    assert "additive 1.00; concatenated 4.00; concatenated, equal 2.00." in lines[1]
    figure = draw(found, {"zero": 1.0}, "title")
    assert [axes.get_title() for axes in figure.axes] == ["1 layer", "3 layers"]
    crosses = [line for line in figure.axes[1].lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses) == 3
    small = points_of(rows("smoke", lambda run: 0.5))
    assert {point.authors for point in small} == {None}


def test_curves_and_ranks_can_be_chosen_and_read():
    runs = figure3.sweep("paper", pieces=(1, 7), ranks=(8,)).expand()
    found = [(kind_of(run.model), run.model.rank) for run in runs]
    assert found == [("none", 8), ("concatenated", 8)]
    with pytest.raises(InvalidInputError, match="pieces: expected numbers from 1 to 8 for preset 'paper', got 9"):
        figure3.sweep("paper", pieces=(9,))
    with pytest.raises(
        InvalidInputError, match="ranks: expected some of 1, 2, 4, 8, 16, 32, 64 for preset 'paper', got 3"
    ):
        figure3.sweep("paper", ranks=(8, 3))
    errors = {"none": 0.4, "concatenated": 0.1}
    points = points_of(rows("paper", lambda run: errors[kind_of(run.model)], pieces=(5, 7), ranks=(8,)))
    first, second = reading(points).split("\n")
    assert first == (
        "3 layers, heads of rank below 64: error without positions over error with them (geometric mean): "
        "concatenated 4.00."
    )
    assert (
        second == "Sequences in training: 3 layers 1,280,000; the authors' 51,200,000 (25,600,000 without positions)."
    )


def test_what_is_known_by_heart_is_read_apart_where_sequences_come_again():
    new, known = {"none": 0.4, "concatenated": 0.2}, {"none": 0.3, "concatenated": 0.1}
    sweep = figure3.sweep("paper", protocol="recall", pieces=(5, 7), ranks=(8,))
    runs = [(run, kind_of(run.model)) for run in sweep.expand()]
    points = points_of(figure3.rows([trained(run, new[kind], train_min=known[kind]) for run, kind in runs]))
    assert [point.known for point in points] == [0.3, 0.1]
    first, second, _ = reading(points).split("\n")
    assert first.endswith("(geometric mean): concatenated 2.00.")
    assert second == "The same on the sequences it was trained on, as the authors measure: concatenated 3.00."
    handles, labels = draw(points, {}, "title").axes[0].get_legend_handles_labels()
    open_markers = dict(zip(labels, handles, strict=True))["concatenated: trained on"]
    assert (list(open_markers.get_ydata()), open_markers.get_markerfacecolor()) == ([0.1], "white")
    fresh = points_of(rows("laptop", lambda run: 0.5))
    once = points_of(rows("laptop", lambda run: 0.5, protocol="recall", sequences=51_199))
    twice = points_of(rows("laptop", lambda run: 0.5, protocol="recall", sequences=51_200))
    assert {point.known for point in (*fresh, *once)} == {None}
    assert {point.known for point in twice} == {0.5}


def test_recall_of_several_layers_twice_as_wide_has_half_the_rate_but_for_the_feedforward():
    rates = {
        (run.model.layers, kind_of(run.model)): (run.optim.lr, run.optim.lr * run.optim.lr_multipliers.feedforward)
        for run in figure3.sweep("paper", protocol="recall", ranks=(1,)).expand()
    }
    halved = {cell for cell, (lr, _) in rates.items() if lr == 0.0025}
    assert halved == {(3, "concatenated"), (3, "concatenated, equal")}
    assert {lr for cell, (lr, _) in rates.items() if cell not in halved} == {0.005}
    feedforward = {1: 0.005, 3: 0.002}  # one layer has groups, whose hidden units are large
    assert all(rate == feedforward[layers] for (layers, _), (_, rate) in rates.items())


@pytest.mark.parametrize("rank", PRESETS["paper"].ranks)
def test_the_authors_cut_points_and_positions_into_heads_of_the_rank_on_the_axis(rank):
    """Eight modules of (64 + 64) / rank heads each, averaged, beside eight of 64 / rank without positions."""
    heads = {}
    for run in figure3.sweep("paper", protocol="paper", ranks=(rank,)).expand():
        heads[kind_of(run.model)] = (run.model.heads, run.model.average)
    assert heads["concatenated"] == (8 * 128 // rank, 8)
    assert heads["none"] == heads["additive"] == (8 * 64 // rank, 8)


def test_a_kind_keeps_its_colour_when_others_are_missing():
    def colours(**options):
        figure = draw(points_of(rows("laptop", lambda run: 0.4, **options)), {}, "title")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        return {label: handle.lines[0].get_color() for handle, label in zip(handles, labels, strict=True)}

    few, every = colours(pieces=(1, 3)), colours()
    assert set(few) == {"none", "concatenated"}
    assert few.items() <= every.items()
    assert len(set(every.values())) == len(KINDS)
