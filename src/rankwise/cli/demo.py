"""``rankwise demo``: the trade-off between rank and heads, trained now, beside the setting where it is a theorem."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.cli.output import console, print_json
from rankwise.errors import require_int

if TYPE_CHECKING:
    from rich.table import Table

    from rankwise.recipes.figure1_points import Point


def demo(
    *,
    store: Path = Path("rankwise-demo"),
    workers: int | None = None,
    dry_run: bool = False,
    open: bool = False,
    json: bool = False,
) -> None:
    """Train the trade-off at laptop size, draw it beside the theorem's setting, and say what it shows.

    It ends with a page to look at; its path is the last line.

    Takes minutes; stopped or killed, the same command continues.

    Example: rankwise demo --open

    Args:
        store: Directory for results, checkpoints and the figure.
        workers: How many runs at a time; one for every core if not given.
        dry_run: Show the runs, their parameters and the estimated time; train and write nothing.
        open: Open the page that it ends with in the browser.
        json: Print one JSON object instead of text.
    """
    from rankwise.cli.page import say_page, store_page
    from rankwise.recipes import demo as recipe
    from rankwise.recipes.trained import train_sweep
    from rankwise.report.figures import house_style, new_figure, save_figure
    from rankwise.report.html import require_page
    from rankwise.spec import SweepSpec
    from rankwise.sweep.plan import plan_sweep

    if workers is not None:
        require_int("--workers", workers, minimum=1)
    sweeps = recipe.sweeps()
    if dry_run:
        from rankwise.cli.dry_run import show_plan

        both = SweepSpec(name="demo", runs=tuple(run for sweep in sweeps for run in sweep.expand()))
        show_plan(plan_sweep(both), store, workers=workers, json=json)
        return
    new_figure(1, 1)  # a missing extra is better noticed before training
    require_page()
    trained = [run for sweep in sweeps for run in train_sweep(sweep, store, workers=workers)]
    trade_off, setting = recipe.split(trained)
    with house_style():
        figure = recipe.draw(trade_off, setting)
    png, svg = save_figure(figure, store / "demo")
    lines = recipe.reading(trade_off, setting)
    page = store_page(store, store / "report.html")
    if json:
        print_json(
            {
                "trade_off": [dataclasses.asdict(point) for point in trade_off],
                "setting": [dataclasses.asdict(point) for point in setting],
                "reading": lines,
                "figure": {"png": str(png), "svg": str(svg)},
                "page": str(page),
            }
        )
        return
    from rich.text import Text

    out = console()
    out.print(rank_table(trade_off))
    for line in lines:
        out.print(Text(line))
    out.print(Text(f"The figure: {png} (and {svg.name}). Open the page below: every run, and an explorer."))
    say_page(page, open=open)


def rank_table(points: Sequence[Point]) -> Table:
    """One row a depth and budget, one column a rank."""
    from rich.table import Table

    ranks = sorted({point.rank for point in points})
    table = Table("layers", "parameters", *(f"rank {rank}" for rank in ranks), title="Squared error a point")
    rows: dict[tuple[int, float], dict[int, Point]] = {}
    for point in points:
        rows.setdefault((point.layers, point.exponent), {})[point.rank] = point
    for (layers, exponent), row in rows.items():
        cells = (f"{row[rank].error:.4f} ± {row[rank].spread:.4f}" for rank in ranks)
        table.add_row(str(layers), f"d^{1 + exponent:g}", *cells)
    return table
