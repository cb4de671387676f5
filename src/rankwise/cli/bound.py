"""``rankwise bound``: the error that so many heads of such a rank cannot go below."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rankwise.cli.output import console, print_json

if TYPE_CHECKING:
    from rankwise.theory import Values


def bound(*, dim: int, rank: int, heads: float, error: float | None = None, json: bool = False) -> None:
    """The least error of one attention layer on nearest-neighbour search: what heads of low rank cannot do.

    Example: rankwise bound --dim 64 --rank 8 --heads 512 --error 0.05

    Args:
        dim: Dimension of the points and the query.
        rank: Rank of each head's query-key form, at most dim.
        heads: Number of heads, such as 512 or 1e18.
        error: Also say how many heads still cannot reach this error, in (0, 0.5].
        json: Print one JSON object instead of sentences.
    """
    answer = _answer(dim, rank, heads, error)
    if json:
        print_json(answer)
        return
    from rich.table import Table

    table = Table("value matrices", "error is at least", title=f"dim {dim:,}, rank {rank:,}, heads {_count(heads)}")
    table.add_row("multiples of the identity", f"{answer['lower_bound']:.6f}")
    table.add_row("any", f"{answer['lower_bound_any_values']:.6f}")
    out = console()
    out.print(table)
    for sentence in _sentences(answer, dim, rank, heads, error):
        out.print(sentence, markup=False)


def _answer(dim: int, rank: int, heads: float, error: float | None) -> dict[str, Any]:
    from rankwise.theory import TRIVIAL_ERROR, error_lower_bound, heads_required, heads_required_log10

    own = error_lower_bound(dim, rank, heads)
    free = error_lower_bound(dim, rank, heads, values="any")
    answer = {
        "lower_bound": own.value,
        "lower_bound_any_values": free.value,
        "truncation_error": max(own.truncation_error, free.truncation_error),
        "trivial_error": TRIVIAL_ERROR,
        "parameters": _whole(4 * rank * dim * heads),
    }
    kinds: dict[str, Values] = {"": "scaled_identity", "_any_values": "any"}
    for name, values in kinds.items():
        required = log10_required = None
        if error is not None:
            required = _finite(heads_required(dim, rank, error, values=values))
            log10_required = math.log10(required) if required else heads_required_log10(dim, rank, error, values=values)
        answer |= {f"heads_required{name}": required, f"heads_required{name}_log10": log10_required}
    return answer | {"full_rank_heads": 1}


def _sentences(answer: dict[str, Any], dim: int, rank: int, heads: float, error: float | None) -> list[str]:
    sentences = [
        f"It means: no layer of {_count(heads)} heads of rank {rank} finds the nearer of two orthogonal random points "
        f"in dimension {dim} with a smaller mean squared error; answering with their mean has 0.5, one head of rank "
        f"{dim} has 0.",
        "It does not mean: that this error is reached, nor anything about other data, several layers or a "
        "feed-forward layer behind.",
    ]
    if error is not None:
        own, free = (_required(answer, name) for name in ("heads_required", "heads_required_any_values"))
        sentences.insert(
            0,
            f"Error {error:g}: {free} heads of rank {rank} still cannot reach it; {own} if their value matrices are "
            f"multiples of the identity.",
        )
    return sentences


def _required(answer: dict[str, Any], name: str) -> str:
    count = answer[name]
    return _count(count) if count is not None else f"10^{answer[f'{name}_log10']:.4g}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _whole(number: float) -> float | None:
    """As an integer where that loses nothing."""
    return int(number) if number < 2**53 and number == int(number) else _finite(number)


def _count(number: float) -> str:
    return f"{int(number):,}" if number < 1e15 and number == int(number) else f"{number:.4g}"
