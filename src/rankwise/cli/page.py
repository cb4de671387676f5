"""The page at the end of a command: made from what the command has, its path printed last, opened when asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from rankwise.advise import ModelFiles
    from rankwise.audit import AuditReport, Comparison
    from rankwise.choose import Choice
    from rankwise.need import NeedReport
    from rankwise.reduce import Reduction
    from rankwise.report import PageContent
    from rankwise.watch import WatchReport


def store_page(store: Path, path: Path) -> Path:
    """The page of a store alone."""
    from rankwise.report import require_page, write_page

    require_page()
    return write_page(page_content(store=store), path)


def write_page_of(
    path: Path,
    *,
    audit: AuditReport | None = None,
    need: NeedReport | None = None,
    choice: Choice | None = None,
    comparison: Comparison | None = None,
    files: ModelFiles | None = None,
) -> Path | None:
    """The page of what a command has just measured; None, with a word on stderr, without the extra."""
    from rankwise.report import require_page, write_page

    try:
        require_page()
    except MissingExtraError as error:
        print(f"rankwise: no page: {error}", file=sys.stderr)
        return None
    content = page_content(audit=audit, need=need, choice=choice, comparison=comparison, files=files)
    return write_page(content, path)


def page_content(
    *,
    store: Path | None = None,
    audit: AuditReport | None = None,
    need: NeedReport | None = None,
    reduction: Reduction | None = None,
    choice: Choice | None = None,
    comparison: Comparison | None = None,
    watch: WatchReport | None = None,
    files: ModelFiles | None = None,
) -> PageContent:
    """All that is given; advice is made where there is an audit.

    - ``files``: where the audited model and its texts lie, for the commands that the advice names.
    """
    from rankwise.report import PageContent

    data = None
    if store is not None:
        from rankwise.report import read_store_data
        from rankwise.tasks import levels_of

        data = read_store_data(store, levels_of)
    advice = None if audit is None else _advice(audit, need, reduction, choice, files)
    return PageContent(
        store=data,
        audit=audit,
        need=need,
        reduction=reduction,
        choice=choice,
        comparison=comparison,
        watch=watch,
        advice=advice,
    )


def _advice(
    audit: AuditReport,
    need: NeedReport | None,
    reduction: Reduction | None,
    choice: Choice | None,
    files: ModelFiles | None,
) -> dict[str, Any]:
    from rankwise.advise import advice_document, advise, situation, taken_away

    cut = None if reduction is None else taken_away(reduction)
    try:
        return advice_document(advise(situation(audit=audit, need=need, reduction=cut, choice=choice, files=files)))
    except InvalidInputError as error:  # layers of several shapes, or vectors of another dimension than the model's
        return {"refused": str(error)}


def page_beside(page: Path | None, output: Path | None, default: str) -> Path:
    """``page`` where given, else named after the file that ``-o`` writes, else ``default`` in this folder."""
    return page or (Path(default) if output is None else output.with_suffix(".html"))


def say_page(path: Path, *, open: bool = False) -> None:
    """The last line of a command, and the browser where asked for."""
    print(path)
    if open:
        open_page(path)


def open_page(path: Path) -> None:
    """The page in the user's browser."""
    import webbrowser

    webbrowser.open(path.resolve().as_uri())
