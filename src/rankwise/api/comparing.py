"""``rankwise.audit(first, second)``: what differs between two models, head by head."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.api.result import Result, Rows
from rankwise.audit import Comparison, FormChange

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Comparing(Result):
    """How far every head's forms moved from one model to another; ``report`` holds everything."""

    def __init__(self, report: Comparison) -> None:
        self.report = report

    @property
    def headline(self) -> str:
        """How many heads moved, and how far the median one."""
        from rankwise.cli.comparison_table import comparison_headline

        return "\n".join(comparison_headline(self.report))

    @property
    def rows(self) -> Rows:
        """One row per head."""
        return [
            {"part": layer.part, "layer": layer.layer, "head": head.head, "key_head": head.kv_head, "moved": head.moved}
            | _numbers("qk", head.qk)
            | ({} if head.ov is None else _numbers("ov", head.ov))
            for layer in self.report.layers
            for head in layer.head_changes
        ]

    @property
    def summary(self) -> Rows:
        """One row per layer."""
        table = []
        for layer in self.report.layers:
            written = [head.ov.beyond for head in layer.head_changes if head.ov is not None]
            table.append(
                {
                    "layer": layer.name,
                    "heads": len(layer.head_changes),
                    "moved": sum(head.moved for head in layer.head_changes),
                    "QK beyond rounding, mean": statistics.fmean(head.qk.beyond for head in layer.head_changes),
                    "OV beyond rounding, mean": statistics.fmean(written) if written else None,
                }
            )
        return table

    def figure(self) -> Figure:
        """How far every head moved beyond rounding, layer by layer."""
        from rankwise.report import draw_comparison

        return draw_comparison(self.report)

    def to_json(self) -> Mapping[str, Any]:
        """The document of ``rankwise audit A B --json``."""
        return self.report.to_json()

    def page(self, path: Path | str = "audit.html") -> Path:
        """The page of ``rankwise audit A B``; needs the extra ``report``."""
        from rankwise.cli.page import page_content
        from rankwise.report import write_page

        return write_page(page_content(comparison=self.report), Path(path))

    def _print(self) -> None:
        from rankwise.cli.comparison_table import print_comparison

        print_comparison(self.report)


def _numbers(form: str, change: FormChange) -> dict[str, float]:
    return {
        f"{form}_change": change.change,
        f"{form}_rounding": change.rounding,
        f"{form}_beyond": change.beyond,
        f"{form}_directions": change.directions,
        f"{form}_effective_first": change.first.effective,
        f"{form}_effective_second": change.second.effective,
    }
