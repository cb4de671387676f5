"""``rankwise audit A B`` as a person reads it: how many heads moved, a row per layer, the heads that moved most."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from rankwise.audit import Comparison, FormChange, LayerChange
from rankwise.cli.output import console

_NAMED = 3


def print_comparison(comparison: Comparison) -> None:
    """Everything on stdout; names from files never act as markup."""
    out = console()
    for line in comparison_headline(comparison):
        out.print(Text(line), style="bold", soft_wrap=True)
    out.print(_table(comparison))
    for line in _details(comparison):
        out.print(Text(line), soft_wrap=True)


def comparison_headline(comparison: Comparison) -> Iterator[str]:
    """How many heads moved, and how far the median one."""
    yield (
        f"{comparison.second} against {comparison.first}: {comparison.moved} of {comparison.heads} heads moved by more "
        f"than rounding explains."
    )
    for form in ("QK", "OV"):
        found = [change for layer in comparison.layers for change in forms_of(layer, form)]
        if found:
            beyond, rounding = (
                statistics.median(values) for values in zip(*((one.beyond, one.rounding) for one in found), strict=True)
            )
            yield f"{form} of the median head moved by {share(beyond)}, rounding subtracted ({share(rounding)})."


def forms_of(layer: LayerChange, form: str) -> list[FormChange]:
    """One form of every head; none where it is not known."""
    if form == "QK":
        return [head.qk for head in layer.head_changes]
    return [head.ov for head in layer.head_changes if head.ov is not None]


def share(value: float) -> str:
    """Two digits of a percentage."""
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.0f} %"


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    columns = ["layer", "heads\nmoved"]
    for form in ("QK", "OV"):
        columns += [f"{form} moved\nmean (most)", "by\nrounding", "directions\nmost", "effective rank\nbefore, after"]
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", no_wrap=True)
    for layer in comparison.layers:
        moved = sum(head.moved for head in layer.head_changes)
        cells = [layer.name, f"{moved} of {len(layer.head_changes)}"]
        for form in ("QK", "OV"):
            cells += _cells(forms_of(layer, form))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _cells(changes: Sequence[FormChange]) -> Iterator[str]:
    if not changes:
        yield from "----"
        return
    beyond = [one.beyond for one in changes]
    yield f"{share(statistics.mean(beyond))} ({share(max(beyond))})"
    yield share(statistics.mean(one.rounding for one in changes))
    yield str(max(one.directions for one in changes))
    before, after = (
        statistics.mean(ranks)
        for ranks in zip(*((one.first.effective, one.second.effective) for one in changes), strict=True)
    )
    yield f"{before:.1f}, {after:.1f}"


def _details(comparison: Comparison) -> Iterator[str]:
    yield ""
    for form in ("QK", "OV"):
        found = [
            (change, f"{layer.name} head {head.head}")
            for layer in comparison.layers
            for head in layer.head_changes
            if (change := head.qk if form == "QK" else head.ov) is not None and change.directions
        ]
        found.sort(key=lambda one: -one[0].beyond)
        if found:
            named = (
                f"{name} {share(change.beyond)} in {change.directions} directions" for change, name in found[:_NAMED]
            )
            yield f"Moved most in {form}: " + "; ".join(named) + "."
    stored = [
        ", ".join(f"{count} {dtype}" for dtype, count in storage.items())
        for storage in (comparison.first_storage, comparison.second_storage)
    ]
    yield f"Tensors read: {stored[0]} of {comparison.first}; {stored[1]} of {comparison.second}."
    for note in comparison.notes:
        yield f"Note: {note}."
    yield (
        "Moved: size of the difference of a head's two forms, over that of the first; what the rounding of both files "
        "alone would make is subtracted (as squares). Directions: singular values of the difference above those of "
        "rounding."
    )
