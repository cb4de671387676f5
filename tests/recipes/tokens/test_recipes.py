"""The recipes without training: their sweeps, and their figures from rows that are made up."""

from dataclasses import replace

import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes.registry import find_trained_recipe, sweep_of
from rankwise.recipes.rows import read_rows, write_rows
from rankwise.recipes.tokens import depth, in_context, language, saturation
from rankwise.recipes.tokens.families import families_of, reading
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import InContextSpec, MatchSpec, RunSpec, TextSpec, plain
from rankwise.spec.read import from_plain
from rankwise.train.build import build_model
from rankwise.train.probe import snapshot

FIGURES = ("in-context", "language", "images", "saturation", "depth", "match")


def made_up(run, quality):
    """A trained run of that quality in (0, 1), larger is better; ranks follow the head dimension."""
    layers, heads = run.model.layers, run.model.heads
    rank = run.task.tokens * min(1.0, 0.1 * (run.model.kv_lora_rank or run.model.rank))
    names = ("hardmax", "effective", "stable", "above_0.1", "above_0.01", "above_0.001")
    attention = {name: [[[rank] * heads] * layers] * 5 for name in names}
    details = {}
    if isinstance(run.task, InContextSpec):
        details = {"by_examples": [1 - quality] * run.task.points}
    if isinstance(run.task, MatchSpec):
        details = {"yes": 0.4, "bits": 0.9}
    error = 8 * (1 - quality) if isinstance(run.task, TextSpec) else 1 - quality
    attention = {"tokens": run.task.tokens, "steps": [0, 1, 2, 3, 4], **attention} if run.probe else None
    numbers = {"error_se": 0.01, "train_min": 0.1, "sequences": 10, "seconds": 1.5}
    return TrainedRun(run=run, error=error, details=details, attention=attention, **numbers)


@pytest.mark.parametrize("figure", FIGURES)
def test_rows_survive_their_csv_and_become_a_figure(figure, tmp_path):
    recipe = find_trained_recipe(figure)
    runs = sweep_of(figure, "smoke", {"seeds": 2}).runs
    rows = recipe.rows([made_up(run, 0.5 + 0.01 * run.model.rank + 0.001 * run.seed) for run in runs])
    again = read_rows(write_rows(rows, tmp_path / "rows.csv"))
    done = recipe.present("smoke", again, tmp_path / figure)
    assert all(path.stat().st_size > 1000 for path in done.files)
    assert done.reading
    assert all(len(line) == len(done.columns) for line in done.rows)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_that_is_still_being_trained_is_drawn_from_what_is_there(figure, tmp_path):
    """The first run, the last one, one seed ahead of the other, all but one."""
    recipe = find_trained_recipe(figure)
    runs = sweep_of(figure, "smoke", {"seeds": 2}).runs
    rows = recipe.rows([made_up(run, 0.5 + 0.01 * run.model.rank + 0.001 * run.seed) for run in runs])
    for part in (rows[:1], rows[-1:], rows[:3], rows[:-1]):
        done = recipe.present("smoke", part, tmp_path / figure)
        assert done.rows
        assert done.reading
    with pytest.raises(InvalidInputError, match=rf"{figure} \(smoke\): expected results of at least one run"):
        recipe.present("smoke", [], tmp_path / figure)


def test_knees_are_of_sizes_that_every_seed_has():
    runs = sweep_of("language", "laptop", {"seeds": 2}).runs
    rows = language.rows([made_up(run, 0.9 if run.model.rank >= 4 else 0.5) for run in runs])
    (whole,) = families_of(rows)
    assert "from head_dim 4;" in reading(whole)[0]
    (ahead,) = families_of([row for row in rows if row.seed == 0 or row.rank <= 2])
    assert ahead.shared_sizes() == [1, 2]
    assert "from head_dim 1;" in reading(ahead)[0]
    assert reading(ahead)[0].endswith("; 4, 8, 16, 32, 64 left out, for want of seeds.")
    (alone,) = families_of([row for row in rows if row.seed == 0 or row.rank == 1])
    assert alone.knee("performance") is None
    assert reading(alone)[0].endswith("no knees yet, which take two sizes of head_dim with every seed.")


def test_no_other_rank_is_called_full_where_full_rank_is_missing(tmp_path):
    def told(chosen):
        runs = [run for run in sweep_of("depth", "laptop", {"seeds": 2}).runs if chosen(run)]
        rows = depth.rows([made_up(run, 0.5 + 0.01 * run.seed) for run in runs if isinstance(run.task, TextSpec)])
        return depth.present("laptop", rows, tmp_path / "depth").reading.splitlines()

    assert all("full rank with 1 layer 3.960" in line for line in told(lambda run: True))
    low = told(lambda run: run.model.rank < run.model.dim)
    assert [line.partition(" with 4 layers reaches")[0] for line in low] == ["text: rank 1", "text: rank 4"]
    assert all(line.endswith("nothing of full rank with fewer layers to compare with yet.") for line in low)
    (full,) = told(lambda run: run.model.rank == run.model.dim)
    assert full.startswith("text: full rank with 1 layer reaches 3.960")
    early = told(lambda run: run.model.rank == run.model.dim or run.model.layers < 4)
    assert all("with 2 layers reaches" in line and "full rank with 1 layer 3.960" in line for line in early)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("preset", ["smoke", "laptop"])
def test_every_run_reads_back_equal_and_seeds_are_three_at_laptop_size(figure, preset):
    runs = sweep_of(figure, preset, {}).runs
    assert all(from_plain(RunSpec, plain(run)) == run for run in runs)
    assert {run.seed for run in runs} == ({0, 1, 2} if preset == "laptop" else {0})
    assert all(run.parameters() < 2_000_000 for run in runs)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("seeds", [0, -1])
def test_no_seeds_are_refused_and_not_taken_for_the_presets(figure, seeds):
    with pytest.raises(InvalidInputError, match=f"seeds: expected at least 1, got {seeds}"):
        sweep_of(figure, "smoke", {"seeds": seeds})


def test_runs_of_other_figures_are_shared():
    runs = {name: {run.id for run in sweep_of(name, "laptop", {}).runs} for name in FIGURES}
    assert runs["images"] < runs["saturation"]
    assert len(runs["language"] & runs["saturation"]) == 15  # five of seven head dimensions, three seeds
    assert len(runs["in-context"] & runs["saturation"]) == 6  # four heads of rank 4 and 16, three seeds
    assert len(runs["depth"] & (runs["language"] | runs["images"])) == 18  # two layers: three ranks, three seeds, twice


def test_rows_of_different_texts_are_different_families():
    runs = sweep_of("language", "smoke", {"seeds": 2}).runs
    rows = language.rows([made_up(run, 0.5) for run in runs])
    other = [replace(row, extra=row.extra | {"data": "enwik8"}) for row in rows]
    assert [len(curves.rows) for curves in families_of([*rows, *other])] == [len(rows), len(rows)]


def test_equal_parameters_are_equal_and_the_other_panel_adds_heads():
    settings = in_context.PRESETS["laptop"]
    sizes = {}
    for run in sweep_of("in-context", "laptop", {}).runs:
        sizes.setdefault(run.model.heads * run.model.rank, set()).add(run.parameters())
    assert sizes[settings.dim] == {next(iter(sizes[settings.dim]))}
    assert sorted(sizes) == [4, 16, 64]


def test_in_context_baselines_are_what_theory_says():
    curves = in_context.baseline_curves(InContextSpec(function="linear", dim=5, points=8), 4000)
    expected = [max(0.0, 1 - k / 5) for k in range(8)]
    assert curves["least squares"] == pytest.approx(expected, abs=0.06)
    assert curves["3 nearest"][7] > curves["least squares"][7]


def test_the_full_preset_varies_dims_heads_depths_and_lengths(monkeypatch):
    from rankwise.recipes.tokens import images

    monkeypatch.setitem(images.PRESETS, "full", replace(images.PRESETS["full"], source="digits"))
    runs = saturation.sweep("full", seeds=1).runs
    text = [run for run in runs if isinstance(run.task, TextSpec)]
    assert len({run.model.dim for run in text}) > 1
    assert len({run.model.heads for run in text}) > 1
    assert len({run.model.layers for run in text}) > 1
    assert len({run.task.context for run in text}) > 1


@pytest.mark.parametrize("figure", ["language", "saturation", "depth"])
def test_unusable_data_is_refused_before_anything_is_planned(figure, tmp_path):
    for name, content in (("empty", b""), ("binary", bytes(range(256)))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInputError, match=name):
            sweep_of(figure, "smoke", {"data": str(tmp_path / name)})
    with pytest.raises(InvalidInputError, match="No such file"):
        sweep_of(figure, "smoke", {"data": str(tmp_path / "nowhere")})


def test_figures_without_data_have_no_such_option():
    with pytest.raises(InvalidInputError, match="--data: expected an option of match"):
        sweep_of("match", "smoke", {"data": "x"})


def test_random_heads_of_the_models_start_below_the_barrier():
    """The mean bound of independent scores holds for the initialised models too, within the noise of few heads."""
    from rankwise.train.build import build_task

    for name in ("language", "images"):
        run = next(run for run in sweep_of(name, "laptop", {}).runs if run.model.rank == 16)
        import torch

        (batch, *_) = build_task(run.task).held_out(1, 8, torch.Generator(), dtype=torch.float32)
        ranks = torch.tensor(snapshot(build_model(run), batch)["hardmax"]) / run.task.tokens
        assert ranks.mean() < (0.55 if name == "language" else 0.7)
