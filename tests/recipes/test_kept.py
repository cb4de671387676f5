import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rankwise.errors import InvalidInputError, StorageError
from rankwise.recipes import cliff, figure1
from rankwise.recipes.kept import (
    Provenance,
    commit_of,
    commit_of_this_code,
    draw_again,
    keep,
    provenance,
    split_parts,
    with_part,
)
from rankwise.recipes.kept_rows import merge, rows_of_picture
from rankwise.recipes.registry import find_trained_recipe, sweep_of
from rankwise.recipes.rows import COLUMNS, read_rows, write_rows
from rankwise.spec import SweepSpec, vary
from recipe_rows import rows_of

RESULTS = Path(__file__).parents[2] / "results"
WHERE = Provenance(command="rankwise reproduce cliff", commit="`abc`", machine="2 CPU cores")


def rows(sweep, error=0.5):
    return rows_of("cliff", sweep, lambda run: error)


def test_a_run_measured_again_replaces_its_rows_and_others_stay():
    once, more = cliff.sweep("smoke"), cliff.sweep("smoke", seeds=2)
    before, new = rows(more, 0.5), rows(once, 0.4)
    merged = merge(before, new, (), once)
    assert len(merged) == 12
    assert {row.error for row in merged if row.seed == 0} == {0.4}
    assert {row.error for row in merged if row.seed == 1} == {0.5}
    assert merge(merged, new, (), once) == merged
    everything = merge([], before, (), more)
    assert everything == merge(before, [], (), more) == merge(list(reversed(before)), before[:3], (), more)


def test_the_same_cell_by_a_newer_protocol_replaces_the_older_with_every_seed():
    old = cliff.sweep("smoke", seeds=3)
    tuned = SweepSpec(name="s", runs=tuple(vary(run, {"optim.lr": 0.123}) for run in cliff.sweep("smoke").expand()))
    merged = merge(rows(old, 0.5), rows(tuned, 0.3), (), tuned)
    assert {row.error for row in merged} == {0.3}
    assert {row.run_id for row in merged} == {run.id for run in tuned.expand()}


def test_rows_of_one_cell_are_told_apart_by_the_figures_keys():
    sweep = cliff.sweep("smoke")

    def measured(points):
        return rows_of("figure4", sweep, lambda run: 0.5, lambda run: {"evaluated_points": points})

    before, keys = measured(4) + measured(8), ("evaluated_points",)
    assert len(merge([], before, keys, sweep)) == 12
    # a run measured again brings all of its rows
    assert {row.extra["evaluated_points"] for row in merge(before, measured(16), keys, sweep)} == {16}


def test_a_picture_takes_the_rows_of_its_preset_with_any_seed():
    whole = figure1.sweep("laptop")
    laptop = rows_of("figure1", figure1.sweep("laptop", seeds=2), lambda run: 0.5)
    smoke = rows_of("figure1", figure1.sweep("smoke"), lambda run: 0.5)
    assert rows_of_picture(laptop + smoke, whole, whole, ()) == laptop
    parts = figure1.sweep("laptop", ranks=(2,))
    assert rows_of_picture(laptop + smoke, parts, whole, ()) == laptop


def test_no_cell_of_a_picture_mixes_protocols_budgets_or_versions():
    whole = figure1.sweep("laptop")
    asked = {
        "preset": (whole, 0.1),
        "budget": (figure1.sweep("laptop", sequences=102_400), 0.2),
        "protocol": (figure1.sweep("laptop", protocol="paper", sequences=102_400), 0.3),
        "version": (SweepSpec(name="s", runs=tuple(vary(run, {"optim.lr": 0.123}) for run in whole.expand())), 0.4),
    }
    everything = [
        row for sweep, error in asked.values() for row in rows_of("figure1", sweep, lambda run, error=error: error)
    ]
    for sweep, error in asked.values():
        assert {row.error for row in rows_of_picture(everything, sweep, whole, ())} == {error}
    part = figure1.sweep("laptop", sequences=102_400, ranks=(2,))
    errors = {row.rank: row.error for row in rows_of_picture(everything, part, whole, ())}
    assert errors == {2: 0.2, 4: 0.1, 8: 0.1, 16: 0.1}


def test_runs_that_ended_early_are_of_the_picture_with_any_seed_by_their_ids():
    whole = cliff.sweep("smoke")
    ended = [replace(row, sequences=row.sequences // 2) for row in rows(cliff.sweep("smoke", seeds=3))]
    other = [replace(row, run_id="an older version", error=0.9) for row in rows(whole)]
    assert rows_of_picture(ended + other, whole, whole, ()) == ended
    assert rows_of_picture(other, whole, whole, ()) == other


def test_a_figure_that_compares_protocols_shows_them_however_long_they_were_trained():
    whole = figure1.sweep("laptop")
    laptop = rows_of("figure1", whole, lambda run: 0.5)
    paper = rows_of("figure1", figure1.sweep("laptop", protocol="paper", sequences=102_400), lambda run: 0.5)
    longer = rows_of("figure1", figure1.sweep("laptop", sequences=102_400), lambda run: 0.5)
    everything = laptop + paper + longer
    assert rows_of_picture(everything, whole, whole, (), compared=("paper",)) == laptop + paper
    at_full_size = figure1.sweep("paper")
    assert rows_of_picture(everything, at_full_size, at_full_size, (), compared=("paper",)) == []


def test_kept_results_are_a_table_a_picture_and_a_part_of_the_readme(tmp_path):
    first, second = cliff.sweep("smoke"), cliff.sweep("smoke", seeds=3)
    keep("cliff", "smoke", cliff, first, first, rows(first, 0.5), tmp_path, WHERE)
    readme = tmp_path / "README.md"
    assert "6 runs, 1 seed\n" in readme.read_text()
    readme.write_text(readme.read_text().replace("# Results", "# Our results"))
    done = keep("cliff", "smoke", cliff, cliff.sweep("smoke"), second, rows(second, 0.25), tmp_path, WHERE)
    names = {"cliff-smoke.png", "cliff-smoke.svg", "cliff.csv", "README.md"}
    assert {path.name for path in done.files} == names == {path.name for path in tmp_path.iterdir()}
    found = read_rows(tmp_path / "cliff.csv")
    assert (len(found), {row.error for row in found}) == (18, {0.25})
    text = readme.read_text()
    assert text.startswith("# Our results\n")
    assert text.count("## cliff, smoke") == 1
    assert "36 s of training, one core a run; 18 runs, 3 seeds" in text
    assert "- 1 head: 0.25 at rank 8" in text
    assert "(cliff-smoke.png)" in text


def test_a_part_says_when_other_commands_brought_runs_of_its_picture(tmp_path):
    first, second = cliff.sweep("smoke"), cliff.sweep("smoke", seeds=2)
    keep("cliff", "smoke", cliff, second, second, rows(second), tmp_path, WHERE)
    assert "- command: `rankwise reproduce cliff`\n" in (tmp_path / "README.md").read_text()
    keep("cliff", "smoke", cliff, first, first, rows(first), tmp_path, WHERE)
    wanted = "- command: `rankwise reproduce cliff`; 6 runs of the picture are of earlier commands\n"
    assert wanted in (tmp_path / "README.md").read_text()


def test_the_table_of_figure_1_has_exactly_the_promised_columns(tmp_path):
    sweep = figure1.sweep("smoke")
    keep("figure1", "smoke", figure1, sweep, sweep, rows_of("figure1", sweep, lambda run: 0.5), tmp_path, WHERE)
    assert (tmp_path / "figure1.csv").read_text().splitlines()[0] == ",".join(COLUMNS)


def test_parts_come_in_the_order_of_the_figures_whatever_is_written_first():
    text = "# Results\n\nWords.\n"
    for name in ("cliff-laptop", "figure1-paper", "figure1-laptop", "cliff-laptop"):
        text = with_part(text, name, f"## {name}\n\nnew")
    head, parts = split_parts(text)
    assert head.strip() == "# Results\n\nWords."
    assert list(parts) == ["figure1-laptop", "figure1-paper", "cliff-laptop"]
    assert with_part(text, "cliff-laptop", parts["cliff-laptop"]) == text


def test_the_command_names_what_decides_the_numbers_and_no_place():
    options = {"seeds": 3, "pieces": (1, 2), "vectors": Path("somewhere/private/glove.npy")}
    found = provenance("figure1", "paper", options, Path("somewhere/else/results"))
    words = "rankwise reproduce figure1 --preset paper --seeds 3 --pieces 1 2 --vectors glove.npy --keep results"
    assert found.command == words
    assert found.machine.endswith(("CPU core", "CPU cores"))


def test_the_commit_is_that_of_the_repository_that_tracks_the_package(tmp_path):
    def git(*words):
        own = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    package, installed = tmp_path / "src", tmp_path / ".venv"
    for directory in (package / "train", installed):
        directory.mkdir(parents=True)
        (directory / "loop.py").write_text("steps = 1\n")
    for directory in (package, installed):
        (directory / "__init__.py").touch()
    git("init", "-q")
    git("add", "src")
    git("commit", "-q", "-m", "first")
    assert commit_of(package) == f"`{git('rev-parse', '--short=12', 'HEAD').strip()}`"
    assert commit_of(installed) is None
    (package / "train" / "loop.py").write_text("steps = 2\n")
    assert commit_of(package).endswith("`, with changes")


def test_without_a_repository_the_version_stands_for_the_commit(monkeypatch):
    def no_git(*words):
        raise FileNotFoundError("git")

    monkeypatch.setattr("rankwise.recipes.kept._git", no_git)
    assert commit_of_this_code() == "unknown" or commit_of_this_code().startswith("rankwise ")


def test_what_stands_between_and_after_the_parts_stays():
    text = "# Results\n"
    for name in ("figure1-laptop", "cliff-laptop"):
        text = with_part(text, name, "old")
    text = text.replace("<!-- begin cliff", "A note.\n\n<!-- begin cliff") + "\nThe end.\n"
    text = with_part(with_part(text, "figure1-laptop", "new"), "figure2-laptop", "between")
    assert text.index("new") < text.index("A note.") < text.index("between") < text.index("old")
    assert text.endswith("\nThe end.\n")


def test_a_refused_write_leaves_the_old_table(tmp_path):
    table = write_rows(rows(cliff.sweep("smoke")), tmp_path / "cliff.csv")
    before = table.read_bytes()
    (tmp_path / ".cliff.csv.new").mkdir()  # where the draft would be written
    with pytest.raises(StorageError, match=r"cliff\.csv: cannot be written"):
        write_rows([], table)
    assert table.read_bytes() == before


@pytest.mark.parametrize("text", ["", "# Results\n", "<!-- begin broken -->\nno end"])
def test_a_readme_without_whole_parts_still_takes_one(text):
    assert "## x" in with_part(text, "cliff-smoke", "## x")


def test_other_data_has_its_own_picture_and_no_picture_mixes_data(tmp_path):
    sweep = cliff.sweep("smoke")
    drawn = {}

    class Recipe:
        PRESETS = cliff.PRESETS
        KEYS = ("data",)
        sweep = staticmethod(cliff.sweep)

        @staticmethod
        def present(preset, rows, stem):
            drawn[stem.name] = {row.extra["data"] for row in rows}
            return cliff.present(preset, rows, stem)

    for data, path in (("digits", None), ("mnist", "somewhere/my mnist")):
        new = rows_of("cliff", sweep, lambda run: 0.5, lambda run, data=data: {"data": data})
        new = [replace(row, run_id=f"{row.run_id}-{data}") for row in new]
        keep("cliff", "smoke", Recipe, sweep, sweep, new, tmp_path, WHERE, data=path)
    assert drawn == {"cliff-smoke": {"digits"}, "cliff-smoke-my_mnist": {"mnist"}}
    assert len(read_rows(tmp_path / "cliff.csv")) == 2 * sweep.size()
    _, parts = split_parts((tmp_path / "README.md").read_text())
    assert sorted(parts) == ["cliff-smoke", "cliff-smoke-my_mnist"]
    assert "## cliff, smoke, my_mnist" in parts["cliff-smoke-my_mnist"]


def test_another_protocol_has_its_own_picture_and_leaves_the_first_as_it_is(tmp_path):
    whole = cliff.sweep("smoke")
    recalled = SweepSpec(name="s", runs=tuple(vary(run, {"protocol": "recall"}) for run in whole.expand()))
    keep("cliff", "smoke", cliff, whole, whole, rows(whole), tmp_path, WHERE)
    before = (tmp_path / "cliff-smoke.png").read_bytes(), split_parts((tmp_path / "README.md").read_text())[1]
    how = replace(WHERE, command="rankwise reproduce cliff --protocol recall")
    keep("cliff", "smoke", cliff, whole, recalled, rows(recalled, 0.25), tmp_path, how)
    draw_again("cliff", "smoke", cliff, whole, recalled, tmp_path)
    _, parts = split_parts((tmp_path / "README.md").read_text())
    assert "--protocol recall" in parts.pop("cliff-smoke-recall")
    assert ((tmp_path / "cliff-smoke.png").read_bytes(), parts) == before
    assert (tmp_path / "cliff-smoke-recall.png").exists()


def test_a_figure_that_compares_protocols_has_one_picture_of_all(tmp_path):
    for protocol in ("capacity", "recall"):
        asked = figure1.sweep("smoke", protocol=protocol)
        new = rows_of("figure1", asked, lambda run: 0.5)
        keep("figure1", "smoke", figure1, figure1.sweep("smoke"), asked, new, tmp_path, WHERE)
    assert {path.stem for path in tmp_path.iterdir()} == {"figure1-smoke", "figure1", "README"}


def test_a_kept_table_is_drawn_again_and_how_it_came_stays(tmp_path):
    sweep = cliff.sweep("smoke")
    keep("cliff", "smoke", cliff, sweep, sweep, rows(sweep), tmp_path, WHERE)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "cliff-smoke.png").unlink()
    told = (tmp_path / "README.md").read_text()
    (tmp_path / "README.md").write_text(told.replace("- 1 head: 0.5", "- 1 head: 0.7").replace("runs, 1", "runs, 9"))
    assert (tmp_path / "README.md").read_text().count("runs, 9 seed") == 1
    done = draw_again("cliff", "smoke", cliff, sweep, sweep, tmp_path)
    assert {path.name for path in done.files} == {"cliff-smoke.png", "cliff-smoke.svg", "README.md"}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    (tmp_path / "README.md").unlink()
    assert {path.name for path in draw_again("cliff", "smoke", cliff, sweep, sweep, tmp_path).files} == {
        "cliff-smoke.png",
        "cliff-smoke.svg",
    }


def test_a_table_without_what_was_asked_for_is_named(tmp_path):
    sweep, other = cliff.sweep("smoke"), cliff.sweep("laptop")
    with pytest.raises(InvalidInputError, match=r"expected runs of cliff \(smoke\) in .*cliff\.csv, got none"):
        draw_again("cliff", "smoke", cliff, sweep, sweep, tmp_path)
    keep("cliff", "smoke", cliff, sweep, sweep, rows(sweep), tmp_path, WHERE)
    with pytest.raises(InvalidInputError, match=r"expected runs of cliff \(laptop\)"):
        draw_again("cliff", "laptop", cliff, other, other, tmp_path)


def options_of(part):
    """What the command of a part was given besides figure and preset."""
    words = part.partition("- command: `")[2].partition("`")[0].split()[5:]
    options = {}
    for word in words[: words.index("--keep")]:
        if word.startswith("--"):
            options[word.removeprefix("--")] = ()
        else:
            options[list(options)[-1]] += (int(word) if word.isdigit() else word,)
    several = ("pieces", "ranks")
    return {name: values if name in several else values[0] for name, values in options.items()}


KEPT = split_parts((RESULTS / "README.md").read_text())[1]


@pytest.mark.parametrize("name", [name for name, part in KEPT.items() if "--vectors" not in part])
def test_what_the_repository_keeps_says_what_its_tables_say(name, tmp_path):
    """Every picture can be drawn from its table (with a file of vectors: where that is), and the README's reading of it
    is what that gives."""
    part = KEPT[name]
    figure, preset = part.partition("reproduce ")[2].split()[0:3:2]
    for file in ("README.md", f"{figure}.csv"):
        (tmp_path / file).write_bytes((RESULTS / file).read_bytes())
    whole = sweep_of(figure, preset, {})
    asked = sweep_of(figure, preset, options_of(part))
    draw_again(figure, preset, find_trained_recipe(figure), whole, asked, tmp_path)
    assert split_parts((tmp_path / "README.md").read_text())[1][name] == part
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
