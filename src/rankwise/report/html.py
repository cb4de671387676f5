"""One self-contained page: what was measured, where each number comes from, and an explorer of the closed forms.

Everything is inlined. The content security policy allows exactly the page's own style and script, by their hashes, and
no request at all; data is JSON that no browser executes. The same input gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from rankwise import __version__
from rankwise.audit import AuditReport, Comparison
from rankwise.choose import NOT_PROVED, Choice
from rankwise.errors import InvalidInputError, MissingExtraError
from rankwise.need import NeedReport
from rankwise.reduce import Reduction
from rankwise.report.headline import Figure, best, refutations, trade_offs
from rankwise.report.no_names import page_text, page_value
from rankwise.report.reduction import what_to_do
from rankwise.report.store_data import StoreData
from rankwise.watch import WatchReport
from rankwise.whole_file import write_whole

_SCRIPTS = (
    *("dom", "scale", "chart", "figure", "table", "closed_forms", "provenance", "curves", "training", "attention"),
    *("runs", "heatmap", "audit", "comparison", "need", "reduction", "choice", "watch", "explorer", "main"),
)
_FIRST_FIGURES = 4


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """What a page is made of; each part is optional, the explorer is always there."""

    store: StoreData | None = None
    audit: AuditReport | None = None
    need: NeedReport | None = None
    reduction: Reduction | None = None
    choice: Choice | None = None
    comparison: Comparison | None = None
    watch: WatchReport | None = None
    advice: Mapping[str, Any] | None = None


def write_page(content: PageContent, path: Path) -> Path:
    """The page as a file, in one piece."""
    return write_whole(path, build_page(content).encode(errors="replace"))


def require_page() -> None:
    """Fail now, with the install line, rather than after minutes of work."""
    _environment()


def build_page(content: PageContent) -> str:
    """The page as text."""
    from markupsafe import Markup

    style, script = _static("style.css"), _script()
    figures = first_figures(content)
    blocks = {}
    store = content.store
    if content.audit is not None:
        blocks["data-audit"] = content.audit.to_json()
    if content.need is not None:
        blocks["data-need"] = content.need.to_json()
    if shape := _shape(content):
        blocks["data-shape"] = shape
    if content.choice is not None:
        blocks["data-choice"] = content.choice.to_json()
    if content.comparison is not None:
        blocks["data-comparison"] = content.comparison.to_json()
    if content.reduction is not None:
        blocks["data-reduce"] = content.reduction.to_json()
    if content.watch is not None:
        blocks["data-watch"] = content.watch.to_json()
    blocks = {"data-saturation": json.loads(_static("saturation.json"))} | page_value(blocks)
    if store is not None:
        blocks["data-store"] = store.document  # its texts are a page's already
    page: str = (
        _environment()
        .get_template("page.html.j2")
        .render(
            version=__version__,
            csp=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            blocks=[(name, Markup(script_json(data))) for name, data in blocks.items()],
            title=_title(figures, content),
            subject=_subject(content),
            lede=_lede(content),
            figures=figures,
            parts=_parts(content),
            store=store,
            audit=content.audit,
            need=content.need,
            reduction=content.reduction,
            choice=content.choice,
            comparison=content.comparison,
            watch=content.watch,
            not_proved=NOT_PROVED,
            reduction_rows=[] if content.reduction is None else _changes(content.reduction),
            advice=content.advice,
            until=_day(store.until) if store is not None else None,
            units=list(dict.fromkeys(setting.task.unit for setting in store.settings)) if store is not None else [],
        )
    )
    return page


def _changes(reduction: Reduction) -> list[tuple[str, str, str, str]]:
    """What, before, after, and how much of it is kept."""

    def number(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    return [
        (what, number(one.before), number(one.after), f"{one.after / one.before:.1%}" if one.before else "-")
        for what, one in reduction.changes()
    ]


def script_json(data: object) -> str:
    """Strict JSON that stays data wherever it stands in HTML: no ``<``, ``>`` or ``&`` in it, nor line separators."""
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII: no line separators either
    except ValueError as error:
        raise InvalidInputError(f"expected finite numbers in a report, got: {error}") from None
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def first_figures(content: PageContent) -> list[Figure]:
    """The numbers in large type: trade-offs, the bound, then what there is of runs."""
    store = content.store
    figures: list[Figure] = []
    if store is not None:
        found = [figure for setting in store.settings if not setting.in_theorem for figure in trade_offs(setting)]
        held = refutations(store.settings)
        figures = found[: _FIRST_FIGURES - 2] + ([held] if held else [])
        if not figures and (smallest := best(store.settings)):
            figures.append(smallest)
        figures.append(_runs_figure(store))
    return figures


def _runs_figure(store: StoreData) -> Figure:
    done, failed = store.counts["done"], store.failures
    waiting = store.counts["pending"] + store.counts["running"]
    rest = [f"{failed:,} failed or diverged" if failed else "none failed", *([f"{waiting:,} to do"] if waiting else [])]
    return Figure(
        value=f"{done:,}",
        label="runs done" if done != 1 else "run done",
        detail=f"{', '.join(rest)}; {_hours(store.seconds)} of work",
    )


def _title(figures: list[Figure], content: PageContent) -> str:
    if figures and figures[0].value.endswith("×") and float(figures[0].value[:-1]) > 1:
        several = sum(figure.value.endswith("×") for figure in figures) > 1
        claim = f"Half rank errs at least {figures[0].value[:-1]} times as much as full rank"
        return f"{claim} with {figures[0].where}" if several else claim
    if content.reduction is not None:
        whose = content.reduction.model if content.audit is None else content.audit.model
        smaller = "a smaller cache is" if content.reduction.cache_numbers.before else "smaller heads are"
        return f"{whose}: {smaller} {content.reduction.judgement}"
    if content.audit is not None:
        return f"What the heads of {content.audit.model} use"
    if content.comparison is not None:
        compared = content.comparison
        return f"{compared.moved} of {compared.heads} heads moved from {compared.first} to {compared.second}"
    if content.choice is not None:
        return content.choice.headline()
    if content.need is not None:
        worst, asked = content.need.most_demanding, content.need.settings
        model = content.need.source.model
        if model is not None:
            return f"Rank {worst.need} of {worst.dim} finds the nearest token in {model}"
        return f"This data needs rank {worst.need} of {worst.dim} for error {asked.target:g}"
    if content.watch is not None:
        return content.watch.headline()
    return "How much rank, and how many heads?"


def _shape(content: PageContent) -> dict[str, Any]:
    """What is known of the model's shape, for the explorer."""
    if content.advice is not None and "model" in content.advice:
        return {**content.advice["model"], **content.advice["use"]}
    if content.need is None:
        return {}
    worst = content.need.most_demanding
    heads = (
        {"rank": worst.heads[0].rank, "heads": len(worst.heads), "kv_heads": len(worst.heads)} if worst.heads else {}
    )
    return {"dim": worst.dim, **heads}


def _subject(content: PageContent) -> str:
    return content.store.name if content.store is not None else ""


def _lede(content: PageContent) -> str:
    if content.store is not None and content.store.settings:
        titles = [setting.title for setting in content.store.settings]
        more = f" and {len(titles) - 3} more" if len(titles) > 3 else ""
        return "; ".join(titles[:3]) + more + ". " + _QUESTION
    if content.advice is not None and "headline" in content.advice:
        return str(content.advice["headline"])
    if content.choice is not None:
        return f"Small models trained on {content.choice.text}. {content.choice.searches[0].flatness}"
    if content.need is not None:
        return _need_in_words(content.need)
    if content.reduction is not None:
        return what_to_do(content.reduction)
    return _QUESTION


def _need_in_words(need: NeedReport) -> str:
    """What to do with the number, and how sure it is."""
    worst = need.most_demanding
    measured = f"Measured on held-out vectors, 95 %: {worst.need_low} to {worst.need_high}."
    if need.source.model is None:
        return f"Give a head that must find the nearest of {worst.candidates} such vectors this rank. {measured}"
    return (
        f"So much one head alone needs in the most demanding of {len(need.measurements)} blocks, for error "
        f"{need.settings.target:g} of a random choice. {measured} It is no reason to change a trained model: only a "
        f"measured cut says what its heads can lose (rankwise advise with --model and --text)."
    )


_QUESTION = "Rank and number of heads are different resources: what does trading one for the other cost?"


def _parts(content: PageContent) -> list[tuple[str, str]]:
    store = content.store
    parts = [("advice", "What to do")] if content.advice is not None else []
    if store is not None:
        parts += [("curves", "Rank against error"), ("training", "Training")] if store.settings else []
        parts += [("attention", "Attention ranks")] if store.settings and store.probed else []
        parts += [("failures", "Failures")] if store.failures else []
        parts += [("runs", "All runs")]
    parts += [("audit", "Audit")] if content.audit is not None else []
    parts += [("comparison", "Comparison")] if content.comparison is not None else []
    parts += [("need", "Need")] if content.need is not None else []
    parts += [("choice", "Choice")] if content.choice is not None else []
    parts += [("reduction", "Reduction")] if content.reduction is not None else []
    parts += [("watch", "During training")] if content.watch is not None else []
    return [*parts, ("explorer", "Explorer")]


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _script() -> str:
    """All scripts as one, in a scope of their own."""
    parts = "\n".join(_static(f"{name}.js") for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();'


def _static(name: str) -> str:
    text = files("rankwise.report").joinpath("static", name).read_text(encoding="utf-8")
    assert not any(end in text for end in ("</script", "</style")), f"{name} would end its own element"
    return text


def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError("report", "writing a report") from None
    loader = PackageLoader("rankwise.report")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: page_text(value) if type(value) is str else value,
    )  # fmt: skip


def _hours(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _day(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
