"""``rankwise.audit``: how much rank a trained model's heads have, for a model on disk or in memory."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from rankwise.api.comparing import Comparing
from rankwise.api.models import in_memory, pieces_of, running
from rankwise.api.result import Result, Rows
from rankwise.audit import AuditReport, Ranks
from rankwise.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor, nn

    from rankwise.models import TensorNames, TensorSource


class Auditing(Result):
    """The ranks of every head's QK and OV forms beside those of random weights; ``report`` holds everything."""

    def __init__(self, report: AuditReport) -> None:
        self.report = report

    @property
    def headline(self) -> str:
        """What was measured, against what chance gives."""
        from rankwise.cli.audit_table import headline

        return "\n".join(headline(self.report))

    @property
    def rows(self) -> Rows:
        """One row per head."""
        return [
            {"part": layer.part, "layer": layer.layer, "head": head.head, "key_head": head.kv_head, "rank": layer.rank}
            | _ranks("qk", head.qk)
            | {
                "qk_effective_random": layer.qk_baseline.effective.mean,
                "qk_below_chance": head.qk.effective < layer.qk_baseline.effective.low,
            }
            | ({} if head.ov is None else _ranks("ov", head.ov))
            for layer in self.report.layers
            for head in layer.head_reports
        ]

    @property
    def summary(self) -> Rows:
        """One row per layer."""
        table = []
        for layer in self.report.layers:
            found = [head.qk.effective for head in layer.head_reports]
            written = [head.ov.effective for head in layer.head_reports if head.ov is not None]
            table.append(
                {
                    "layer": layer.name,
                    "heads": layer.heads,
                    "rank": layer.rank,
                    "mask": layer.mask,
                    "QK effective, mean": statistics.fmean(found),
                    "least": min(found),
                    "most": max(found),
                    "random": layer.qk_baseline.effective.mean,
                    "below chance": sum(value < layer.qk_baseline.effective.low for value in found),
                    "OV effective, mean": statistics.fmean(written) if written else None,
                }
            )
        return table

    def figure(self) -> Figure:
        """Every head's effective rank as a share of that of random weights, layer by layer."""
        from rankwise.report import draw_audit

        return draw_audit(self.report)

    def to_json(self) -> Mapping[str, Any]:
        """The document of ``rankwise audit --json``."""
        return self.report.to_json()

    def page(self, path: Path | str = "audit.html") -> Path:
        """The page of ``rankwise audit``; needs the extra ``report``."""
        from rankwise.cli.page import page_content
        from rankwise.report import write_page

        return write_page(page_content(audit=self.report), Path(path))

    def _print(self) -> None:
        from rankwise.cli.attention_table import print_attention
        from rankwise.cli.audit_table import print_report

        print_report(self.report)
        if self.report.attention is not None:
            print_attention(self.report.attention)


Model: TypeAlias = "nn.Module | str | Path"


@overload
def audit(
    model: Model,
    other: None = None,
    *,
    names: TensorNames | Mapping[str, Any] | None = None,
    config: Path | str | None = None,
    download: bool = False,
    text: str | Path | Sequence[str | Path] | None = None,
    tokens: Tensor | str | Path | None = None,
    tokenizer: Any = None,
    length: int | None = None,
    pieces: int = 8,
) -> Auditing: ...


@overload
def audit(
    model: Model,
    other: Model,
    *,
    names: TensorNames | Mapping[str, Any] | None = None,
    config: Path | str | None = None,
    download: bool = False,
) -> Comparing: ...


def audit(
    model: Model,
    other: Model | None = None,
    *,
    names: TensorNames | Mapping[str, Any] | None = None,
    config: Path | str | None = None,
    download: bool = False,
    text: str | Path | Sequence[str | Path] | None = None,
    tokens: Tensor | str | Path | None = None,
    tokenizer: Any = None,
    length: int | None = None,
    pieces: int = 8,
) -> Auditing | Comparing:
    """The ranks of every head's QK and OV forms beside those of random weights; ``rankwise audit`` does the same.

    - ``model``: A module in memory (of ``transformers``, or any with ``names``), a folder, a .safetensors or .gguf
      file, or a name on the hub (with ``download``).
    - ``other``: A second model of the same shape; then the answer is what differs, head by head.
    - ``names``: Where a layout is not known: the names of its tensors, a ``TensorNames`` or its fields, such as
      ``{"q": "blocks.{layer}.wq", "k": "blocks.{layer}.wk", "heads": 8}``.
    - ``config``: The config.json of a single safetensors file.
    - ``download``: Fetch a name that is no path from the Hugging Face hub.
    - ``text``: Text files to run the model on too, which adds the ranks of its attention matrices.
    - ``tokens``: Token ids instead, [texts, tokens], or a file of them.
    - ``tokenizer``: The tokenizer of a module in memory (with ``text``).
    - ``length``: Tokens of a piece of text; 256 if not given.
    - ``pieces``: How many pieces of text at most.
    """
    from rankwise.audit import audit_weights, compare_weights
    from rankwise.models import TensorNames, place

    asked = TensorNames(**names) if isinstance(names, Mapping) else names
    source, to_run = _opened(model, config, download)
    if other is not None:
        if text is not None or tokens is not None:
            raise InvalidInputError("text, tokens: expected one model to run, got two to compare")
        second, _ = _opened(other, config, download)
        return Comparing(compare_weights(source, second, (place(source, asked), place(second, asked))))
    report = audit_weights(source, place(source, asked))
    if text is None and tokens is None:
        return Auditing(report)
    from rankwise.audit import attention_report, measure_attention
    from rankwise.models import run_sanity

    runs = running(to_run, tokenizer)
    read = pieces_of(runs, text, tokens, length=length, limit=pieces)
    sanity = run_sanity(runs, read)
    layers = measure_attention(runs, read.tokens)
    attention = attention_report(layers, texts=len(read.tokens), source=read.sources, sanity=sanity)
    return Auditing(replace(report, attention=attention))


def _opened(model: Model, config: Path | str | None, download: bool) -> tuple[TensorSource, nn.Module | Path]:
    """Where its tensors are read, and what is run."""
    from rankwise.models import as_source, open_model

    if in_memory(model):
        return as_source(model), model  # type: ignore[arg-type, return-value]
    opened = open_model(model, config=config, download=download)  # type: ignore[arg-type]
    return opened, opened.path


def _ranks(form: str, ranks: Ranks) -> dict[str, float]:
    return {
        f"{form}_effective": ranks.effective,
        f"{form}_stable": ranks.stable,
        f"{form}_energy_90": ranks.energy_90,
        f"{form}_energy_99": ranks.energy_99,
        f"{form}_numerical": ranks.numerical,
    }
