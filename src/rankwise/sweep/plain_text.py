"""Text from runs and files, made harmless for terminals and spreadsheets."""

from __future__ import annotations

import re

# Colours, cursor movements, titles, links: everything a terminal would act on.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]")


def printable(text: str) -> str:
    """``text`` without escape sequences and control characters; line ends and tabs stay."""
    return "".join(c for c in _ESCAPES.sub("", text) if c.isprintable() or c in "\n\t")


def one_line(text: str, limit: int = 300) -> str:
    """The first line of ``text`` that says something, harmless and short."""
    line = next((line.strip() for line in printable(text).splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."


def spreadsheet_cell(value: object) -> str:
    """``value`` as a CSV cell that no spreadsheet takes for a formula: text that could be one gets a leading quote."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    text = printable(str(value))
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
