import pytest

from rankwise.recipes.points import points_of
from rankwise.recipes.repeated import FIGURE, shown_passes
from rankwise.spec import vary
from rankwise.train.protocols import paper
from recipe_rows import trained


@pytest.mark.parametrize("preset", list(FIGURE.presets))
def test_runs_come_in_pairs_that_differ_in_how_many_sequences_are_different(preset):
    settings = FIGURE.presets[preset]
    runs = list(FIGURE.sweep(preset, seeds=1).expand())
    assert len(runs) == 2 * len(settings.layers) * len(settings.ranks)
    for repeated, fresh in zip(runs[::2], runs[1::2], strict=True):
        assert vary(repeated, {"optim.examples": None}) == fresh
        assert repeated.optim.examples == settings.examples
        assert repeated.optim.epoch_steps * repeated.optim.batch == settings.examples, "an epoch is one pass"
        assert repeated.optim.steps == settings.passes * repeated.optim.epoch_steps


def test_at_full_size_it_is_the_authors_protocol_to_the_letter():
    from rankwise.recipes.cells import farthest
    from rankwise.train.protocols import PAPER_SEQUENCES, Cell

    cell = Cell(task=farthest(64, 16), layers=3, heads=8, rank=8, sequences=PAPER_SEQUENCES)
    assert paper(cell).id in {run.id for run in FIGURE.sweep("full").expand()}


@pytest.mark.parametrize("layers", [1, 3])
def test_the_laptop_size_has_as_many_parameters_per_target_as_the_paper(layers):
    def of(preset):
        run = next(run for run in FIGURE.sweep(preset).expand() if run.model.layers == layers)
        return run.parameters() / (FIGURE.presets[preset].examples * run.task.points)

    assert of("laptop") == pytest.approx(of("full"), rel=0.1)


def with_curve(run):
    epochs = run.optim.steps // run.optim.epoch_steps
    known = [0.5 if run.optim.examples is None else 0.5 / (1 + n) for n in range(epochs)]
    curve = {"steps": list(range(epochs)), "train": known, "validation": [0.6] * epochs}
    return trained(run, 0.6, curve=curve)


def test_both_errors_are_read_off_the_curve_of_a_run():
    points = points_of(FIGURE.rows([with_curve(run) for run in FIGURE.sweep("laptop", seeds=1).expand()]), FIGURE.keys)
    line = FIGURE.reading(FIGURE.presets["laptop"], points)[1]
    assert line == (
        "1 layer of 2 heads of rank 8: training error 0.0025, held-out error 0.6. As many fresh sequences: 0.6."
    )
    figure = FIGURE.picture(FIGURE.presets["laptop"], points).draw()
    assert len(figure.axes) == 6
    known = next(line for line in figure.axes[0].lines if line.get_label() == "repeated sequences: training")
    assert (known.get_xdata()[0], known.get_xdata()[-1]) == (1, 200)
    assert known.get_ydata()[-1] == pytest.approx(0.5 / 200)


def test_the_whole_schedule_of_the_authors_is_one_choice_and_has_their_value_beside_it():
    (run,) = FIGURE.sweep("full", only=("layers=3", "rank=8", "sequences_are=repeated")).expand()
    assert run.optim.warmup == 50 * run.optim.epoch_steps
    assert run.optim.steps * run.optim.batch == 25_600_000
    points = points_of(FIGURE.rows([with_curve(run)]), FIGURE.keys)
    (line,) = FIGURE.reading(FIGURE.presets["full"], points)
    assert line.endswith(" The paper: 0.218 (training error).")
    (axes,) = FIGURE.picture(FIGURE.presets["full"], points).draw().axes
    (cross,) = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert (cross.get_xdata()[0], cross.get_ydata()[0]) == (1000, 0.218)


@pytest.mark.parametrize("count", [1, 7, 200, 1000])
def test_shown_passes_begin_with_the_first_and_end_with_the_last(count):
    shown = shown_passes(count)
    assert (shown[0], shown[-1]) == (1, count)
    assert len(shown) <= 25
