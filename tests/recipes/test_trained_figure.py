"""What every trained figure has in common: sweeps, options, rows, tables and files."""

import csv

import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes.cliff import FIGURE as CLIFF
from rankwise.recipes.registry import TRAINED, trained_recipe
from recipe_rows import points_from, trained


@pytest.fixture(params=list(TRAINED))
def figure(request):
    return trained_recipe(request.param)


def test_every_figure_is_complete_and_its_presets_have_their_seeds(figure):
    assert TRAINED[figure.name]
    assert set(figure.presets) - {"demo"} == {"smoke", "laptop", "full"}
    assert (figure.presets["smoke"].seeds, figure.presets["laptop"].seeds) == (1, 3)


def test_a_sweep_has_every_run_once_with_every_seed(figure):
    runs = list(figure.sweep("smoke", seeds=2).expand())
    assert len({run.id for run in runs}) == len(runs)
    assert [run.seed for run in runs] == [0] * (len(runs) // 2) + [1] * (len(runs) // 2)
    assert [run.id for run in runs[: len(runs) // 2]] == [run.id for run in figure.sweep("smoke").expand()]


def test_the_keys_tell_all_rows_of_a_seed_apart(figure):
    """Otherwise an average would mix different cells."""
    runs = [trained(run, 0.5) for run in figure.sweep("smoke").expand()]
    known = dict.fromkeys(("head", "tested_points", "passes"), 0)
    cells = [tuple({**known, **_columns(figure, one.run)}.get(key) for key in figure.keys) for one in runs]
    assert len(set(cells)) == len(cells)


def _columns(figure, run):
    from rankwise.recipes.points import run_columns

    return {**run_columns(run), **figure.columns(run)}


def test_some_runs_can_be_chosen():
    some = CLIFF.sweep("laptop", only=("rank=15,16", "heads=1", "seed=0,2")).expand()
    assert [(run.model.heads, run.model.rank, run.seed) for run in some] == [
        (1, 15, 0),
        (1, 16, 0),
        (1, 15, 2),
        (1, 16, 2),
    ]


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        ("huge", {}, "--preset: expected one of smoke, laptop, full, got 'huge'"),
        ("smoke", {"seeds": 0}, "--seeds: expected at least 1, got 0"),
        ("smoke", {"sequences": 0}, "--sequences: expected at least 1, got 0"),
        ("smoke", {"protocol": "paper"}, "--protocol: expected an option of cliff .--seeds, --only, --sequences."),
    ],
)
def test_what_a_figure_does_not_have_is_named(preset, options, message):
    with pytest.raises(InvalidInputError, match=message):
        CLIFF.sweep(preset, **options)


def test_table_and_files_come_from_the_points(tmp_path):
    runs = [trained(run, run.model.rank / 100 + run.seed / 10) for run in CLIFF.sweep("smoke", seeds=2).expand()]
    done = CLIFF.write("smoke", "some command", runs, tmp_path)
    assert done.columns == ("heads", "rank", "error", "± error", "seeds")
    assert done.rows[0] == (1, 8, pytest.approx(0.13), pytest.approx(0.05), 2)
    names = [path.name for path in done.files]
    assert names == [f"cliff-smoke.{suffix}" for suffix in ("png", "svg", "csv", "md")]
    with (tmp_path / "cliff-smoke.csv").open() as file:
        assert [row["run_id"] for row in csv.DictReader(file)] == [one.run.id for one in runs]
    page = (tmp_path / "cliff-smoke.md").read_text()
    assert "`some command`" in page
    assert all(f"- {line}\n" in page for line in done.reading)


def test_one_seed_has_no_column_of_seeds():
    presented = CLIFF.present("smoke", points_from(CLIFF, "smoke", lambda run: 0.5))
    assert presented.columns == ("heads", "rank", "error", "± error")
    assert {row[-1] for row in presented.rows} == {0.001}
