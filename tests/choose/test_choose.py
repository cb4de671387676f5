"""Shapes spend the budget, halving keeps the best of every rank, and the answer is read back."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rankwise.advise.advice import advise
from rankwise.advise.inputs import situation
from rankwise.choose.document import read_choice
from rankwise.choose.presets import PRESETS, pick_preset
from rankwise.choose.search import planned_runs, search_shapes
from rankwise.choose.shapes import WITHIN, HeadShape, ShapeBudget, shapes_within
from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.report.choice import draw_choice
from rankwise.spec import TextSpec
from rankwise.sweep.trained import TrainedRun
from report_documents import choice

SMOKE = PRESETS["smoke"]
TEXT = TextSpec(context=16, sha256="0" * 64)
BUDGETS = [ShapeBudget(kind="parameters", amount=1024), ShapeBudget(kind="cache", amount=64)]


@given(
    st.sampled_from([16, 32, 64, 96]), st.integers(1, 3), st.integers(1, 12), st.sampled_from(["parameters", "cache"])
)
def test_every_shape_spends_the_budget(dim, layers, size, kind):
    amount = layers * size * dim * (dim // 2 if kind == "parameters" else 2)
    budget = ShapeBudget(kind=kind, amount=amount)
    try:
        shapes = shapes_within(budget, dim=dim, layers=layers)
    except InvalidInputError:
        assume(False)
    assert len(set(shapes)) == len(shapes)
    for shape in shapes:
        assert abs(budget.spent(shape, dim, layers) / amount - 1) <= WITHIN
        assert shape.heads % shape.kv_heads == 0
        assert 1 <= shape.value_rank <= dim


@pytest.mark.parametrize("shape", [(4, 6, 10, 2), (3, 8, 5, 3), (8, 2, 2, 1)])
def test_weights_and_cache_are_those_of_the_layer(shape):
    from rankwise.nn import MultiheadAttention

    heads, rank, value_rank, kv_heads = shape
    of = HeadShape(heads=heads, rank=rank, value_rank=value_rank, kv_heads=kv_heads)
    layer = MultiheadAttention(12, heads, rank, value_rank=value_rank, kv_heads=kv_heads, bias=False)
    assert of.parameters(12, 3) == 3 * sum(one.numel() for one in layer.parameters())
    keys, values = (getattr(layer, f"{part}_weight") for part in "kv")
    per_token = sum(one.shape[0] * one.shape[1] for one in (keys, values))
    assert of.cache(3) == 2 * 3 * per_token


def fake_training(loss, seen):
    def train(sweep):
        seen.append(sweep)
        return [TrainedRun(run=run, result={"error": loss(run)}, seconds=0.0) for run in sweep.runs]

    return train


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_best_shape_of_every_rank_is_trained_in_full(budget):
    def loss(run):
        of = run.model
        return abs(of.rank - 4) + 0.1 * abs(of.value_rank - of.rank) + 0.01 * of.kv_heads / of.heads + 0.001 * run.seed

    seen = []
    found = search_shapes(budget, SMOKE, TEXT, fake_training(loss, seen))
    shapes = shapes_within(budget, dim=SMOKE.dim, layers=SMOKE.layers)
    assert [len(sweep.runs) for sweep in seen] == [len(shapes), 2 * len({shape.rank for shape in shapes})]
    assert found.best.rank == 4
    for one in found.shapes:
        of_rank = [shape for shape in shapes if shape.rank == one.rank]
        assert one.shape == min(
            of_rank, key=lambda shape: 0.1 * abs(shape.value_rank - shape.rank) + 0.01 * shape.kv_heads / shape.heads
        )
        assert one.losses[1] - one.losses[0] == pytest.approx(0.001)
        assert one.standard_error == pytest.approx(0.0005)
    assert found.about_as_good == (4,)
    assert "no other rank is about as good" in found.flatness


def test_a_flat_optimum_is_called_flat():
    found = search_shapes(BUDGETS[0], SMOKE, TEXT, fake_training(lambda run: 2.0 + 0.001 * run.model.rank, []))
    assert "The optimum is flat" in found.flatness


def test_the_plan_is_no_cheaper_than_the_search():
    seen = []
    search_shapes(BUDGETS[0], SMOKE, TEXT, fake_training(lambda run: run.model.rank, seen))
    planned = planned_runs(BUDGETS[0], SMOKE, TEXT)
    assert len(planned) == sum(len(sweep.runs) for sweep in seen)


def test_budgets_that_no_shapes_spend_are_refused():
    for amount in (1, 7, 10**9):
        with pytest.raises(InvalidInputError, match=r"--parameters: expected a budget that heads of several ranks"):
            shapes_within(ShapeBudget(kind="parameters", amount=amount), dim=64, layers=2)
    with pytest.raises(InvalidInputError, match="--preset: expected one of smoke, laptop, got 'x'"):
        pick_preset("x")


def test_a_choice_is_read_back_drawn_and_advised_with(tmp_path):
    made = choice()
    made.write(tmp_path / "choice.json")
    assert read_choice(tmp_path / "choice.json") == made
    left, right = draw_choice(made).axes
    assert [left.get_title(), right.get_title()] == [
        "32,768 attention weights",
        "512 bytes of keys and values per token",
    ]
    said = advise(situation(dim=768, heads=12, choice=made)).next_training[0]
    assert said.confidence == "measurement"
    assert "32 heads of rank 2" in said.what
    assert "large model" in said.does_not_prove
    broken = json.loads((tmp_path / "choice.json").read_text()) | {"searches": []}
    (tmp_path / "choice.json").write_text(json.dumps(broken))
    with pytest.raises(InvalidInputError, match="at least one"):
        read_choice(tmp_path / "choice.json")


@pytest.mark.slow
def test_the_command_trains_answers_and_resumes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("how many heads, and of which rank? " * 400)
    command = ["choose", "--text", "text.txt", "--parameters", "1024", "--preset", "smoke", "-o", "choice.json"]
    assert main([*command, "--dry-run"]) == 0
    assert "to do" in capsys.readouterr().out
    assert main(command) == 0
    first = capsys.readouterr().out
    assert first.startswith("At 1,024 attention weights: ")
    assert first.splitlines()[-1] == "choice.html"
    answer = (tmp_path / "choice.json").read_text()
    assert main(command) == 0  # everything is in the store
    assert capsys.readouterr().out == first
    assert (tmp_path / "choice.json").read_text() == answer
    assert "data-choice" in (tmp_path / "choice.html").read_text()
    assert main(["report", "--choose", "choice.json", "-o", "page.html"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a budget"),
        (["--parameters", "1024", "--preset", "x"], "--preset"),
        (["--parameters", "3"], "--parameters: expected a budget"),
        (["--cache", "512", "--text", "none.txt"], "none.txt"),
        (["--cache", "512", "--seeds", "0"], "--seeds"),
        (["--cache", "512", "--figure", "x.gif"], "--figure: expected a name"),
    ],
)
def test_mistakes_are_told_before_training(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["choose", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
