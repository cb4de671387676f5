"""``rankwise models``: the shapes people chose, and a user's model among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankwise.cli.output import console, print_json, short

if TYPE_CHECKING:
    from rankwise.shapes import ModelShape
    from rankwise.theory import Values


def models(*, config: str | None = None, download: bool = False, json: bool = False) -> None:
    """Published transformer shapes, 2017-2025: rank, heads and what they cost.

    H r / d is 1 in the standard scaling; above 1, all heads together have more query coordinates than a token has.
    The JSON object has more columns, and names the source of every row.

    Example: rankwise models --config config.json

    Args:
        config: A Hugging Face config.json, the folder that holds it, or a name on the hub, to place in the table.
        download: Fetch the config from the Hugging Face hub if it is no path: owner/name or hf://owner/name.
        json: Print one JSON object instead of a table.
    """
    from rankwise.models import local_model
    from rankwise.shapes import published_shapes, read_config

    yours = None if config is None else read_config(local_model(config, download=download, config_only=True))
    shapes = [*published_shapes(), *([] if yours is None else [yours])]
    if json:
        rows = [{column.key: column.value(shape) for column in _COLUMNS} | _remarks(shape, yours) for shape in shapes]
        print_json({"models": rows})
        return
    _print_table(shapes, yours)


@dataclass(frozen=True)
class _Column:
    """One fact about a model: its name in JSON, its title if the table shows it, how to read it off and to write it."""

    key: str
    title: str | None
    value: Callable[[ModelShape], Any]
    text: Callable[[Any], str] = str


def _grouped(number: int) -> str:
    return f"{number:,}"


def _share(number: float) -> str:
    return f"{number:.3f}".removeprefix("0")


def _lower_bound(shape: ModelShape, values: Values) -> float | None:
    """LB(d, r, H) with r the rank of a head's query-key form and H the heads that have queries of their own.

    The bound is about what a head can see of the points through its keys, so r is the rank of keys and not of values.
    Heads that share keys (grouped, multi-query) or read them from one latent are a special case of heads with keys of
    their own: the number holds for them, and a sharper one may. A head wider than the model (r > d) has rank d.
    """
    from rankwise.theory import error_lower_bound

    if shape.dim < 2:
        return None
    return error_lower_bound(shape.dim, min(shape.rank, shape.dim), shape.heads, values=values).value


_COLUMNS = (
    _Column("year", "year", lambda shape: shape.year),
    _Column("name", "model", lambda shape: shape.name),
    _Column("dim", "d", lambda shape: shape.dim, _grouped),
    _Column("layers", None, lambda shape: shape.layers),
    _Column("mlp_ratio", None, lambda shape: shape.mlp_ratio),
    _Column("mlp_depth", None, lambda shape: shape.mlp_depth),
    _Column("rank", "r", lambda shape: shape.rank),
    _Column("value_rank", None, lambda shape: shape.value_rank),
    _Column("heads", "H", lambda shape: shape.heads),
    _Column("kv_heads", None, lambda shape: shape.kv_heads if shape.latent is None else None),
    _Column("rank_share", "H r/d", lambda shape: shape.rank_share, "{:.3g}".format),
    _Column("parameters_per_layer", None, lambda shape: shape.parameters),
    _Column("stored_parameters_per_layer", None, lambda shape: shape.stored_parameters),
    _Column("kv_cache_bytes_per_token", "KV bytes\nper token", lambda shape: shape.kv_bytes_per_token, short),
    _Column("lower_bound", None, lambda shape: _lower_bound(shape, "scaled_identity")),
    _Column("lower_bound_any_values", "error\nat least", lambda shape: _lower_bound(shape, "any"), _share),
)


def _print_table(shapes: list[ModelShape], yours: ModelShape | None) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    columns = [column for column in _COLUMNS if column.title is not None]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        name = column.key == "name"
        table.add_column(column.title or "", justify="left" if name else "right", no_wrap=not name, overflow="fold")
    for shape in shapes:
        values = [(column, column.value(shape)) for column in columns]
        cells = [Text("-" if value is None else column.text(value)) for column, value in values]
        if shape is yours:
            cells[0] = Text(">")  # seen also where there is no colour
        table.add_row(*cells, style="bold reverse" if shape is yours else None)
    out.print(table)
    out.print(Text(f"\n{_LEGEND}"))
    out.print(Text(_BOUND))
    if yours is not None and yours.latent is not None:
        out.print(Text(_LATENT.format(yours.latent.keyvalue, yours.latent.rope)))
    if yours is not None and yours.note is not None:
        out.print(Text(f"Note: {yours.note}."))


_LEGEND = (
    "d dimension, r rank of a head, H heads. H r/d above 1: all heads together have more query coordinates than a "
    "token has. KV: keys and values of one token in all layers, 2 bytes per number."
)
_BOUND = (
    "error at least: no layer of H heads of rank r finds the nearer of two isotropic points with a smaller squared "
    "error (rankwise bound); real keys lie in fewer dimensions and layers add up, so it is no verdict on a model."
)
_LATENT = "Latent attention: all heads read their keys and values from {} numbers and one rotary key of {}."


def _remarks(shape: ModelShape, yours: ModelShape | None) -> dict[str, Any]:
    latent = shape.latent
    return {
        "mlp_width": shape.mlp_width,
        "latent": latent and {"keyvalue": latent.keyvalue, "rope": latent.rope, "query": latent.query},
        "note": shape.note,
        "source": shape.source,
        "yours": shape is yours,
    }
