"""The published shapes, read from ``published.toml``."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from functools import cache
from importlib.resources import files

from rankwise.shapes.shape import LatentShape, ModelShape

SLIDES = "the slides of Amsel, Yehudai and Bruna (arXiv 2407.16153)"
"""The source of rows that name none."""


@cache
def published_shapes() -> tuple[ModelShape, ...]:
    """The shapes of known models, 2017-2025, oldest first: the slides' table and later models."""
    text = files("rankwise.shapes").joinpath("published.toml").read_text(encoding="utf-8")
    return tuple(
        ModelShape(
            name=row["name"],
            year=row["year"],
            dim=row["dim"],
            layers=row["layers"],
            cached_layers=row["layers"],
            heads=row["heads"],
            kv_heads=row.get("kv_heads", row["heads"]),
            rank=row["rank"],
            value_rank=row["value_rank"],
            mlp_width=round(Fraction(row["mlp_width"]) * row["dim"]),
            mlp_depth=row["mlp_depth"],
            latent=LatentShape(**row["latent"]) if "latent" in row else None,
            source=row.get("source", SLIDES),
        )
        for row in tomllib.loads(text)["model"]
    )
