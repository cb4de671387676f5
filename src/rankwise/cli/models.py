"""``rankwise models``: the shapes people chose, and a user's model among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.output import console, print_json

if TYPE_CHECKING:
    from rankwise.shapes import ModelShape


def models(*, config: Path | None = None, json: bool = False) -> None:
    """Published transformer shapes, 2017-2024: rank, heads and what they cost.

    H r / d is 1 in the standard scaling. 4rHd counts the attention weights of a layer as the paper does, every head
    with its own queries, keys, values and outputs.

    Args:
        config: A Hugging Face config.json (or the folder that holds it) to place in the table.
        json: Print one JSON object instead of a table.
    """
    from rankwise.shapes import published_shapes, read_config

    yours = None if config is None else read_config(config)
    shapes = [*published_shapes(), *([] if yours is None else [yours])]
    if json:
        rows = [{column.key: column.value(shape) for column in _COLUMNS} | _remarks(shape, yours) for shape in shapes]
        print_json({"models": rows})
        return
    _print_table(shapes, yours)


@dataclass(frozen=True)
class _Column:
    """One fact about a model: its name in JSON, its title in the table, how to read it off and how to write it.

    ``spare`` columns give way on a narrow terminal.
    """

    key: str
    title: str
    value: Callable[[ModelShape], Any]
    text: Callable[[Any], str] = str
    spare: bool = False


def _grouped(number: int) -> str:
    return f"{number:,}"


def _short(number: float) -> str:
    """Three digits and a decimal prefix: 906M."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:#.3g}".rstrip(".") + prefix
    return f"{number:g}"


_COLUMNS = (
    _Column("year", "year", lambda shape: shape.year),
    _Column("name", "model", lambda shape: shape.name),
    _Column("dim", "d", lambda shape: shape.dim, _grouped),
    _Column("layers", "L", lambda shape: shape.layers),
    _Column("mlp_ratio", "w", lambda shape: shape.mlp_ratio, "{:.3g}d".format),
    _Column("mlp_depth", "D", lambda shape: shape.mlp_depth),
    _Column("rank", "r", lambda shape: shape.rank),
    _Column("value_rank", "r2", lambda shape: shape.value_rank),
    _Column("heads", "H", lambda shape: shape.heads),
    _Column("kv_heads", "kv", lambda shape: shape.kv_heads if shape.latent is None else None),
    _Column("rank_share", "Hr/d", lambda shape: shape.rank_share, "{:.3g}".format),
    _Column("parameters_per_layer", "4rHd", lambda shape: shape.parameters, _short),
    _Column("stored_parameters_per_layer", "stored", lambda shape: shape.stored_parameters, _short, spare=True),
    _Column("kv_cache_bytes_per_token", "KV B/\ntoken", lambda shape: shape.kv_bytes_per_token, _short),
)


def _print_table(shapes: list[ModelShape], yours: ModelShape | None) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    roomy = out.width >= 100
    columns = [column for column in _COLUMNS if roomy or not column.spare]
    table = Table(box=None, padding=(0, 2 if roomy else 1, 0, 0), header_style="bold")
    for column in columns:
        name = column.key == "name"
        table.add_column(column.title, justify="left" if name else "right", no_wrap=not name)
    for shape in shapes:
        values = [(column, column.value(shape)) for column in columns]
        cells = [Text("-" if value is None else column.text(value)) for column, value in values]
        if shape is yours:
            cells[0] = Text(">")  # seen also where there is no colour
        table.add_row(*cells, style="bold reverse" if shape is yours else None)
    out.print(table)
    out.print(Text(f"\n{_LEGEND}"))
    if yours is not None and yours.latent is not None:
        out.print(Text(_LATENT.format(yours.latent.keyvalue, yours.latent.rope)))
    if yours is not None and yours.note is not None:
        out.print(Text(f"Note: {yours.note}."))


_LEGEND = (
    "d dim, L layers, w and D width and depth of the MLP, r and r2 rank of a head's query-key and output-value maps, "
    "H heads, kv heads with keys and values of their own. 4rHd: attention weights of a layer if no head shares any; "
    "stored: those it has. KV: keys and values of one token in all layers, 2 bytes a number."
)
_LATENT = "Latent attention: all heads read their keys and values from {} numbers and one rotary key of {}."


def _remarks(shape: ModelShape, yours: ModelShape | None) -> dict[str, Any]:
    latent = shape.latent
    return {
        "mlp_width": shape.mlp_width,
        "latent": latent and {"keyvalue": latent.keyvalue, "rope": latent.rope, "query": latent.query},
        "note": shape.note,
        "yours": shape is yours,
    }
