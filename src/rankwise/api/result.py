"""A result to look at: as text, as HTML in a notebook, as a pandas frame, as a figure, as the document of a command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.cli.output import json_text, printed
from rankwise.errors import RankwiseError
from rankwise.whole_file import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]
"""A table: one mapping from column to value per row."""


class Result(ABC):
    """What a function of the API returns; its text is what the command of that name prints."""

    @property
    @abstractmethod
    def rows(self) -> Rows:
        """Every number, one row per thing that was measured."""

    @property
    @abstractmethod
    def summary(self) -> Rows:
        """A table that fits a screen."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The number that matters, in one or two sentences."""

    @abstractmethod
    def figure(self) -> Figure:
        """The result drawn; needs the extra ``report``."""

    @abstractmethod
    def to_json(self) -> Mapping[str, Any]:
        """The document that the command prints with ``--json``."""

    @abstractmethod
    def _print(self) -> None:
        """What the command prints, on stdout."""

    def write(self, path: Path | str) -> Path:
        """The document as a JSON file, as the command writes it with ``-o``."""
        return write_whole(Path(path), json_text(self.to_json()).encode())

    def to_pandas(self) -> Any:
        """``rows`` as a ``pandas.DataFrame``, where pandas is installed."""
        try:
            import pandas  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise MissingPandasError from None
        return pandas.DataFrame(list(self.rows))

    def __repr__(self) -> str:
        return printed(self._print).rstrip()

    def _repr_html_(self) -> str:
        columns = list(self.summary[0]) if self.summary else []
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_cell(row[column]))}</td>" for column in columns) + "</tr>"
            for row in self.summary
        )
        sentences = "".join(f"<p><b>{escape(line)}</b></p>" for line in self.headline.splitlines())
        return f"{sentences}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class MissingPandasError(RankwiseError, ImportError):
    """``to_pandas`` without pandas."""

    def __init__(self) -> None:
        super().__init__("to_pandas: expected pandas to be installed, got none; pip install pandas, or use .rows")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
