"""``rankwise.advise``: what rank and how many heads, why, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.advise import Advice, advice_document, situation, taken_away
from rankwise.advise import advise as advise_about
from rankwise.api.auditing import Auditing, audit
from rankwise.api.needing import Needing
from rankwise.api.reducing import Reducing
from rankwise.api.result import Result, Rows
from rankwise.audit import FORMAT as AUDIT_FORMAT
from rankwise.audit import AuditReport, read_report
from rankwise.models import local_model
from rankwise.need import NeedReport, read_need
from rankwise.reduce import Reduction, read_reduction
from rankwise.spec import read_json_object

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn


class Advising(Result):
    """What to do with this model, what to try in the next training, and the numbers; ``advice`` holds everything."""

    def __init__(self, advice: Advice) -> None:
        self.advice = advice

    @property
    def headline(self) -> str:
        """What to do, in one sentence, and how sure that is."""
        return self.advice.headline

    @property
    def rows(self) -> Rows:
        """One row per number."""
        advice, of = self.advice, self.advice.situation
        low, high = advice.published_ranks
        measured = []
        if of.need is not None:
            largest = max(of.need.blocks, key=lambda block: block.rank)
            measured = [{"what": "need, measured", "rank": largest.rank, "low": largest.low, "high": largest.high}]
        return [
            {"what": "rank now", "rank": of.shape.rank, "low": None, "high": None},
            *measured,
            {"what": "need, isotropic data", "rank": advice.need_isotropic, "low": None, "high": None},
            {"what": "plateau of random heads", "rank": advice.plateau.value, "low": None, "high": None},
            {"what": "published models", "rank": None, "low": low, "high": high},
        ]

    @property
    def summary(self) -> Rows:
        """The same."""
        return self.rows

    def figure(self) -> Figure:
        """The ranks side by side."""
        from rankwise.report import draw_ranks

        return draw_ranks(self.rows)

    def to_json(self) -> Mapping[str, Any]:
        """The document of ``rankwise advise --json``."""
        return advice_document(self.advice)

    def _print(self) -> None:
        from rankwise.cli.advise import print_advice

        print_advice(self.advice)


def advise(
    model: Auditing | AuditReport | nn.Module | str | Path | None = None,
    *,
    need: Needing | NeedReport | str | Path | None = None,
    reduction: Reducing | Reduction | str | Path | None = None,
    download: bool = False,
    **numbers: Any,
) -> Advising:
    """What to change about rank and heads; ``rankwise advise`` does the same.

    - ``model``: An audit, the file that ``rankwise audit -o`` wrote, a model's config.json or folder, or a module in
      memory, which is audited first. None where ``numbers`` say it all.
    - ``need``: What ``rankwise.need`` returned, or the file that ``rankwise need -o`` wrote.
    - ``reduction``: What ``rankwise.reduce`` returned for the same model, or the file that the command wrote.
    - ``download``: Fetch the config of a name that is no path from the Hugging Face hub.
    - ``numbers``: The options of the command, such as ``dim=768, heads=12, length=1024``; they win over the others.
    """
    config, report = None, None
    if isinstance(model, Auditing | AuditReport):
        report = model.report if isinstance(model, Auditing) else model
    elif isinstance(model, str | Path):
        path = local_model(model, download=download, config_only=True)
        if path.is_file() and read_json_object(path).get("format") == AUDIT_FORMAT:
            report = read_report(path)
        else:
            config = path
    elif model is not None:
        report = audit(model).report
    measured = need.report if isinstance(need, Needing) else need
    if isinstance(measured, str | Path):
        measured = read_need(Path(measured))
    reduced = reduction.report if isinstance(reduction, Reducing) else reduction
    if isinstance(reduced, str | Path):
        reduced = read_reduction(Path(reduced))
    cut = None if reduced is None else taken_away(reduced)
    return Advising(advise_about(situation(config=config, audit=report, need=measured, reduction=cut, **numbers)))
