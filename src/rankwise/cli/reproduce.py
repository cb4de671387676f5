"""``rankwise reproduce FIGURE``: one figure from nothing, as one sweep; print its numbers, write its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from rankwise.cli.output import console, print_json, require_target
from rankwise.errors import InvalidInputError, require_int
from rankwise.recipes import FIGURES, TRAINED, Reproduced, computed_recipe, trained_recipe
from rankwise.report import require_drawing
from rankwise.sweep import Where


def reproduce(
    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar=f"{{{','.join(FIGURES)}}}")],
    /,
    *,
    preset: str = "laptop",
    seeds: int | None = None,
    protocol: str | None = None,
    sequences: int | None = None,
    only: tuple[str, ...] = (),
    data: Path | None = None,
    vectors: Path | None = None,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("figures"),
    store: Path | None = None,
    workers: int | None = None,
    retry: bool = False,
    dry_run: bool = False,
    json: bool = False,
    where: tyro.conf.OmitArgPrefixes[Where] = Where(),  # noqa: B008 (frozen)
) -> None:
    """A figure of the papers or of this project, computed here and now: numbers (CSV), PNG, SVG, a reading.

    Some are trained: stopped or killed, the same command continues.

    Example: rankwise reproduce figure1 --preset smoke

    Example, one layer at full size: rankwise reproduce figure1 --preset full --only layers=1 rank=32,64

    Args:
        figure: Which one; its file in rankwise/recipes says what to expect.
        preset: smoke (seconds, coarse), laptop (minutes) or, for trained figures, full (full size: hours to days on a
            laptop; --dry-run estimates).
        seeds: Train every cell with that many seeds (0, 1, ...) instead of the preset's; the figure shows mean and
            standard error.
        protocol: How to train: capacity (ours, the default) or paper (the authors' to the letter).
        sequences: Training examples of every run, instead of the preset's.
        only: Train and draw only the runs with these values: rank=8,16 layers=1. Columns are those of the CSV that are
            known before training.
        data: A text file (language) or a directory of MNIST (images) in place of the preset's data.
        vectors: A .npy or .safetensors file whose rows are points too (anisotropic).
        out: Directory that FIGURE-PRESET.csv, .png, .svg and .md are written to.
        store: Directory that keeps results and checkpoints of what is trained; runs if not given.
        workers: How many runs at a time; one for every core if not given.
        retry: Also train again what failed, timed out or ran out of memory before.
        dry_run: Show the runs, their parameters and the estimated time; compute and write nothing.
        json: Print the table as one JSON object; progress goes to stderr in any case.
        where: Where the runs of a trained figure are executed.
    """
    if workers is not None:
        require_int("--workers", workers, minimum=1)
    where.check()
    if not dry_run:
        require_target("--out", out, folder=True)
        require_drawing()  # a missing extra is better noticed before training
    options: dict[str, Any] = {"protocol": protocol, "sequences": sequences, "seeds": seeds, "only": only or None}
    options |= {"vectors": vectors, "data": None if data is None else str(data)}
    given = {name: value for name, value in options.items() if value is not None}
    command = _command(figure, preset, given)
    if figure in TRAINED:
        recipe, kept = trained_recipe(figure), store or Path("runs")
        sweep = recipe.sweep(preset, **given)
        if dry_run:
            from rankwise.cli.dry_run import show_plan
            from rankwise.sweep import plan_sweep

            show_plan(plan_sweep(sweep), kept, workers=workers, json=json, retry=retry)
            return
        from rankwise.sweep import train_sweep

        runs = train_sweep(sweep, kept, where=where, workers=workers, retry=retry)
        done = recipe.write(preset, command, runs, out)
    else:
        computed = computed_recipe(figure)
        flags = {"dry-run": dry_run, "store": store is not None, "workers": workers is not None, "retry": retry}
        flags |= dict.fromkeys(given, True)
        flags |= {name: value != getattr(Where, name) for name, value in asdict(where).items()}
        for flag in (flag for flag, used in flags.items() if used):
            raise InvalidInputError(f"--{flag}: expected a figure that is trained ({', '.join(TRAINED)}), got {figure}")
        from rankwise.cli.progress import shown_progress

        with shown_progress() as progress:
            done = computed.write(preset, command, out, progress)
    _show(figure, preset, done, json=json)


def _command(figure: str, preset: str, given: Mapping[str, object]) -> str:
    """The command with the options that decide the numbers; of files their names."""
    words = [f"rankwise reproduce {figure}", *([f"--preset {preset}"] if preset != "laptop" else [])]
    for name, value in given.items():
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else Path(str(value)).name
        words.append(f"--{name} {shown}")
    return " ".join(words)


def _show(figure: str, preset: str, done: Reproduced, *, json: bool) -> None:
    files = [str(path) for path in done.files]
    if json:
        table = [dict(zip(done.columns, row, strict=True)) for row in done.rows]
        print_json({"figure": figure, "preset": preset, "rows": table, "reading": done.reading, "files": files})
        return
    from rich.table import Table
    from rich.text import Text

    shown = Table(*done.columns, title=f"{figure} ({preset})")
    for cells in done.rows:
        shown.add_row(*(Text(_shown(cell)) for cell in cells))
    out_console = console()
    out_console.print(shown)
    for line in done.reading:
        out_console.print(line, markup=False)
    for path in files:
        print(path)


def _shown(cell: str | int | float | None) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
