"""``rankwise.need``: the rank that vectors need, for arrays in memory, files, or the inputs of a model's attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankwise.api.models import pieces_of, running
from rankwise.api.result import Result, Rows
from rankwise.errors import InvalidInputError, ShapeError
from rankwise.need import NeedReport, NeedSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

_WEIGHTS = (".gguf",)


class Needing(Result):
    """The smallest rank that meets a target, its interval, and the error at every rank; ``report`` holds everything."""

    def __init__(self, report: NeedReport) -> None:
        self.report = report

    @property
    def rank(self) -> int:
        """The need of the most demanding vectors."""
        return self.report.most_demanding.need

    @property
    def interval(self) -> tuple[int, int]:
        """Where it lies with 95 % confidence."""
        return self.report.most_demanding.need_low, self.report.most_demanding.need_high

    @property
    def headline(self) -> str:
        """The need, its interval and the target."""
        from rankwise.cli.need import headline

        measured = self.report.measurements
        return headline(self.report.most_demanding, self.report.settings, len(measured))

    @property
    def rows(self) -> Rows:
        """One row per set of vectors, family of forms and rank."""
        return [
            {"vectors": one.name, "family": family} | asdict(point)
            for one in self.report.measurements
            for family, points in one.curves.items()
            for point in points
        ]

    @property
    def summary(self) -> Rows:
        """One row per set of vectors."""
        return [
            {
                "vectors": one.name,
                "dim": one.dim,
                "need": one.need,
                "95 %": f"{one.need_low}-{one.need_high}",
                "SVD": one.need_svd,
                "PCA": one.need_pca,
                "random": one.need_random,
                "isotropic": one.need_isotropic,
                "participation ratio": one.participation_ratio.keys,
            }
            for one in self.report.measurements
        ]

    def figure(self) -> Figure:
        """Error and recall against rank."""
        from rankwise.report import draw_need

        return draw_need(self.report)

    def to_json(self) -> Mapping[str, Any]:
        """The document of ``rankwise need --json``."""
        return self.report.to_json()

    def page(self, path: Path | str = "need.html") -> Path:
        """The page of ``rankwise need``; needs the extra ``report``."""
        from rankwise.cli.page import page_content
        from rankwise.report import write_page

        return write_page(page_content(need=self.report), Path(path))

    def _print(self) -> None:
        from rankwise.cli.need import print_need

        print_need(self.report)


def need(
    vectors: Any,
    queries: Any = None,
    *,
    tensor: str | None = None,
    query_tensor: str | None = None,
    text: str | Path | Sequence[str | Path] | None = None,
    tokens: Tensor | str | Path | None = None,
    tokenizer: Any = None,
    download: bool = False,
    layers: Sequence[int] = (),
    length: int | None = None,
    pieces: int = 32,
    target: float = 0.1,
    candidates: int = 16,
    similarity: Literal["cosine", "dot"] = "cosine",
    heads: int = 1,
    steps: int = 200,
    seed: int = 0,
) -> Needing:
    """The rank that vectors need: error of nearest-neighbour search against rank; ``rankwise need`` does the same.

    - ``vectors``: The keys, [keys, dim], as a tensor or array; a .npy or .safetensors file of them; or a model (a
      folder, a .gguf file, or a module of ``transformers``) whose attention inputs on ``text`` or ``tokens`` are
      measured, block by block.
    - ``queries``: The same for the queries; without them the keys serve as queries too.
    - ``tensor``: Name of the keys in a file of several tensors.
    - ``query_tensor``: Name of the queries in ``queries``.
    - ``text``: With a model: text files, UTF-8.
    - ``tokens``: With a model: token ids instead, [texts, tokens], or a file of them.
    - ``tokenizer``: With a module in memory and ``text``.
    - ``download``: With a model: fetch a name that is no path from the Hugging Face hub.
    - ``layers``: With a model: only these attention blocks, counted from 0.
    - ``length``: With a model: tokens of a text.
    - ``pieces``: With a model: how many pieces of text at most.
    - ``target``: The error to reach, between 0 and 1.
    - ``candidates``: Keys that a query chooses among.
    - ``similarity``: What near means.
    - ``heads``: Number of heads in the bound for isotropic data that is drawn beside.
    - ``steps``: Steps of training a form; 0 keeps to the SVD.
    - ``seed``: Random seed.
    """
    from rankwise.need import NeedSettings, measure_need, need_report

    settings = NeedSettings(
        target=target, candidates=candidates, similarity=similarity, heads=heads, steps=steps, seed=seed
    )
    if download or _is_model(vectors):
        if text is None and tokens is None:
            raise InvalidInputError("need: expected text or tokens with a model, to have something to run it on")
        from rankwise.models import run_sanity
        from rankwise.need import measure_model_need

        runs = running(vectors, tokenizer, download=download)
        read = pieces_of(runs, text, tokens, length=length, limit=pieces)
        sanity = run_sanity(runs, read)
        found = measure_model_need(runs, read.tokens, settings=settings, blocks=tuple(layers) or None)
        source = NeedSource(
            kind="attention inputs",
            model=runs.name,
            text=read.sources,
            texts=read.tokens.shape[0],
            tokens_each=read.tokens.shape[1],
        )
        return Needing(replace(need_report(found, settings, source), sanity=sanity))
    keys, keys_name, keys_total = _rows_of("vectors", vectors, tensor, seed)
    asking, asking_name, asking_total = (None, None, None)
    if queries is not None:
        asking, asking_name, asking_total = _rows_of("queries", queries, query_tensor, seed)
    measured = measure_need(keys, asking, settings=settings, name=keys_name)
    source = NeedSource(
        kind="vectors",
        keys=keys_name,
        keys_in_file=keys_total,
        queries=asking_name,
        queries_in_file=asking_total,
    )
    return Needing(need_report([measured], settings, source))


def _is_model(given: object) -> bool:
    if isinstance(given, str | Path):
        return Path(given).is_dir() or Path(given).suffix in _WEIGHTS
    return hasattr(given, "state_dict")


def _rows_of(what: str, given: Any, tensor: str | None, seed: int) -> tuple[Tensor, str, int]:
    import torch

    if isinstance(given, str | Path):
        from rankwise.need import read_vectors

        read = read_vectors(Path(given), tensor, seed=seed)
        return read.rows, Path(given).name, read.total
    rows = torch.as_tensor(given).detach().float()
    if rows.ndim != 2:
        raise ShapeError(f"{what}: expected [rows, dim], got {list(rows.shape)}")
    return rows, f"{what} in memory", len(rows)
