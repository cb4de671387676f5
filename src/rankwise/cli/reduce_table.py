"""A reduction for people: the verdict, then the numbers behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.cli.output import console, print_line, short
from rankwise.cli.sanity_lines import print_sanity

if TYPE_CHECKING:
    from rankwise.reduce import Reduction


def print_reduction(report: Reduction, out_folder: Path | None) -> None:
    """The verdict first."""
    from rich.table import Table
    from rich.text import Text

    from rankwise.report import what_to_do

    out = console()
    print_line(f"{report.model}: {report.verdict}", bold=True)
    print_sanity(report.sanity)
    for line in report.warnings:
        print_line(f"Warning: {line}.", bold=True)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for name in ("original", "reduced", "kept"):
        table.add_column(name, justify="right")
    for what, change in report.changes():
        kept = f"{change.after / change.before:.1%}" if change.before else "-"
        table.add_row(Text(what), _number(change.before), _number(change.after), kept)
    out.print(table)
    if report.frontier:
        out.print(_frontier_table(report))
    for line in _details(report, out_folder):
        print_line(line)
    print_line(f"What to do: {what_to_do(report)}", bold=True)


def _number(value: float) -> str:
    return short(value) if value >= 1000 else f"{value:.3g}"


def _frontier_table(report: Reduction) -> object:
    from rich.table import Table

    methods = list(dict.fromkeys(point.method for point in report.frontier))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("kept", *methods):
        table.add_column(name, justify="right")
    for keep in dict.fromkeys(point.keep for point in report.frontier):
        costs = {point.method: point.cost for point in report.frontier if point.keep == keep}
        cells = [f"{costs[method].cost:.4f} ± {costs[method].standard_error:.4f}" for method in methods]
        table.add_row(f"{keep:.1%}", *cells)
    return table


def _details(report: Reduction, out_folder: Path | None) -> list[str]:
    lines = [""]
    totals = [sum(layer.ranks) for layer in report.layers]
    low, high = min(totals), max(totals)
    lines.append(
        f"Directions by {report.method}, ranks {report.allocation}: {low} to {high} of {report.layers[0].size} a layer."
    )
    if report.healing is not None:
        lines.append(
            f"Healed {report.healing.minutes:.1f} min on {short(report.healing.tokens)} tokens: cost "
            f"{report.healing.before:.4f} before."
        )
    texts = report.texts
    if texts is not None:
        chosen = f", {texts.selection} to choose the share" if texts.selection else ""
        lines.append(
            f"Texts: {texts.calibration} pieces of {', '.join(texts.calibration_source)} to find directions{chosen}, "
            f"{texts.evaluation} of {', '.join(texts.evaluation_source)} to measure; up to {texts.tokens} tokens each."
        )
    if report.original_loss is not None:
        lines.append(f"The original's loss there: {report.original_loss:.4f} nats per token.")
    lines.append(f"Not tested: {'; '.join(report.not_tested)}.")
    lines += [f"Untouched: {item.what}: {item.reason}." for item in report.untouched[:5]]
    if out_folder is not None:
        load = "rankwise.load_reduced" if report.form == "latents" else "AutoModelForCausalLM.from_pretrained"
        size = sum(file.stat().st_size for file in out_folder.rglob("*") if file.is_file())
        lines.append(f'Written: {out_folder} ({size / 1e6:.1f} MB; {report.stored}). Load it: {load}("{out_folder}")')
    return lines
