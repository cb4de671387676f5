import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.recipes.rows import COLUMNS, ResultRow, mean_over_seeds, read_rows, result_row, write_rows
from rankwise.recipes.trained import TrainedRun
from spec_examples import small_run

NUMBERS = {"error": 0.25, "error_se": 0.01, "train_min": 0.2, "sequences": 320, "seconds": 1.23456}


def row(seed=0, error=0.25, **extra):
    run = small_run(seed=seed)
    return result_row("some", TrainedRun(run=run, **NUMBERS | {"error": error}), extra)


def test_the_columns_are_the_promised_ones_in_order(tmp_path):
    path = write_rows([row()], tmp_path / "new" / "some.csv")
    with path.open() as file:
        (found,) = csv.DictReader(file)
    columns = (
        "figure protocol dim points layers heads rank seed sequences error error_se train_min parameters seconds run_id"
    )
    assert list(found) == columns.split() == list(COLUMNS)
    assert found["run_id"] == small_run().id
    assert (found["figure"], found["rank"], found["sequences"], found["seconds"]) == ("some", "4", "320", "1.235")


values = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | st.just("concatenated")


@given(errors=st.lists(st.floats(0, 10), max_size=4), extra=st.dictionaries(st.sampled_from("abc"), values))
def test_rows_survive_the_way_to_the_disk_and_back(tmp_path_factory, errors, extra):
    rows = [row(seed, error, **extra) for seed, error in enumerate(errors)]
    assert read_rows(write_rows(rows, tmp_path_factory.mktemp("rows") / "some.csv")) == rows


def test_a_run_measured_in_several_ways_has_several_rows_and_own_columns_come_last(tmp_path):
    rows = [row(evaluated=4), row(evaluated=8), row(1)]
    path = write_rows(rows, tmp_path / "some.csv")
    assert path.read_text().splitlines()[0] == ",".join((*COLUMNS, "evaluated"))
    assert read_rows(path) == rows


def test_a_name_of_digits_is_the_same_before_and_after_the_disk(tmp_path):
    named = row(data="2024")
    assert read_rows(write_rows([named], tmp_path / "some.csv")) == [named]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("0.25", "a quarter"), "line 2: expected numbers, got: could not convert string to float"),
        (("0.25", ""), "line 2: expected a value in 'error', got none"),
        (("error_se", "se"), "line 2: expected a value in 'error_se', got none"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(tmp_path, change, message):
    path = write_rows([row()], tmp_path / "some.csv")
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(InvalidInputError, match=message):
        read_rows(path)
    with pytest.raises(InvalidInputError, match="expected a CSV of results"):
        read_rows(tmp_path / "none.csv")


def test_seeds_are_averaged_with_the_standard_error_between_them():
    means = mean_over_seeds([row(0, 0.1), row(1, 0.3), row(2, 0.5)], lambda one: (one.rank,))
    (mean,) = means.values()
    assert (mean.error, mean.seeds) == (pytest.approx(0.3), 3)
    assert mean.spread == pytest.approx(0.2 / 3**0.5)
    alone = mean_over_seeds([row(0, 0.1)], lambda one: (one.rank,), lambda one: 7.0)[4,]
    assert (alone.error, alone.spread) == (7.0, 0.0), "the uncertainty of the error is not that of another value"
    known = mean_over_seeds([row(0, 0.1)], lambda one: (one.rank,), lambda one: 7.0, lambda one: 0.5)[4,]
    assert known.spread == 0.5
    assert mean_over_seeds([row(0, 0.1)], lambda one: (one.rank,))[4,].spread == 0.01
    assert isinstance(alone.row, ResultRow)
