"""Results kept in a directory of the repository: one CSV a figure, its pictures, and a README that says how they came.

``figure.csv`` collects the rows of all presets and protocols. Rows of a run that is measured again replace its old
ones, and so do rows of the same cell trained by a newer version of its protocol (another run id): the table never mixes
two versions of one thing. ``figure-preset.png`` is drawn from the collected rows of that preset, whichever command
brought them. The README holds one part for each picture, between markers, and is rewritten part by part.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankwise.errors import InvalidInputError
from rankwise.recipes.registry import FIGURES, Reproduced, TrainedRecipe
from rankwise.recipes.rows import ResultRow, read_rows, write_rows
from rankwise.spec import SweepSpec
from rankwise.sweep.progress import duration

_CELL = ("figure", "protocol", "dim", "points", "layers", "heads", "rank", "seed", "sequences")
_SHAPE = ("dim", "points", "layers", "heads", "rank")
_HEAD = """# Results

Each part below was written by the command it names: `rankwise reproduce FIGURE --keep results` trains what is missing
in its store, merges the runs into `FIGURE.csv` and draws the picture from that table. Errors are of the last weights on
held-out examples: squared errors a query, for text bits per byte, for images and Match the share of wrong answers; with
several seeds, their mean and its standard error.
"""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a picture came about, in words that fit any machine."""

    command: str
    commit: str
    machine: str


def keep(
    figure: str,
    preset: str,
    recipe: TrainedRecipe,
    sweeps: Sequence[SweepSpec],
    rows: Sequence[ResultRow],
    directory: Path,
    provenance: Provenance,
    *,
    data: str | None = None,
) -> Reproduced:
    """Merge ``rows`` into ``directory``, draw the preset's picture from what is there, and say so in the README.

    ``sweeps`` say which kept rows belong into the picture besides: the preset as a whole, and what was asked for.
    A picture of other ``data`` than the preset's has its own name, and no picture mixes data.
    """
    table = directory / f"{figure}.csv"
    before = read_rows(table) if table.exists() else []
    merged = merge(before, rows, recipe.KEYS)
    write_rows(merged, table)
    drawn = _drawn(recipe, merged, sweeps, rows)
    name = _name(figure, preset, data)
    done = recipe.present(preset, drawn, directory / name)
    readme = directory / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else _HEAD
    part = readme_part(name, figure, done, drawn, provenance, earlier=_runs(drawn) - _runs(rows))
    readme.write_text(with_part(text, name, part), encoding="utf-8")
    return replace(done, files=(*done.files, table, readme))


def draw_again(
    figure: str,
    preset: str,
    recipe: TrainedRecipe,
    whole: SweepSpec,
    asked: SweepSpec,
    directory: Path,
    *,
    data: str | None = None,
) -> Reproduced:
    """The preset's picture and what to read in it, from the table alone; how the numbers came stays as it was told.

    The table must hold runs of the sweep that was ``asked`` for; with another version of its protocol, its cells.
    """
    table = directory / f"{figure}.csv"
    kept = read_rows(table) if table.exists() else []
    ids = {run.id for run in asked.expand()}
    rows = [row for row in kept if row.run_id in ids]
    rows = rows or [row for row in of_preset(kept, asked) if "data" not in row.extra]
    if not rows:
        raise InvalidInputError(f"--no-train --keep: expected runs of {figure} ({preset}) in {table}, got none")
    name = _name(figure, preset, data)
    done = recipe.present(preset, _drawn(recipe, kept, (whole, asked), rows), directory / name)
    readme = directory / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else _HEAD
    told = split_parts(text)[1].get(name)
    if told is None:
        return done
    told_before_reading = told.rpartition("\n\n")[0]
    readme.write_text(with_part(text, name, f"{told_before_reading}\n\n{_listed(done.reading)}"), encoding="utf-8")
    return replace(done, files=(*done.files, readme))


def merge(before: Sequence[ResultRow], new: Sequence[ResultRow], keys: Sequence[str]) -> list[ResultRow]:
    """``before`` without what ``new`` measures again, and ``new``; sorted, so that differences are small."""
    runs = {row.run_id for row in new}
    cells = {_cell(row, keys) for row in new}
    kept = [row for row in before if row.run_id not in runs and _cell(row, keys) not in cells]
    return sorted([*kept, *new], key=lambda row: tuple(map(_sortable, _cell(row, keys))))


def of_preset(rows: Sequence[ResultRow], *sweeps: SweepSpec, any_budget: Sequence[str] = ()) -> list[ResultRow]:
    """The rows whose shape and budget occur in one of ``sweeps``, with any seed and by any protocol; with the protocols
    ``any_budget`` the shape is enough."""
    ids, shapes, budgets = set(), set(), set()
    for sweep in sweeps:
        for run in sweep.expand():
            model, optim = run.model, run.optim
            ids.add(run.id)
            shape = (model.dim, run.task.tokens, model.layers, model.heads, model.rank)
            shapes.add(shape)
            budgets.add((*shape, optim.steps * optim.batch))

    def belongs(row: ResultRow) -> bool:
        shape = _values(row, _SHAPE)
        fits = shape in shapes if row.protocol in any_budget else (*shape, row.sequences) in budgets
        return fits or row.run_id in ids

    return [row for row in rows if belongs(row)]


def _drawn(
    recipe: TrainedRecipe, kept: Sequence[ResultRow], sweeps: Sequence[SweepSpec], rows: Sequence[ResultRow]
) -> list[ResultRow]:
    """The ``kept`` rows that belong into one picture with ``rows``."""
    same = {row.extra.get("data") for row in rows}
    any_budget = getattr(recipe, "ANY_BUDGET", ())
    return [row for row in of_preset(kept, *sweeps, any_budget=any_budget) if row.extra.get("data") in same]


def _name(figure: str, preset: str, data: str | None) -> str:
    return f"{figure}-{preset}" if data is None else f"{figure}-{preset}-{_word(data)}"


def _listed(reading: str) -> str:
    return "\n".join(f"- {line}" for line in reading.splitlines())


def _runs(rows: Sequence[ResultRow]) -> frozenset[str]:
    return frozenset(row.run_id for row in rows)


def readme_part(
    name: str,
    figure: str,
    done: Reproduced,
    rows: Sequence[ResultRow],
    provenance: Provenance,
    *,
    earlier: frozenset[str] = frozenset(),
) -> str:
    """Heading, picture ``name``.png, where it comes from, and what to read in it; ``earlier`` runs are of other
    commands."""
    others = f"; {len(earlier)} runs of the picture are of earlier commands" if earlier else ""
    runs = {row.run_id: row for row in rows}.values()
    seeds = len({row.seed for row in runs})
    return (
        f"## {figure}, {name.removeprefix(f'{figure}-').replace('-', ', ')}\n\n"
        f"![{name}]({name}.png)\n\n"
        f"- command: `{provenance.command}`{others}\n"
        f"- commit when it was measured and drawn: {provenance.commit} (the run ids in the table fix the training)\n"
        f"- machine: {provenance.machine}\n"
        f"- time: {duration(sum(row.seconds for row in runs))} of training, one core a run; {len(runs)} runs, "
        f"{seeds} seed{'s' * (seeds > 1)}\n"
        f"- numbers: [{figure}.csv]({figure}.csv), vector graphics: [{name}.svg]({name}.svg)\n\n"
        f"{_listed(done.reading)}\n"
    )


def with_part(text: str, name: str, part: str) -> str:
    """``text`` with the part called ``name`` replaced or added, parts in the order of the registry."""
    head, parts = split_parts(text)
    parts[name] = part
    order = [f"{figure}-" for figure in FIGURES]
    names = sorted(parts, key=lambda one: ([not one.startswith(figure) for figure in order], one))
    marked = [f"<!-- begin {one} -->\n{parts[one].strip()}\n<!-- end {one} -->" for one in names]
    return "\n\n".join([head.strip(), *marked]) + "\n"


def split_parts(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first marker, and the parts by name."""
    found = re.findall(r"<!-- begin ([\w-]+) -->\n(.*?)\n<!-- end \1 -->", text, flags=re.DOTALL)
    return text.partition("<!-- begin ")[0], dict(found)


def provenance(figure: str, preset: str, options: Mapping[str, object], directory: Path) -> Provenance:
    """The command with the options that decide the numbers, the commit of this code, and the cores."""
    from rankwise.sweep.engines.local import usable_cores

    words = [f"rankwise reproduce {figure} --preset {preset}"]
    for name, value in options.items():
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else Path(str(value)).name
        words.append(f"--{name} {shown}")
    cores = usable_cores()
    return Provenance(
        command=" ".join([*words, f"--keep {directory.name}"]),
        commit=commit_of_this_code(),
        machine=f"{cores} CPU core{'s' * (cores > 1)}",
    )


def commit_of_this_code() -> str:
    """The commit that this package is at, or its version where it does not come from a repository."""
    from importlib.metadata import PackageNotFoundError, version

    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = bool(_git(here, "status", "--porcelain", "--untracked-files=no", "--", "."))
    except (OSError, subprocess.SubprocessError):
        try:
            return f"rankwise {version('rankwise')}"
        except PackageNotFoundError:
            return "unknown"
    return f"`{commit}`{', with changes' * changed}"


def _git(directory: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _word(path: str) -> str:
    """The name of a file as part of another's."""
    return re.sub(r"\W+", "_", Path(path).stem)


def _values(row: ResultRow, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in names)


def _cell(row: ResultRow, keys: Sequence[str]) -> tuple[object, ...]:
    return (*_values(row, _CELL), *(row.extra.get(key) for key in keys))


def _sortable(value: object) -> tuple[bool, float, str]:
    """Numbers among themselves, words among themselves."""
    return (False, float(value), "") if isinstance(value, int | float) else (True, 0.0, str(value))
