"""``rankwise demo``: the trade-off between rank and heads, trained now, beside the setting where it is a theorem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.output import console, print_json
from rankwise.errors import require_int

if TYPE_CHECKING:
    from rich.table import Table

    from rankwise.recipes import Point


def demo(
    *,
    store: Path = Path("rankwise-demo"),
    workers: int | None = None,
    dry_run: bool = False,
    open: bool = False,
    json: bool = False,
) -> None:
    """Train small heads of several ranks, write a page with the result, and say what it shows.

    The path of the page is the last line.

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
    from rankwise.report import require_drawing, require_page, save_figure
    from rankwise.sweep import train_sweep

    if workers is not None:
        require_int("--workers", workers, minimum=1)
    if dry_run:
        from rankwise.cli.dry_run import show_plan
        from rankwise.sweep import plan_sweep

        show_plan(plan_sweep(recipe.sweep()), store, workers=workers, json=json)
        return
    require_drawing()  # a missing extra is better noticed before training
    require_page()
    trade_off, setting = recipe.split(train_sweep(recipe.sweep(), store, workers=workers))
    png, svg = save_figure(recipe.picture(trade_off, setting).draw(), store / "demo")
    lines = recipe.reading(trade_off, setting)
    page = store_page(store, store / "report.html")
    if json:
        print_json(
            {
                "trade_off": [_plain(point) for point in trade_off],
                "setting": [_plain(point) for point in setting],
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
    """One row per depth and budget, one column per rank."""
    from rich.table import Table

    from rankwise.recipes import lines_of

    ranks = list(lines_of(points, "rank"))
    table = Table("layers", "parameters", *(f"rank {rank}" for rank in ranks), title="Squared error per point")
    for layers, depth in lines_of(points, "layers").items():
        for budget, line in lines_of(depth, "budget").items():
            cells = (f"{point.error:.4f} ± {point.spread():.4f}" for point in line)
            table.add_row(str(layers), str(budget), *cells)
    return table


def _plain(point: Point) -> dict[str, Any]:
    names = ("dim", "points", "layers", "heads", "rank", "parameters", "budget", "kind", "bound")
    return {**{name: point[name] for name in names if name in point}, "error": point.error, "error_se": point.spread()}
