import math
from dataclasses import replace

import pytest

from rankwise.report.headline import best, is_below, refutations, trade_offs
from rankwise.report.settings import CellOfRuns, finite, settings_of
from rankwise.spec import InContextSpec, MatchSpec, ModelSpec, NeighborSpec, TextSpec, VectorFile
from rankwise.theory.bounds import error_lower_bound
from report_stores import result_of, theorem_runs, trade_off_runs
from spec_examples import small_run

CAUSAL = ModelSpec(dim=8, heads=2, rank=4, causal=True)


def settings_from(runs):
    return settings_of(runs, [result_of(run) for run in runs])


def test_cells_average_seeds_and_nothing_else():
    runs = trade_off_runs(seeds=3)
    (setting,) = settings_from(runs)
    assert setting.title == "Farthest of 4 points in 8 dimensions"
    assert {cell.facet for cell in setting.cells} == {"1 layer", "3 layers"}
    assert len(setting.cells) == len(runs) / 3
    for cell in setting.cells:
        errors = [result_of(runs[index])["error"] for index in cell.runs]
        assert [runs[index].seed for index in cell.runs] == [0, 1, 2]
        assert {(runs[index].model.rank, runs[index].model.heads) for index in cell.runs} == {(cell.rank, cell.heads)}
        mean = sum(errors) / 3
        assert cell.error == pytest.approx(mean, rel=1e-12)
        assert cell.spread == pytest.approx(math.sqrt(sum((e - mean) ** 2 for e in errors) / 2 / 3), rel=1e-12)
        assert cell.bound is None  # another task: the bound says nothing here


def test_one_seed_has_the_standard_error_of_its_validation():
    runs = trade_off_runs(seeds=1)
    cell = settings_from(runs)[0].cells[0]
    assert cell.spread == result_of(runs[cell.runs[0]])["error_se"]


def test_other_differences_make_variants_but_not_what_follows_from_rank_and_heads():
    runs = trade_off_runs(seeds=1, layers=(1,))
    (plainly,) = settings_from(runs)
    assert {cell.variant for cell in plainly.cells} == {""}
    slower = [replace(run, optim=replace(run.optim, lr=0.001)) for run in runs]
    (both,) = settings_from(runs + slower)
    assert {cell.variant for cell in both.cells} == {"lr 0.01", "lr 0.001"}
    assert all(len(cell.runs) == 1 for cell in both.cells)


def test_the_bound_is_there_only_in_the_theorems_setting():
    runs = theorem_runs()
    (setting,) = settings_from(runs)
    assert setting.in_theorem
    for cell in setting.cells:
        assert cell.facet == "softmax heads"
        assert cell.bound == error_lower_bound(8, cell.rank, cell.heads, values="any").value
    residual = [replace(run, model=replace(run.model, residual="plain")) for run in runs]
    assert not settings_from(residual)[0].in_theorem
    assert len(settings_from(runs + residual)) == 2


def test_every_setting_has_a_title_of_its_own():
    run = trade_off_runs(seeds=1)[0]
    laws = [NeighborSpec(name="farthest", dim=8, points=4, distribution="power_law", alpha=alpha) for alpha in (0.5, 2)]
    files = [("a/keys.npy", None), ("b/two.safetensors", "left"), ("b/two.safetensors", "right")]
    laws += [
        NeighborSpec(name="farthest", dim=8, points=4, distribution="rows",
                 vectors_from=VectorFile(sha256=f"{at}" * 64, path=path, tensor=tensor))
        for at, (path, tensor) in enumerate(files)
    ]  # fmt: skip
    laws += [NeighborSpec(name="nearest", dim=8, points=4, queries=queries) for queries in (1, 3)]
    bare = theorem_runs()[0]
    whole = replace(bare, model=replace(bare.model, residual="plain"))
    settings = settings_from([*(replace(run, task=law) for law in laws), bare, whole])
    assert [setting.title for setting in settings] == [
        "Farthest of 4 power-law points (exponent 0.5) in 8 dimensions",
        "Farthest of 4 power-law points (exponent 2) in 8 dimensions",
        "Farthest of 4 points of keys.npy in 8 dimensions",
        "Farthest of 4 points of two.safetensors (left) in 8 dimensions",
        "Farthest of 4 points of two.safetensors (right) in 8 dimensions",
        "Nearest of 4 points in 8 dimensions",
        "Nearest of 4 points in 8 dimensions, 3 queries",
        "Nearest of 2 orthogonal points in 8 dimensions, one bare layer",
        "Nearest of 2 orthogonal points in 8 dimensions",
    ]


def test_a_file_that_moved_between_runs_is_one_setting():
    runs = [
        replace(run, task=replace(run.task, distribution="rows", vectors_from=VectorFile(sha256="0" * 64, path=path)))
        for run, path in zip(trade_off_runs(seeds=2)[:2], ("keys.npy", "/moved/keys.npy"), strict=True)
    ]
    (setting,) = settings_from(runs)
    (cell,) = setting.cells
    assert cell.runs == (0, 1)


def test_runs_without_a_finite_error_belong_to_no_cell():
    runs = trade_off_runs(seeds=1)
    results = [result_of(run) for run in runs]
    results[0], results[1] = None, {"error": "nan"}
    (setting,) = settings_of(runs, results)
    assert sum(len(cell.runs) for cell in setting.cells) == len(runs) - 2
    assert settings_of([None], [{"error": 1.0}]) == [], "of a version that cannot be read"
    assert [finite(value) for value in (1, True, math.inf, "1", None)] == [1.0, None, None, None, None]


def test_the_headline_is_rounded_down_and_says_where_it_holds():
    (setting,) = settings_from(trade_off_runs())
    figures = trade_offs(setting)
    assert [figure.detail.split(",")[0] for figure in figures] == ["1 layer", "3 layers"]
    ratios = []
    found = {(cell.facet, cell.heads * cell.rank, cell.rank): cell.error for cell in setting.cells}
    for (facet, budget, rank), error in found.items():
        if rank == 8 and facet == "1 layer":
            ratios.append(found[facet, budget, 4] / error)
    shown = float(figures[0].value.removesuffix("×"))
    assert shown <= min(ratios) < shown + 1
    assert best([setting]).value == f"{min(cell.error for cell in setting.cells):.3g}"


@pytest.mark.parametrize(
    ("half", "full", "value"),
    [
        ((0.6, 0.5), (0.1, 0.1), "5×"),
        ((0.0, 0.5), (0.1, 0.1), "0×"),  # solved by half rank alone
        ((0.6, 0.5), (0.1, 0.0), "6×"),  # solved by full rank alone: worse by more than any factor
        ((0.6, 0.0), (0.1, 0.0), "1×"),  # solved by both: half rank errs as much
    ],
)
def test_errors_of_0_take_part_in_the_trade_off(half, full, value):
    budgets = (16, 32)
    runs = [run for run in trade_off_runs(seeds=1, layers=(1,)) if run.model.heads * run.model.rank in budgets]
    errors = [(full if run.model.rank == 8 else half)[budgets.index(run.model.heads * run.model.rank)] for run in runs]
    (setting,) = settings_of(runs, [{"error": error} for error in errors])
    (figure,) = trade_offs(setting)
    assert figure.value == value


@pytest.mark.parametrize(
    ("task", "unit"),
    [
        (NeighborSpec(name="biased", dim=8, points=2, distribution="orthogonal", biases=(0.0,), coefficients=(1.0,)),
         "squared error per query"),
        (MatchSpec(name="match2", points=4), "share of positions answered wrongly"),
        (InContextSpec(function="linear", dim=8, points=4), "squared error over the function's variance"),
        (TextSpec(context=8, sha256="0" * 64), "bits per byte"),
    ],
)  # fmt: skip
def test_the_smallest_error_is_named_by_its_unit(task, unit):
    (setting,) = settings_of([small_run(task=task, model=CAUSAL)], [{"error": 0.25}])
    figure = best([setting])
    assert (figure.value, figure.label) == ("0.25", f"the least {unit}: rank 4, 2 heads")


def test_a_text_is_named_by_its_file_and_the_first_digits_of_its_content():
    task = TextSpec(context=8, sha256="0123456789abcdef" * 4, path="/far/away/poems.txt")
    (setting,) = settings_of([small_run(task=task, model=CAUSAL)], [{"error": 0.25}])
    assert setting.title == "Next byte of the text poems.txt (01234567), context 8"


def cell(error, spread, bound):
    return CellOfRuns(
        facet="softmax heads", protocol="capacity", layers=1, heads=4, rank=2, variant="", error=error, spread=spread,
        parameters=1, bound=bound, runs=(0,),
    )  # fmt: skip


def test_a_cell_below_its_bound_is_said_to_be():
    assert not is_below(cell(0.30, 0.01, 0.33))
    assert is_below(cell(0.30, 0.01, 0.35))
    (setting,) = settings_from(theorem_runs())
    bad = replace(setting, cells=(*setting.cells, cell(0.0, 0.001, 0.4)))
    figure = refutations([bad])
    assert figure.value == f"1 of {len(bad.cells)}"
    assert "wrong" in figure.detail
    assert refutations([]) is None
