"""``rankwise.reduce``: a trained model with a smaller cache or smaller heads, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankwise.api.models import pieces_of, running
from rankwise.api.result import Result, Rows
from rankwise.reduce import Reduction

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor, nn

    from rankwise.models import RunningModel, TensorNames
    from rankwise.reduce import Texts

Files = str | Path | Sequence[str | Path]


class Reducing(Result):
    """What is saved, what it costs, whether that is worth it; ``report`` holds everything.

    ``model`` is the reduced model, ready to generate: its cache holds latents.
    """

    def __init__(self, report: Reduction, model: nn.Module, folder: Path | None) -> None:
        self.report, self.model, self.folder = report, model, folder

    @property
    def headline(self) -> str:
        """The verdict."""
        return f"{self.report.model}: {self.report.verdict}"

    @property
    def summary(self) -> Rows:
        """What was counted and measured, before and after."""
        return [
            {"what": what, "original": change.before, "reduced": change.after} for what, change in self.report.changes()
        ]

    @property
    def rows(self) -> Rows:
        """The frontier, one row per method and share, where it was measured; else the summary."""
        from rankwise.report import frontier_rows

        return frontier_rows(self.report) if self.report.frontier else self.summary

    def figure(self) -> Figure:
        """What each layer keeps; with ``frontier=True``, cost against what is kept for all methods."""
        from rankwise.report import draw_frontier, draw_kept, house_style

        if not self.report.frontier:
            return draw_kept(self.report)
        with house_style():
            return draw_frontier(self.report)

    def to_json(self) -> Mapping[str, Any]:
        """The document of ``rankwise reduce --json``."""
        return self.report.to_json()

    def page(self, path: Path | str = "reduction.html") -> Path:
        """The page of ``rankwise reduce``; needs the extra ``report``."""
        from rankwise.cli.page import page_content
        from rankwise.report import write_page

        return write_page(page_content(reduction=self.report), Path(path))

    def _print(self) -> None:
        from rankwise.cli.reduce_table import print_reduction

        print_reduction(self.report, self.folder)


def reduce(
    model: nn.Module | str | Path,
    *,
    keep: float | None = None,
    rank: int | None = None,
    tolerance: float | None = None,
    method: Literal["fisher", "activations", "weights"] = "fisher",
    text: Files = (),
    calibrate: Files = (),
    tokens: Tensor | str | Path | None = None,
    records: str | Path | None = None,
    tokenizer: Any = None,
    download: bool = False,
    length: int = 512,
    pieces: int = 48,
    calibration: int = 16,
    out: str | Path | None = None,
    names: TensorNames | Mapping[str, Any] | None = None,
    **options: Any,
) -> Reducing:
    """Shrink a trained model's attention and say whether it is worth it; ``rankwise reduce`` does the same.

    The reduced model is the result's ``model``. The original stays as it is and shares no memory with it.

    - ``model``: A module of ``transformers`` in memory, a folder with config.json and safetensors, or a .gguf file.
    - ``keep``: Share of the cache (of encoders: of the heads' coordinates) that stays.
    - ``rank``: Instead of ``keep``: the size of every latent, or the rank of every head.
    - ``tolerance``: Instead of ``keep``: the smallest share within this cost.
    - ``method``: Which directions stay.
    - ``text``: Text files to measure on; the first quarter is used for calibration unless ``calibrate`` is given.
    - ``calibrate``: Calibration texts: the directions are chosen on these.
    - ``tokens``: Token ids instead of texts, [texts, tokens], or a file of them.
    - ``records``: Instead of texts: a file with one record per line.
    - ``tokenizer``: The tokenizer of a module in memory (with ``text``, ``calibrate`` or ``records``).
    - ``download``: Fetch a name that is no path from the Hugging Face hub.
    - ``length``: Tokens of a piece of text; longest record.
    - ``pieces``: How many pieces or records at most.
    - ``calibration``: How many pieces of ``calibrate``.
    - ``out``: A new folder for the reduced model.
    - ``names``: Where a layout is not known: the names of its matrices in the module, as in ``rankwise.audit``.
    - ``options``: ``allocation``, ``heal``, ``heal_tokens``, ``context``, ``recall``, ``form`` and ``frontier`` of
      ``ReductionOptions``.
    """
    from rankwise.cli.reduce import divided, pieces_to_run
    from rankwise.models import TensorNames
    from rankwise.reduce import MaskedPieces, ReductionOptions, reduced

    mapped = TensorNames(**names) if isinstance(names, Mapping) else names
    asked = ReductionOptions(keep=keep, rank=rank, tolerance=tolerance, method=method, names=mapped, **options)
    measured_on, taught_by = _paths(text), _paths(calibrate)
    lines = None if records is None else Path(records)

    def read_texts(runs: RunningModel) -> Texts:
        if tokens is None or isinstance(tokens, str | Path):
            ids = None if tokens is None else Path(tokens)
            measuring = pieces_to_run(runs, measured_on, ids, lines, length=length, limit=pieces)
        else:
            read = pieces_of(runs, measured_on or records, tokens, length=length, limit=pieces)
            measuring = MaskedPieces(read.tokens, read.sources)
        teaching = pieces_to_run(runs, taught_by, None, None, length=length, limit=10**6) if taught_by else None
        return divided(measuring, teaching, calibration, choosing=tolerance is not None)

    given = bool(measured_on) or tokens is not None or lines is not None
    folder = None if out is None else Path(out)
    done = reduced(running(model, tokenizer, download=download), asked, read_texts if given else None, out=folder)
    return Reducing(done.report, done.model, folder)


def _paths(files: Files) -> tuple[Path, ...]:
    return (Path(files),) if isinstance(files, str | Path) else tuple(Path(file) for file in files)
