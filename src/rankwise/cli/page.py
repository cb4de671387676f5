"""The page at the end of a command: made from what the command has, its path printed last, opened when asked."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from rankwise.report.html import PageContent


def store_page(store: Path, path: Path) -> Path:
    """The page of a store alone."""
    from rankwise.report.html import write_page

    return write_page(page_content(store=store), path)


def document_page(kind: str, document: dict[str, Any], path: Path) -> Path | None:
    """The page of one document that a command has just made; None, with a word on stderr, without the extra."""
    from rankwise.report.html import write_page

    with tempfile.TemporaryDirectory(prefix="rankwise-") as scratch:
        file = Path(scratch) / f"{kind}.json"
        file.write_text(json.dumps(document, allow_nan=False))
        try:
            content = page_content(audit=file) if kind == "audit" else page_content(need=file)
        except MissingExtraError as error:
            print(f"rankwise: no page: {error}", file=sys.stderr)
            return None
    return write_page(content, path)


def page_content(
    *, store: Path | None = None, audit: Path | None = None, need: Path | None = None, reduce: Path | None = None
) -> PageContent:
    """All that the given store and files hold; advice is made where an audit or a need is given."""
    from rankwise.report.documents import read_document
    from rankwise.report.html import PageContent, require_page

    require_page()
    data = None
    if store is not None:
        from rankwise.recipes.baselines import levels_of
        from rankwise.report.store_data import read_store_data

        data = read_store_data(store, levels_of)
    return PageContent(
        store=data,
        audit=None if audit is None else _audited(audit),
        need=None if need is None else _checked_need(need),
        reduction=None if reduce is None else read_document(reduce, "reduce"),
        advice=_advice(audit, need),
    )


def _audited(path: Path) -> dict[str, Any]:
    from rankwise.audit.report import read_report
    from rankwise.report.documents import read_document

    read_document(path, "audit")  # bounded before it is read whole
    return read_report(path).to_json()


def _checked_need(path: Path) -> dict[str, Any]:
    from rankwise.need.document import read_need
    from rankwise.report.documents import read_document

    read_need(path)
    return read_document(path, "need")


def _advice(audit: Path | None, need: Path | None) -> dict[str, Any] | None:
    if audit is None:
        return None
    from rankwise.advise.advice import advice_document, advise
    from rankwise.advise.inputs import situation

    try:
        return advice_document(advise(situation(audit=audit, need=need)))
    except InvalidInputError as error:  # layers of several shapes, or vectors of another dimension than the model's
        said = str(error)
        for path in (audit, need):
            said = said if path is None else said.replace(str(path), path.name)  # the page may travel
        return {"refused": said}


def say_page(path: Path, *, open: bool = False) -> None:
    """The last line of a command, and the browser where asked for."""
    print(path)
    if open:
        open_page(path)


def open_page(path: Path) -> None:
    """The page in the user's browser."""
    import webbrowser

    webbrowser.open(path.resolve().as_uri())
