"""The look of all figures: colours, markers, sizes, and how they are saved. Matplotlib is imported where it is used.

Matplotlib's object interface only: nothing here opens a window or changes a global setting.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankwise.errors import MissingExtraError
from rankwise.whole_file import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Wong (2011): told apart with any kind of colour vision, and in grey by their markers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
GUIDE = "0.45"  # of lines and words that are not data

_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "rankwise",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Everything drawn inside looks like the other figures; settings outside stay as they are."""
    with _matplotlib().rc_context(_STYLE):
        yield


def require_drawing() -> None:
    """Fail now, with the install line, rather than after minutes of work."""
    _matplotlib()


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches that belongs to no window."""
    _matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def ramp(count: int) -> list[str]:
    """``count`` colours from light to dark for an ordered family of lines, readable in grey too."""
    from matplotlib.colors import to_hex

    colours = _matplotlib().colormaps["viridis_r"]
    return [to_hex(colours(0.12 + 0.88 * step / max(count - 1, 1))) for step in range(count)]


def label_level(axes: Axes, height: float, text: str, *, at: float = 0.99) -> None:
    """A dashed horizontal line with its name just above it, at the fraction ``at`` of the width."""
    axes.axhline(height, color=GUIDE, linewidth=0.9, linestyle="--", zorder=1)
    axes.annotate(
        text,
        (at, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right" if at > 0.5 else "left",
        va="bottom",
        fontsize=8,
        color=GUIDE,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        zorder=5,
    )


def save_figure(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """``stem``.png and ``stem``.svg, the same bytes for the same figure."""
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    with house_style():
        drawn = drawn_bytes(figure, "png"), drawn_bytes(figure, "svg")
    for path, data in zip((png, svg), drawn, strict=True):
        write_whole(path, data)
    return png, svg


def drawn_bytes(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """The figure as a file would hold it, without its date; call it in the house style."""
    made_by = {"Software": "rankwise"} if kind == "png" else {"Date": None, "Creator": "rankwise"}
    out = io.BytesIO()
    figure.savefig(out, dpi=160 if kind == "png" else "figure", format=kind, metadata=made_by)
    return out.getvalue()


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("report", "drawing a figure") from None
    return matplotlib
