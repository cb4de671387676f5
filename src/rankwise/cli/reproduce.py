"""``rankwise reproduce FIGURE``: compute a figure from nothing, print its numbers, write its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from rankwise.cli.output import console, print_json
from rankwise.recipes.registry import FIGURES, find_recipe


def reproduce(
    figure: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar=f"{{{','.join(FIGURES)}}}")],
    /,
    *,
    preset: str = "laptop",
    out: Path = Path("figures"),
    json: bool = False,
) -> None:
    """A figure of the papers or of this project, computed here and now: numbers, PNG, SVG and JSON.

    Args:
        figure: Which one; its file in rankwise/recipes says what to expect.
        preset: smoke (seconds, coarse) or laptop (minutes).
        out: Directory the files are written to.
        json: Print the table as one JSON object; progress goes to stderr in any case.
    """
    from rich.console import Console

    progress = Console(stderr=True, highlight=False)
    recipe = find_recipe(figure)
    done = recipe.reproduce(preset, out, lambda line: progress.print(line, style="dim", markup=False))
    files = [str(path) for path in done.files]
    if json:
        rows = [dict(zip(done.columns, row, strict=True)) for row in done.rows]
        print_json({"figure": figure, "preset": preset, "rows": rows, "reading": done.reading, "files": files})
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(*done.columns, title=f"{figure} ({preset})")
    for row in done.rows:
        table.add_row(*(Text(_shown(cell)) for cell in row))
    out_console = console()
    out_console.print(table)
    out_console.print(done.reading, markup=False)
    for path in files:
        print(path)


def _shown(cell: str | int | float | None) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
