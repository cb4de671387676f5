"""``rankwise reproduce FIGURE``: compute a figure from nothing, print its numbers, write its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rankwise.cli.output import console, print_json, require_target
from rankwise.errors import InvalidInputError, require_int
from rankwise.recipes.registry import FIGURES, TRAINED, Reproduced, find_recipe, find_trained_recipe, sweep_of
from rankwise.report.figures import new_figure
from rankwise.sweep.engines.where import Where

if TYPE_CHECKING:
    from rankwise.recipes.trained import TrainedRun
    from rankwise.spec import SweepSpec


def reproduce(
    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar=f"{{{','.join(FIGURES)}}}")],
    /,
    *,
    preset: str = "laptop",
    seeds: int | None = None,
    protocol: str | None = None,
    sequences: int | None = None,
    pieces: tuple[int, ...] = (),
    ranks: tuple[int, ...] = (),
    patience: int | None = None,
    data: Path | None = None,
    vectors: Path | None = None,
    keep: Path | None = None,
    train: bool = True,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    store: Path | None = None,
    workers: int | None = None,
    retry: bool = False,
    dry_run: bool = False,
    open: bool = False,
    json: bool = False,
    where: tyro.conf.OmitArgPrefixes[Where] = Where(),  # noqa: B008 (frozen)
) -> None:
    """A figure of the papers or of this project, computed here and now: numbers, PNG, SVG and JSON or CSV.

    Some are trained: stopped or killed, the same command continues.

    Example: rankwise reproduce figure1 --preset smoke

    Example, at full size as far as one layer: rankwise reproduce figure1 --preset paper --pieces 1

    Args:
        figure: Which one; its file in rankwise/recipes says what to expect.
        preset: smoke (seconds, coarse), laptop (minutes) or, for trained figures, paper or full, whichever the figure
            has (full size: hours to days on a laptop; --dry-run estimates).
        seeds: Train every cell with that many seeds (0, 1, ...); the figure shows mean and standard error.
        protocol: How to train: capacity (the best we know for heads as the paper's, the default), wide (the same with
            whole values, at most the paper's parameters), paper (the authors' recipe to the letter) or recall (ours on
            few sequences again and again, for training errors like the authors').
        sequences: Training examples of every run, instead of the preset's (figure4: of the longest runs, the others in
            proportion).
        pieces: Train only these parts of the preset, counted from 1 in the order that its recipe lists.
        ranks: Train only these of the preset's ranks (figure1, figure3, figure4).
        patience: End a run after so many epochs that did not lower the held-out error by a thousandth (figure1).
        data: A text file (language) or a directory of MNIST (images) in place of the preset's data.
        vectors: A .npy or .safetensors file whose rows are points too (anisotropic).
        keep: Merge the runs into this directory's FIGURE.csv and draw from it there, with a part of its README.md.
        train: With --no-train, draw what the store already holds, also while another command trains it; with --keep and
            none of the runs in the store, draw again what is kept.
        out: Directory the files are written to; figures if not given.
        store: Directory that keeps results and checkpoints of what is trained; runs if not given.
        workers: How many runs at a time; one for every core if not given.
        retry: Also train again what failed, timed out or ran out of memory before.
        dry_run: Show the runs, their parameters and the estimated time; compute and write nothing.
        open: Open the page of a trained figure in the browser; its path is printed last.
        json: Print the table as one JSON object; progress goes to stderr in any case.
        where: Where the runs of a trained figure are executed.
    """
    from rich.console import Console

    progress = Console(stderr=True, highlight=False)
    if workers is not None:
        require_int("--workers", workers, minimum=1)
    where.check()
    out_folder, store_folder = Path("figures") if out is None else out, Path("runs") if store is None else store
    if keep is not None:
        for option in (option for option, used in {"out": out is not None, "open": open}.items() if used):
            raise InvalidInputError(
                f"--{option}: expected no --keep beside it, which writes to {keep} and makes no page"
            )
    if not dry_run:
        require_target(*(("--out", out_folder) if keep is None else ("--keep", keep)), folder=True)
    options: dict[str, object] = {"protocol": protocol, "sequences": sequences, "seeds": seeds, "vectors": vectors}
    options |= {"pieces": pieces or None, "ranks": ranks or None, "patience": patience}
    options["data"] = None if data is None else str(data)
    given = {name: value for name, value in options.items() if value is not None}
    if figure in TRAINED:
        from rankwise.recipes.trained import train_sweep

        sweep = sweep_of(figure, preset, given)
        if dry_run:
            from rankwise.cli.dry_run import show_plan
            from rankwise.sweep.plan import plan_sweep

            show_plan(plan_sweep(sweep), store_folder, workers=workers, json=json, retry=retry)
            return
        new_figure(1, 1)  # a missing extra is better noticed before training
        if train:
            runs = train_sweep(sweep, store_folder, where=where, workers=workers, retry=retry)
        else:
            runs = _runs_there(sweep, store_folder, table=None if keep is None else keep / f"{figure}.csv")
            progress.print(f"{len(runs)} of {sweep.size()} runs are in {store_folder}", style="dim", markup=False)
        if keep is None:
            done = _drawn(figure, preset, runs, store_folder, out_folder)
        else:
            done = _kept(figure, preset, given, sweep, runs, keep)
    else:
        closed_form = find_recipe(figure)
        flags = {"dry-run": dry_run, "keep": keep is not None, "no-train": not train, **dict.fromkeys(given, True)}
        flags |= {"store": store is not None, "workers": workers is not None, "retry": retry, "open": open}
        flags |= {name: value != getattr(Where, name) for name, value in asdict(where).items()}
        for flag in (flag for flag, used in flags.items() if used):
            raise InvalidInputError(f"--{flag}: expected a figure that is trained ({', '.join(TRAINED)}), got {figure}")
        done = closed_form.reproduce(preset, out_folder, lambda line: progress.print(line, style="dim", markup=False))
    _show(figure, preset, done, json=json)
    if open and done.files[-1].suffix == ".html" and not json:
        from rankwise.cli.page import open_page

        open_page(done.files[-1])


def _runs_there(sweep: SweepSpec, store: Path, *, table: Path | None) -> tuple[TrainedRun, ...]:
    """The runs that the store has. A kept ``table`` can be drawn without a store, so there need not be one."""
    from rankwise.recipes.trained import trained_runs

    return () if table is not None and table.exists() and not store.exists() else trained_runs(sweep, store)


def _drawn(figure: str, preset: str, runs: Sequence[TrainedRun], store: Path, out: Path) -> Reproduced:
    """The figure, its table and the page of its store."""
    from rankwise.cli.page import store_page
    from rankwise.recipes.rows import write_rows

    if not runs:
        raise InvalidInputError(f"--no-train: expected runs of {figure} ({preset}) in {store}, got none")
    recipe = find_trained_recipe(figure)
    rows = recipe.rows(runs)
    done = recipe.present(preset, rows, out / figure)
    table = write_rows(rows, out / f"{figure}.csv")
    return replace(done, files=(*done.files, table, store_page(store, out / f"{figure}.html")))


def _kept(
    figure: str,
    preset: str,
    given: Mapping[str, object],
    sweep: SweepSpec,
    runs: Sequence[TrainedRun],
    directory: Path,
) -> Reproduced:
    """The runs merged into the directory and drawn there; without any, what it keeps drawn again."""
    from rankwise.recipes.kept import draw_again, keep, provenance

    recipe = find_trained_recipe(figure)
    whole = sweep_of(figure, preset, {name: value for name, value in given.items() if name == "data"})
    data = Path(str(given["data"])).name if "data" in given else None
    if not runs:
        return draw_again(figure, preset, recipe, whole, sweep, directory, data=data)
    told = provenance(figure, preset, given, directory)
    return keep(figure, preset, recipe, whole, sweep, recipe.rows(runs), directory, told, data=data)


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
    out_console.print(done.reading, markup=False)
    for path in files:
        print(path)


def _shown(cell: str | int | float | None) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
