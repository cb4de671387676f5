"""The recipes without training: their sweeps, and their figures from rows that are made up."""

import csv

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.recipes.points import lines_of, points_of
from rankwise.recipes.registry import trained_recipe
from rankwise.recipes.tokens import in_context, saturation
from rankwise.recipes.tokens.families import knee_of
from rankwise.recipes.tokens.runs import RANKS, TIMES
from rankwise.spec import ImagesSpec, InContextSpec, MatchSpec, RunSpec, TextSpec, plain
from rankwise.spec.read import from_plain
from rankwise.sweep.trained import TrainedRun
from rankwise.tasks import baseline_curves, build_task
from rankwise.theory.saturation import saturation_dim
from rankwise.train.build import build_model
from rankwise.train.probe import snapshot

FIGURES = ("in-context", "language", "images", "saturation", "depth", "match")


def runs_of(figure, preset, **options):
    return trained_recipe(figure).sweep(preset, **options).runs


def made_up(run, quality):
    """A trained run of that quality in (0, 1), larger is better; ranks follow the head dimension."""
    layers, heads = run.model.layers, run.model.heads
    rank = run.task.tokens * min(1.0, 0.1 * (run.model.kv_lora_rank or run.model.rank))
    result = {
        "error": 8 * (1 - quality) if isinstance(run.task, TextSpec) else 1 - quality,
        "error_se": 0.01,
        "train_min": 0.1,
        "sequences": 10,
        "attention": {
            "tokens": run.task.tokens,
            "steps": [0, 1, 2, 3, 4],
            **{name: [[[rank * (time + 1) / 5] * heads] * layers for time in range(5)] for name in RANKS},
        },
    }
    if isinstance(run.task, InContextSpec):
        result["details"] = {"by_examples": [1 - quality] * run.task.points}
    if isinstance(run.task, MatchSpec):
        result["details"] = {"yes": 0.4, "bits": 0.9}
    return TrainedRun(run=run, result=result, seconds=1.5)


def by_rank(run):
    return made_up(run, 0.5 + 0.005 * run.model.rank + 0.002 * run.seed)


def reading_of(figure, preset, runs):
    recipe = trained_recipe(figure)
    return recipe.present(preset, points_of(recipe.rows(runs), recipe.keys)).reading


@pytest.mark.parametrize("figure", FIGURES)
def test_trained_runs_become_rows_a_table_and_a_figure(figure, tmp_path):
    recipe, runs = trained_recipe(figure), runs_of(figure, "smoke", seeds=2)
    done = recipe.write("smoke", "rankwise reproduce", [by_rank(run) for run in runs], tmp_path)
    assert {path.suffix for path in done.files} == {".png", ".svg", ".csv", ".md"}
    assert all(path.stat().st_size > 1000 for path in done.files if path.suffix in (".png", ".svg"))
    assert done.reading
    assert len(done.rows) == len(runs) / 2
    assert all(len(line) == len(done.columns) and line[-1] == 2 for line in done.rows)
    with (tmp_path / f"{figure}-smoke.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [line["run_id"] for line in table] == [run.id for run in runs]
    assert all(all(line.values()) for line in table if figure not in ("saturation", "depth"))  # tasks differ there


@pytest.mark.parametrize("figure", FIGURES)
def test_every_run_alone_is_drawn_and_nothing_is_compared_with_what_is_not_there(figure):
    recipe = trained_recipe(figure)
    for run in runs_of(figure, "smoke"):
        points = points_of(recipe.rows([by_rank(run)]), recipe.keys)
        alone = recipe.present("smoke", points)
        assert len(alone.rows) == 1
        assert recipe.picture(recipe.settings("smoke"), points).draw().axes
        assert not any("agree" in line or "decide" in line or "knee" in line for line in alone.reading)


def test_columns_of_a_token_run():
    recipe = trained_recipe("language")
    run = next(run for run in runs_of("language", "smoke") if run.model.rank == 4)
    (row,) = recipe.rows([made_up(run, 0.75)])
    known = {"task": "text", "data": "standard library", "attention": "ordinary", "kv_lora_rank": 0, "size": 4}
    assert {name: row[name] for name in known} == known
    assert row["family"] == "text, ordinary attention: d = 16, 1 layer, 2 heads, n = 16"
    assert row["performance"] == row["error"] == 2.0
    for time, name in enumerate(TIMES):
        assert all(row[f"{rank}_{name}"] == pytest.approx(0.4 * (time + 1) / 5) for rank in RANKS)
    for rank in ("hardmax", "effective", "above_0.01"):
        assert [row[f"{rank}_l0h{head}"] for head in (0, 1)] == pytest.approx([0.4, 0.4])
    assert 2 < row["bigram"] < row["unigram"] < 8
    (row,) = trained_recipe("images").rows([made_up(runs_of("images", "smoke")[0], 0.75)])
    assert row["performance"] == 0.75
    assert 0.9 < row["logistic"] < 1


def test_knees_are_of_the_means_and_of_every_seed():
    runs = runs_of("language", "laptop", seeds=2)
    trained = [made_up(run, 0.9 if run.model.rank >= (4, 8)[run.seed] else 0.5) for run in runs]
    best, after, before, reached, _ = reading_of("language", "laptop", trained)
    assert best == "Performance is within 2 % of its best from head dim 8 (4 to 8) on."
    assert "head dim 16 on; the two ranges over seeds do not overlap" in after
    assert "do not overlap" in before
    assert reached == "The best run has 0.800 bits per byte, the worst 4.000."
    recipe = trained_recipe("language")
    points = points_of(recipe.rows(trained), recipe.keys)
    assert str(knee_of(points, "performance")) == "8 (4 to 8)"
    assert str(knee_of(points, "hardmax_start")) == "16"


def test_depth_compares_low_rank_with_a_shallower_full_rank_or_says_nothing():
    def told(chosen, quality=lambda run: 0.5 + 0.01 * run.seed):
        runs = [run for run in runs_of("depth", "laptop", seeds=2) if chosen(run) and isinstance(run.task, TextSpec)]
        return reading_of("depth", "laptop", [made_up(run, quality(run)) for run in runs])

    whole = told(lambda run: True)
    assert [line.partition(": ")[0] for line in whole] == [f"text, error with 4 layers of rank {r}" for r in (1, 4)]
    for line in whole:
        assert "1 layer of rank 64: 3.96 ± 0.04. That is no clear difference" in line
    assert told(lambda run: run.model.rank < run.model.dim) == ()
    assert told(lambda run: run.model.rank == run.model.dim) == ()
    assert told(lambda run: (run.model.rank == run.model.dim) == (run.model.layers == 4)) == ()
    assert all("Depth wins" in line for line in told(lambda run: True, lambda run: 0.1 * run.model.layers))
    worse = told(lambda run: True, lambda run: 0.5 - 0.1 * run.model.layers)
    assert all("Depth does not make up for rank" in line for line in worse)


def test_in_context_says_which_number_of_heads_wins_and_whether_low_rank_hurts():
    def told(quality):
        runs = runs_of("in-context", "smoke", seeds=2)
        return reading_of("in-context", "smoke", [made_up(run, quality(run) + 0.002 * run.seed) for run in runs])

    rank, heads, beside = told(lambda run: 0.5)
    assert beside.startswith("linear, without training: least squares")
    assert "ridge" in beside
    assert "That is no clear difference" in rank
    assert "That is no clear difference" in heads
    rank, heads, _ = told(lambda run: 0.02 * run.model.rank)
    assert "; 16 heads of rank 1: 0.979 ± 0.001. Rank below the input dimension hurts" in rank
    assert "Fewer heads win" in heads
    rank, heads, _ = told(lambda run: 0.02 * run.model.heads)
    assert "Rank below it does not hurt" in rank
    assert "More heads win" in heads


def test_in_context_draws_few_curves_and_every_shape():
    runs = [by_rank(run) for run in runs_of("in-context", "laptop")]
    recipe = trained_recipe("in-context")
    points = points_of(recipe.rows(runs), recipe.keys)
    examples, ranks = recipe.picture(recipe.settings("laptop"), points).draw().axes
    _, labels = examples.get_legend_handles_labels()
    shapes = ["1 head of rank 64", "4 heads of rank 16", "16 heads of rank 4", "64 heads of rank 1"]
    assert sorted(labels) == sorted([*shapes, "least squares", "ridge"])
    assert sorted(tick.get_text() for tick in ranks.get_xticklabels()) == ["1", "16", "2", "32", "4", "64", "8"]


def test_match_is_beside_its_commoner_answer():
    runs = runs_of("match", "smoke", seeds=2)
    told = reading_of("match", "smoke", [by_rank(run) for run in runs])
    assert [line.partition(":")[0] for line in told] == ["match2, N = 4", "match3, N = 4"]
    assert all("is 0.459 ± 0.001. Always giving the commoner answer has 0.400." in line for line in told)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("preset", ["smoke", "laptop"])
def test_every_run_reads_back_equal_and_seeds_are_three_at_laptop_size(figure, preset):
    runs = runs_of(figure, preset)
    assert all(from_plain(RunSpec, plain(run)) == run for run in runs)
    assert {run.seed for run in runs} == ({0, 1, 2} if preset == "laptop" else {0})
    assert all(run.parameters() < 2_000_000 for run in runs)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("seeds", [0, -1])
def test_no_seeds_are_refused_and_not_taken_for_the_presets(figure, seeds):
    with pytest.raises(InvalidInputError, match=f"--seeds: expected at least 1, got {seeds}"):
        runs_of(figure, "smoke", seeds=seeds)


def test_runs_of_other_figures_are_shared():
    runs = {name: {run.id for run in runs_of(name, "laptop")} for name in FIGURES}
    assert runs["images"] < runs["saturation"]
    assert runs["language"] < runs["saturation"]
    assert len(runs["depth"] & (runs["language"] | runs["images"])) == 18  # two layers: three ranks, three seeds, twice


def test_different_texts_are_different_points(tmp_path):
    (tmp_path / "words").write_text("some words " * 1000)
    recipe = trained_recipe("language")
    runs = [*runs_of("language", "smoke"), *runs_of("language", "smoke", data=str(tmp_path / "words"))]
    points = points_of(recipe.rows([by_rank(run) for run in runs]), recipe.keys)
    assert [len(line) for line in lines_of(points, "data").values()] == [2, 2]


def test_parameters_are_equal_and_ranks_pass_the_input_dimension():
    runs = runs_of("in-context", "laptop")
    assert len({run.parameters() for run in runs}) == 1
    assert {(run.model.heads, run.model.rank) for run in runs} == {(2**k, 64 // 2**k) for k in range(7)}
    (task,) = in_context.FIGURE.presets["laptop"].tasks
    assert 1 < task.dim < 64
    assert task.points > 2 * task.dim, "least squares has all it needs long before the end of a prompt"


def test_in_context_baselines_are_what_theory_says():
    curves = baseline_curves(InContextSpec(function="linear", dim=5, points=8), 4000)
    expected = [max(0.0, 1 - k / 5) for k in range(8)]
    assert curves["least squares"] == pytest.approx(expected, abs=0.06)
    assert curves["3 nearest"][7] > curves["ridge"][7] > curves["least squares"][7]


@pytest.fixture
def mnist(tmp_path):
    """A directory with as little as can be read as MNIST."""
    for part in ("train", "test"):
        (tmp_path / f"{part}.csv").write_text(("3" + ",0" * 784 + "\n") * 2)
    return str(tmp_path)


@pytest.mark.parametrize("preset", ["laptop", "full"])
def test_saturation_varies_the_length_and_the_head_dimension_and_nothing_else(preset, mnist):
    settings = saturation.FIGURE.presets[preset]
    for kind, families, own in ((TextSpec, settings.texts, None), (ImagesSpec, settings.pictures, mnist)):
        if preset == "laptop":
            own = None
        runs = [run for family in families for run in family.runs(own)]
        assert all(isinstance(run.task, kind) for run in runs)
        shapes = {(run.model.dim, run.model.layers, run.model.heads, run.optim.steps, run.optim.lr) for run in runs}
        assert len(shapes) == 1
        lengths = sorted({run.task.tokens for run in runs})
        assert len(lengths) > 1
        for length in lengths:
            assert sorted(r.model.rank for r in runs if r.task.tokens == length)[:4] == [1, 2, 4, 8]
    if preset == "laptop":
        assert {run.task.tokens for run in runs_of("saturation", preset)} == {32, 64, 128, 256, 16}
    assert len({f.budget.batch * f.task(None).tokens for f in settings.texts}) == 1, "as many tokens per step"


def knees_made_up(run):
    """Performance is best from head dim n / 8 on (seed 1: n / 4), ranks grow to head dim 10."""
    enough = run.task.tokens // (8 if run.seed == 0 else 4)
    return made_up(run, 0.9 if run.model.rank >= enough else 0.5)


def test_knees_are_read_and_drawn_against_the_length_with_their_range():
    runs = [knees_made_up(run) for run in runs_of("saturation", "laptop", seeds=2, only=["task=text"])]
    recipe = trained_recipe("saturation")
    points = points_of(recipe.rows(runs), recipe.keys)
    performance, trained, initial = recipe.reading(recipe.settings("laptop"), points)
    assert performance == "text, knee of performance: head dim 8 (4 to 8) at n = 32, 64 (32 to 64) at n = 256."
    assert trained.endswith("that of performance overlap at n = 64, 128.")
    random = [saturation_dim(n, mask="causal").value for n in (32, 256)]
    assert f"The quadrature for random heads: {random[0]} and {random[1]}." in initial
    *_, knees = recipe.picture(recipe.settings("laptop"), points).draw().axes
    performance = knees.containers[0]
    assert list(performance.lines[0].get_ydata()) == [8, 16, 32, 64]
    assert [low[1] for low, _ in performance.lines[2][0].get_segments()] == [4, 8, 16, 32]


@pytest.mark.parametrize(("figure", "patches"), [("images", {4}), ("saturation", {4, 7}), ("depth", {4})])
def test_a_directory_is_mnist_in_patches(figure, patches, mnist):
    tasks = {run.task for run in runs_of(figure, "smoke", data=mnist) if isinstance(run.task, ImagesSpec)}
    assert {(task.source, task.patch, task.path) for task in tasks} == {("mnist", patch, mnist) for patch in patches}


@pytest.mark.parametrize("figure", ["language", "saturation", "depth"])
def test_unusable_data_is_refused_before_anything_is_planned(figure, tmp_path):
    for name, content in (("empty", b""), ("binary", bytes(range(256)))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInputError, match=name):
            runs_of(figure, "smoke", data=str(tmp_path / name))
    with pytest.raises(InvalidInputError, match="no such file"):
        runs_of(figure, "smoke", data=str(tmp_path / "nowhere"))


def test_figures_without_data_have_no_such_option():
    with pytest.raises(InvalidInputError, match="--data: expected an option of match"):
        runs_of("match", "smoke", data="x")


@pytest.mark.parametrize(("figure", "bound"), [("language", 0.55), ("images", 0.7)])
def test_random_heads_of_the_models_start_below_the_barrier(figure, bound):
    """The mean bound of independent scores holds for the initialised models too, within the noise of few heads."""
    run = next(run for run in runs_of(figure, "laptop") if run.model.rank == 16)
    (batch, *_) = build_task(run.task).held_out(1, 8, torch.Generator(), dtype=torch.float32)
    ranks = torch.tensor(snapshot(build_model(run), batch)["hardmax"]) / run.task.tokens
    assert ranks.mean() < bound
