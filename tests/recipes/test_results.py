"""``results/``: every kept row is of a run that HEAD makes, and every run of a kept figure has its rows."""

import csv
from pathlib import Path

from rankwise.recipes.registry import TRAINED, trained_recipe
from rankwise.spec import TextSpec, vary

RESULTS = Path(__file__).parents[2] / "results"
# The standard library of CPython 3.11.7: another interpreter has another text, and so other ids.
CORPUS_SHA256 = "6d288edf9f58b0cf2e8290a6115706d94b1edc038735b05793f0d17e68b125ff"


def kept():
    """(figure, preset) of every table: ``figure1-laptop.csv``."""
    names = [path.stem.rpartition("-") for path in sorted(RESULTS.glob("*-*.csv"))]
    return [(figure, preset) for figure, _, preset in names if figure in TRAINED]


def run_ids(figure, preset):
    """The ids that HEAD gives the runs of a figure, with the text that the kept ones were trained on."""
    runs = trained_recipe(figure).sweep(preset).expand()
    return {(vary(r, {"task.sha256": CORPUS_SHA256}) if isinstance(r.task, TextSpec) else r).id for r in runs}


def test_a_table_has_exactly_the_runs_of_its_figure():
    for figure, preset in kept():
        with (RESULTS / f"{figure}-{preset}.csv").open(encoding="utf-8") as file:
            found = {row["run_id"] for row in csv.DictReader(file)}
        assert found == run_ids(figure, preset), f"{figure}-{preset}"
        for suffix in ("png", "svg", "md"):
            assert (RESULTS / f"{figure}-{preset}.{suffix}").stat().st_size > 0
