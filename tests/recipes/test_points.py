import csv
import io

import pytest

from rankwise.recipes.points import csv_text, lines_of, points_of, result_row, select
from recipe_rows import trained
from spec_examples import small_run


def row(seed=0, error=0.25, **extra):
    return result_row(trained(small_run(seed=seed), error, 0.01, sequences=320), extra)


def test_a_row_leads_back_to_its_run_and_knows_what_it_saw():
    """A run that stopped early has seen fewer sequences than its spec says."""
    one = row(evaluated=4)
    assert (one["run_id"], one["rank"], one["sequences"], one["error"]) == (small_run().id, 4, 320, 0.25)
    assert one["evaluated"] == 4


def test_the_csv_has_the_common_columns_and_then_the_figures_own():
    first, second = csv.DictReader(io.StringIO(csv_text([row(evaluated=4), row(1)])))
    assert list(first) == [*row(), "evaluated"]
    assert (first["error"], first["evaluated"], second["evaluated"]) == ("0.25", "4", "")


def test_points_are_means_over_seeds_with_the_standard_error_between_them():
    (point,) = points_of([row(0, 0.1), row(1, 0.3), row(2, 0.5)], ("rank",))
    assert (point.error, len(point.rows)) == (pytest.approx(0.3), 3)
    assert point.spread() == pytest.approx(0.2 / 3**0.5)
    assert point.told() == "0.3 ± 0.1"
    (close,) = points_of([row(0, 2.296), row(1, 2.3)], ("rank",))
    assert close.told() == "2.298 ± 0.002"
    assert close.below(point) is False
    assert point.below(close) is True


def test_one_seed_has_the_standard_error_of_its_validation_if_any():
    (point,) = points_of([row(0, 0.1, other=7.0, known=1.0, known_se=0.5)], ("rank",))
    assert (point.spread(), point.spread("known"), point.spread("other")) == (0.01, 0.5, 0.0)


def test_points_are_told_apart_ordered_and_chosen_by_their_columns():
    rows = [row(seed, data=name, size=size) for seed in (0, 1) for name in ("b", "a") for size in (16, 2)]
    points = points_of(rows, ("size", "data"))
    assert [(point["size"], point["data"]) for point in points] == [(2, "a"), (2, "b"), (16, "a"), (16, "b")]
    assert all(len(point.rows) == 2 for point in points)
    assert [point["size"] for point in select(points, data="a")] == [2, 16]
    assert {size: len(own) for size, own in lines_of(points, "size").items()} == {2: 2, 16: 2}
