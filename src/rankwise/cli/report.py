"""``rankwise report``: results, audits and an explorer as one page to look at and to send."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from rankwise.cli.output import print_json, require_target
from rankwise.errors import InvalidInputError


def report(
    store: tyro.conf.Positional[Path | None] = None,
    /,
    *,
    audit: Path | None = None,
    need: Path | None = None,
    reduce: Path | None = None,
    choose: Path | None = None,
    watch: Path | None = None,
    output: Annotated[Path, tyro.conf.arg(aliases=["-o", "--out"])] = Path("report.html"),
    open: bool = False,
    json: bool = False,
) -> None:
    """One self-contained page: rank against error, every run and where its numbers come from, audits, sliders.

    It loads nothing from elsewhere and works from a file, on a phone, in light and dark, by keyboard.

    Example: rankwise report runs --audit audit.json --need need.json -o report.html --open

    Args:
        store: Directory that a sweep, reproduce or demo wrote to.
        audit: What rankwise audit wrote with -o.
        need: What rankwise need wrote with -o.
        reduce: What rankwise reduce printed with --json, or the reduction.json it wrote.
        choose: What rankwise choose wrote with -o.
        watch: What a rankwise.watch.Watch wrote during a training (watch.write(FILE)).
        output: The page to write.
        open: Open the page in the browser.
        json: Print one JSON object (the path, its size, the first numbers) instead of the path.
    """
    if store is audit is need is reduce is choose is watch is None:
        raise InvalidInputError(
            "expected a store, --audit, --need, --reduce, --choose or --watch, got none; rankwise demo makes a store"
        )
    if output.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"-o: expected a file that ends in .html, got {output}")
    require_target("-o", output)
    from rankwise.audit import read_report
    from rankwise.choose import read_choice
    from rankwise.cli.page import page_content, say_page
    from rankwise.need import read_need
    from rankwise.reduce import read_reduction
    from rankwise.report import first_figures, require_page, write_page
    from rankwise.watch import read_watch

    require_page()
    content = page_content(
        store=store,
        audit=None if audit is None else read_report(audit),
        need=None if need is None else read_need(need),
        reduction=None if reduce is None else read_reduction(reduce),
        choice=None if choose is None else read_choice(choose),
        watch=None if watch is None else read_watch(watch),
    )
    path = write_page(content, output)
    if json:
        figures = [asdict(figure) for figure in first_figures(content)]
        print_json({"page": str(path), "bytes": path.stat().st_size, "figures": figures})
        return
    say_page(path, open=open)
