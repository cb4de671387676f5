"""Results kept in a directory of the repository: one CSV a figure, its pictures, and a README that says how they came.

``figure.csv`` collects the rows of all presets and protocols. Rows of a run that is measured again replace its old
ones, and so do rows of the same cell trained by a newer version of its protocol (another run id). ``figure-preset.png``
is drawn from the collected rows of that preset, whichever command brought them (``kept_rows`` says which). The README
holds one part for each picture, between markers; a part is replaced where it stands, and nothing else is touched.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankwise.errors import InvalidInputError
from rankwise.recipes.kept_rows import ids_with_seeds, merge, protocols_of, rows_of_picture
from rankwise.recipes.registry import FIGURES, Reproduced, TrainedRecipe
from rankwise.recipes.rows import ResultRow, read_rows, write_rows
from rankwise.report.whole_file import write_whole
from rankwise.spec import SweepSpec
from rankwise.sweep.progress import duration

_PART = re.compile(r"<!-- begin ([\w-]+) -->\n(.*?)\n<!-- end \1 -->", flags=re.DOTALL)
_HEAD = """# Results

Each part below was written by the command it names: `rankwise reproduce FIGURE --keep results` trains what is missing
in its store, merges the runs into `FIGURE.csv` and draws the picture from that table. Errors are of the last weights on
held-out examples: squared errors a query, for text bits per byte, for images and Match the share of wrong answers; with
several seeds, their mean and its standard error.
"""

_TIME = "- time: "


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
    whole: SweepSpec,
    asked: SweepSpec,
    rows: Sequence[ResultRow],
    directory: Path,
    provenance: Provenance,
    *,
    data: str | None = None,
) -> Reproduced:
    """Merge ``rows`` into ``directory``, draw the preset's picture from what is there, and say so in the README.

    ``rows`` are of the sweep that was ``asked`` for; what is kept of the ``whole`` preset belongs into the picture too.
    A picture of other ``data`` than the preset's has its own name, and no picture mixes data. So has one of another
    protocol, where the figure does not show protocols beside each other.
    """
    table = directory / f"{figure}.csv"
    before = read_rows(table) if table.exists() else []
    merged = merge(before, rows, recipe.KEYS, asked)
    write_rows(merged, table)
    drawn = _drawn(recipe, merged, whole, asked, rows)
    name = _name(figure, preset, recipe, whole, asked, data)
    done = recipe.present(preset, drawn, directory / name)
    readme = directory / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else _HEAD
    part = readme_part(name, figure, done, drawn, provenance, earlier=_runs(drawn) - _runs(rows))
    write_whole(readme, with_part(text, name, part).encode())
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
    """The preset's picture, what to read in it and how long its runs took, from the table alone; how the numbers came
    stays as it was told.

    The table must hold runs of the sweep that was ``asked`` for; with another version of its protocol, its cells.
    """
    table = directory / f"{figure}.csv"
    kept = read_rows(table) if table.exists() else []
    ids = ids_with_seeds(asked, {row.seed for row in kept})
    older = [row for row in rows_of_picture(kept, asked, asked, recipe.KEYS) if "data" not in row.extra]
    rows = [row for row in kept if row.run_id in ids] or older
    if not rows:
        raise InvalidInputError(f"--no-train --keep: expected runs of {figure} ({preset}) in {table}, got none")
    name = _name(figure, preset, recipe, whole, asked, data)
    drawn = _drawn(recipe, kept, whole, asked, rows)
    done = recipe.present(preset, drawn, directory / name)
    readme = directory / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else _HEAD
    told = split_parts(text)[1].get(name)
    if told is None:
        return done
    before_time, _, after = told.partition(_TIME)
    how_it_came = before_time + _time(drawn) + "\n" + after.splitlines()[1]
    write_whole(readme, with_part(text, name, f"{how_it_came}\n\n{_listed(done.reading)}").encode())
    return replace(done, files=(*done.files, readme))


def _drawn(
    recipe: TrainedRecipe, kept: Sequence[ResultRow], whole: SweepSpec, asked: SweepSpec, rows: Sequence[ResultRow]
) -> list[ResultRow]:
    """The ``kept`` rows that belong into one picture with ``rows``."""
    same = {row.extra.get("data") for row in rows}
    found = rows_of_picture(kept, asked, whole, recipe.KEYS, compared=_compared(recipe))
    return [row for row in found if row.extra.get("data") in same]


def _name(figure: str, preset: str, recipe: TrainedRecipe, whole: SweepSpec, asked: SweepSpec, data: str | None) -> str:
    others = set() if _compared(recipe) else protocols_of(asked) - protocols_of(whole)
    return "-".join([figure, preset, *([] if data is None else [_word(data)]), *sorted(others)])


def _compared(recipe: TrainedRecipe) -> Sequence[str]:
    compared: Sequence[str] = getattr(recipe, "COMPARED", ())
    return compared


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
    return (
        f"## {figure}, {name.removeprefix(f'{figure}-').replace('-', ', ')}\n\n"
        f"![{name}]({name}.png)\n\n"
        f"- command: `{provenance.command}`{others}\n"
        f"- commit when it was measured and drawn: {provenance.commit} (the run ids in the table fix the training)\n"
        f"- machine: {provenance.machine}\n"
        f"{_time(rows)}\n"
        f"- numbers: [{figure}.csv]({figure}.csv), vector graphics: [{name}.svg]({name}.svg)\n\n"
        f"{_listed(done.reading)}\n"
    )


def _time(rows: Sequence[ResultRow]) -> str:
    runs = {row.run_id: row for row in rows}.values()
    seeds = len({row.seed for row in runs})
    spent = duration(sum(row.seconds for row in runs))
    return f"{_TIME}{spent} of training, one core a run; {len(runs)} runs, {seeds} seed{'s' * (seeds > 1)}"


def with_part(text: str, name: str, part: str) -> str:
    """``text`` with the part called ``name`` replaced where it stands, or added in the order of the registry."""
    marked = f"<!-- begin {name} -->\n{part.strip()}\n<!-- end {name} -->"
    parts = list(_PART.finditer(text))
    for found in parts:
        if found[1] == name:
            return text[: found.start()] + marked + text[found.end() :]
    later = next((found for found in parts if _place(found[1]) > _place(name)), None)
    if later is None:
        return f"{text.rstrip()}\n\n{marked}\n"
    return f"{text[: later.start()]}{marked}\n\n{text[later.start() :]}"


def split_parts(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first marker, and the parts by name."""
    return text.partition("<!-- begin ")[0], {found[1]: found[2] for found in _PART.finditer(text)}


def _place(name: str) -> tuple[list[bool], str]:
    return [not name.startswith(f"{figure}-") for figure in FIGURES], name


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

    committed = commit_of(Path(__file__).parents[1])
    if committed is not None:
        return committed
    try:
        return f"rankwise {version('rankwise')}"
    except PackageNotFoundError:
        return "unknown"


def commit_of(package: Path) -> str | None:
    """The commit that ``package`` is at and whether it was changed since; None where no repository tracks it."""
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")  # else: installed inside somebody's repository
        commit = _git(package, "rev-parse", "--short=12", "HEAD")
        changed = bool(_git(package, "status", "--porcelain", "--untracked-files=no", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None
    return f"`{commit}`{', with changes' * changed}"


def _git(directory: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _word(path: str) -> str:
    """The name of a file as part of another's."""
    return re.sub(r"\W+", "_", Path(path).stem)
