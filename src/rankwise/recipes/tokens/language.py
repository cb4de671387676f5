"""Language: bits per byte and attention rank against the head dimension, at fixed heads.

    rankwise reproduce language
    rankwise reproduce language --preset full --data enwik8

Next-byte prediction on the Python standard library's source (every tenth file held out) or any text file (its last
tenth held out). The claim to test: performance and attention rank stop growing at the same head dimension. The causal
baseline of random hardmax heads is (n + 1) / 2n; tables of single bytes and of pairs are the levels to beat.
"""

from __future__ import annotations

from functools import partial

from rankwise.recipes.tokens.families import Family, OneFamilyFigure
from rankwise.spec import TextSpec
from rankwise.tasks import read_corpus
from rankwise.train import Budget


def text(data: str | None, *, context: int) -> TextSpec:
    """The standard library, or the file ``data``, in pieces of ``context`` bytes."""
    return TextSpec(context=context, sha256=read_corpus(data).sha256, path=data)


class _Language(OneFamilyFigure):
    """Bits per byte and ranks against the head dimension."""

    name = "language"


FIGURE = _Language(
    smoke=Family(
        task=partial(text, context=16),
        model={"dim": 16, "layers": 1, "heads": 2},
        sizes=(1, 4),
        budget=Budget(steps=40, batch=16, held_out=64),
        seeds=1,
    ),
    laptop=Family(
        task=partial(text, context=64),
        model={"dim": 64, "layers": 2, "heads": 4},
        sizes=(1, 2, 4, 8, 16, 32, 64),
        budget=Budget(steps=2000, batch=32),
    ),
    full=Family(
        task=partial(text, context=256),
        model={"dim": 256, "layers": 4, "heads": 8},
        sizes=(1, 2, 4, 8, 16, 32, 64, 128),
        budget=Budget(steps=50_000, batch=64, lr=1e-3, held_out=4096),
    ),
)
