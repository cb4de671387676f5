"""``rankwise need``: the smallest rank at which one head can find nearest neighbours among a user's own vectors."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rankwise.cli.output import console, print_json, print_line, require_target
from rankwise.cli.progress import shown_progress
from rankwise.cli.sanity_lines import print_sanity
from rankwise.errors import InvalidInputError, require_int
from rankwise.foreign_file import plain_name
from rankwise.need import NeedSource

if TYPE_CHECKING:
    from rankwise.models import RunSanity
    from rankwise.need import NeedAsked, NeedMeasurement, NeedReport, NeedSettings


def need(
    vectors: tyro.conf.Positional[Path | None] = None,
    /,
    *,
    queries: Path | None = None,
    tensor: str | None = None,
    query_tensor: str | None = None,
    model: str | None = None,
    download: bool = False,
    text: tuple[Path, ...] = (),
    layers: tuple[int, ...] = (),
    length: int | None = None,
    pieces: int | None = None,
    target: float = 0.1,
    candidates: int | None = None,
    similarity: Literal["cosine", "dot"] = "cosine",
    heads: int = 1,
    steps: int = 200,
    seed: int = 0,
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o", "--out"])] = None,
    figure: Path | None = None,
    page: Path | None = None,
    open: bool = False,
    json: bool = False,
) -> None:
    """The rank that your vectors need: error and recall of nearest-neighbour search against rank, measured.

    Keys and queries are held out, the forms are fitted on the others: an SVD weighted by the queries, then trained
    further, PCA, random projections. Isotropic data of the same dimension stand beside it as the worst case. Error 1 is
    a key taken at random, 0 the nearest one.

    Example: rankwise need keys.npy --queries queries.npy --target 0.05 --figure need.png

    Example, for rankwise advise --need need.json: rankwise need --model DIR --text FILE -o need.json

    Args:
        vectors: The keys, one per row: .npy, or .safetensors (see --tensor).
        queries: The queries, in a file of either kind; without it the keys serve as queries too.
        tensor: Name of the keys in a .safetensors file of several tensors (default: keys, or the only one).
        query_tensor: Name of the queries in --queries, or in VECTORS if that is not given.
        model: Instead of VECTORS: a model's folder, a .gguf file or a name on the hub; its attention inputs on --text
            are measured, block by block.
        download: Fetch --model from the Hugging Face hub if it is no path: owner/name or hf://owner/name.
        text: With --model: text files (UTF-8).
        layers: With --model: only these attention blocks, counted from 0.
        length: With --model: tokens of a text; 256 if not given, fewer where the model has no more positions.
        pieces: With --model: how many pieces of text at most; 32 if not given.
        target: The error to reach, between 0 and 1.
        candidates: Keys a query chooses among; more make the search harder (default: the paper's 16, fewer where the
            data have no more).
        similarity: What near means: cosine (lengths do not count) or dot.
        heads: Heads in the isotropic bound that the figure shows.
        steps: Steps of training a form; 0 keeps to the SVD.
        seed: Random seed.
        output: Also write the measurement as JSON to this file, for advise and report.
        figure: Also draw the curves, as PNG at this path.
        page: The page to look at; its path is the last line (default: named after -o, else need.html).
        open: Open the page in the browser.
        json: Print one JSON object (format rankwise-need/1) instead of tables, and write no page.
    """
    from rankwise.cli.page import page_beside, say_page, write_page_of
    from rankwise.need import NeedSettings, need_report

    place = page_beside(page, output, "need.html")
    for option, file in (("-o", output), ("--figure", figure), ("--page", None if json else place)):
        if file is not None:
            require_target(option, file)
    if figure is not None:
        if figure.suffix.lower() != ".png":
            raise InvalidInputError(f"--figure: expected a file that ends in .png, got {figure}")
        from rankwise.report import require_drawing

        require_drawing()
    settings = NeedSettings(
        target=target, candidates=candidates, similarity=similarity, heads=heads, steps=steps, seed=seed
    )  # fmt: skip
    if (vectors is None) == (model is None):
        raise InvalidInputError("expected either a file of vectors or --model DIR --text FILE, got both or neither")
    if model is not None:
        if queries is not None or tensor is not None or query_tensor is not None:
            raise InvalidInputError("--queries, --tensor, --query-tensor: not with --model, whose inputs are measured")
        found, source, sanity = _of_model(model, download, text, layers, length, pieces, settings)
    else:
        sanity = None
        assert vectors is not None
        of_model = {"--text": text or None, "--layers": layers or None, "--length": length, "--pieces": pieces}
        for option in (option for option, value in of_model.items() if value is not None):
            raise InvalidInputError(f"{option}: only with --model, got a file of vectors")
        found, source = _of_vectors(vectors, queries, tensor, query_tensor, settings)
    report = replace(need_report(found, settings, source), sanity=sanity)
    if output is not None:
        report.write(output)
    if figure is not None:
        from rankwise.report import save_need_figure

        save_need_figure(report, figure)
    if json:
        print_json(report.to_json())
        return
    print_need(report, figure)
    print_line(_what_next(report, model, text, output), bold=True)
    if (written := write_page_of(place, need=report)) is not None:
        say_page(written, open=open)


def _what_next(report: NeedReport, model: str | None, text: tuple[Path, ...], output: Path | None) -> str:
    worst = report.most_demanding
    if model is None:
        return (
            f"What to do: give a head that must find the nearest of {worst.candidates} such vectors rank "
            f"{worst.need_high}, the upper end of the interval; measured on held-out vectors."
        )
    measured = [] if output is None else ["--need", str(output)]
    command = shlex.join(["rankwise", "advise", "--model", model, "--text", *map(str, text), *measured])
    return f"What to do: change nothing by the need alone; measure what smaller heads would cost: {command}"


def _of_vectors(
    path: Path, queries: Path | None, tensor: str | None, query_tensor: str | None, settings: NeedSettings
) -> tuple[list[NeedMeasurement], NeedSource]:
    from rankwise.need import measure_need, read_vectors, tensor_names

    query_file = queries if queries is not None else path if query_tensor is not None else None
    if query_file is None and tensor is None and {"keys", "queries"} <= set(tensor_names(path)):
        query_file, query_tensor = path, "queries"
    with shown_progress() as report:
        keys = read_vectors(path, tensor, seed=settings.seed, progress=partial(report, f"reading {path.name}"))
        asking = None
        if query_file is not None:
            read = partial(report, f"reading {query_file.name}")
            asking = read_vectors(query_file, query_tensor, seed=settings.seed, progress=read)
        rows = None if asking is None else asking.rows
        measured = measure_need(keys.rows, rows, settings=settings, name=plain_name(path.name), progress=report)
    return [measured], NeedSource(
        kind="vectors",
        keys=plain_name(Path(keys.name).name),
        keys_in_file=keys.total,
        queries=None if asking is None else plain_name(Path(asking.name).name),
        queries_in_file=None if asking is None else asking.total,
    )


def _of_model(
    model: str,
    download: bool,
    text: tuple[Path, ...],
    layers: tuple[int, ...],
    length: int | None,
    pieces: int | None,
    settings: NeedSettings,
) -> tuple[list[NeedMeasurement], NeedSource, RunSanity]:
    if not text:
        raise InvalidInputError("--model: expected --text FILE with it, to have something to run the model on")
    limit = 32 if pieces is None else require_int("--pieces", pieces, minimum=1)
    from rankwise.cli.reading_texts import read_pieces
    from rankwise.models import load_running, local_model, run_sanity
    from rankwise.need import measure_model_need

    running = load_running(local_model(model, download=download))
    read = read_pieces(running, text, None, length=length, limit=limit)
    sanity = run_sanity(running, read)
    with shown_progress() as report:
        found = measure_model_need(running, read.tokens, settings=settings, blocks=layers or None, progress=report)
    source = NeedSource(
        kind="attention inputs",
        model=running.name,
        text=read.sources,
        texts=read.tokens.shape[0],
        tokens_each=read.tokens.shape[1],
    )
    return found, source, sanity


def print_need(report: NeedReport, figure: Path | None = None) -> None:
    """Everything on stdout; names from files never act as markup."""
    from rich.text import Text

    out = console()
    measurements, settings = report.measurements, report.settings
    worst = report.most_demanding
    out.print(Text(headline(worst, settings, len(measurements)), style="bold"))
    if len(measurements) == 1:
        _print_curve(worst, settings)
    else:
        _print_blocks(measurements)
        least = min(measurements, key=lambda one: one.need)
        out.print(
            Text(
                f"Least demanding: {_short(least.name)} ({least.need}). SVD, PCA, random: the need by such forms; "
                "isotropic: if all directions were equally likely; participation ratio: how many directions the "
                "covariance has, if all counted the same."
            )
        )
    _print_heads(measurements)
    out.print(Text(f"\n{_reading(worst, settings)}"))
    print_sanity(report.sanity)
    for note in dict.fromkeys(note for one in measurements for note in one.notes):
        out.print(Text(f"Note: {note}."))
    if figure is not None:
        out.print(Text(f"Figure: {figure}"))


def headline(one: NeedMeasurement, settings: NeedAsked, count: int) -> str:
    """The need, its interval and the target."""
    where = "" if count == 1 else f" in {_short(one.name)}, the most demanding of {count} blocks"
    return (
        f"Need: rank {one.need} of {one.dim}{where} "
        f"(95 %: {one.need_low} to {one.need_high}), for error {settings.target:g} among {one.candidates} keys"
    )


def _print_curve(one: NeedMeasurement, settings: NeedAsked) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(
        f"  participation ratio {one.participation_ratio.keys:.1f} of the keys, "
        f"{one.participation_ratio.queries:.1f} of the queries"
    )
    out.print(
        f"  need by SVD alone {one.need_svd}, by PCA {one.need_pca}, at random {one.need_random}; "
        f"isotropic data {one.need_isotropic}"
    )
    others = ", ".join(f"{other.candidates} keys {other.need}" for other in one.by_candidates)
    if others:
        out.print(f"  with the same forms and other numbers of candidates: {others}")
    roomy = out.width >= _ROOMY
    table = Table("rank", "best form", "95 %", "recall", "SVD", "PCA")
    for name in ("random", "isotropic", "bound") if roomy else ():
        table.add_column(name)
    bounds = {point.rank: point for point in one.isotropic}
    for best, svd, pca, random in zip(*(one.curves[kind] for kind in ("best", "svd", "pca", "random")), strict=True):
        isotropic = bounds[best.rank]
        spare = (f"{random.error:.4f}", f"{isotropic.error:.4f}", f"{isotropic.bound:.4f}") if roomy else ()
        table.add_row(
            str(best.rank),
            f"{best.error:.4f} {best.form}",
            f"{best.error_low:.4f}-{best.error_high:.4f}",
            f"{best.recall:.3f}",
            f"{svd.error:.4f}",
            f"{pca.error:.4f}",
            *spare,
            style="bold" if best.rank == one.need else None,
        )
    out.print(table)
    beside = (
        f" random: a random projection; isotropic: data with all directions equally likely; bound: the least error of "
        f"{settings.heads} head(s) there among 2 keys, any values."
        if roomy
        else " A wider terminal shows random forms and isotropic data too."
    )
    out.print(
        Text(
            "Columns: error of the best form found (1 = a random key) with its interval, the share of nearest keys "
            f"found (recall), errors of SVD and PCA alone.{beside}"
        )
    )


_ROOMY = 110  # columns of a terminal


def _print_blocks(measurements: Sequence[NeedMeasurement]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("block", "need", "95 %", "SVD", "PCA", "random", "isotropic", "participation\nratio")
    for one in measurements:
        table.add_row(
            Text(_short(one.name)),
            str(one.need),
            f"{one.need_low}-{one.need_high}",
            *(str(getattr(one, f"need_{kind}")) for kind in ("svd", "pca", "random", "isotropic")),
            f"{one.participation_ratio.keys:.1f}",
        )
    console().print(table)


def _short(name: str) -> str:
    """``layer 3`` of ``layer 3 (encoder.layer.3.attention.self)``."""
    return name.split(" (", maxsplit=1)[0]


def _print_heads(measurements: Sequence[NeedMeasurement]) -> None:
    """What the model's own heads need, summed over the heads of each block."""
    shown = [one for one in measurements if one.heads]
    if not shown:
        return
    from rich.table import Table
    from rich.text import Text

    from rankwise.need import SEVERAL, TARGET

    out = console()
    table = Table("block", "rank", "top key", f"top {SEVERAL}", "attention", "least-most")
    table.title = "What the heads' own choices need, mean over a block's heads"
    for one in shown:
        means = (sum(getattr(head, what) for head in one.heads) / len(one.heads) for what in _CRITERIA)
        needs = [head.attention for head in one.heads]
        table.add_row(
            Text(_short(one.name)),
            str(one.heads[0].rank),
            *(f"{mean:.1f}" for mean in means),
            f"{min(needs)}-{max(needs)}",
        )
    every = [head for one in shown for head in one.heads]
    means = (sum(getattr(head, what) for head in every) / len(every) for what in _CRITERIA)
    table.add_row("all", str(every[0].rank), *(f"{mean:.1f}" for mean in means), style="bold")
    out.print(table)
    out.print(
        Text(
            f"Smallest rank at which {TARGET:.0%} of the most attended keys change at most (top key; top {SEVERAL}), "
            f"or attention moves by {TARGET:g} in total variation; the first key is set apart. Least-most: of "
            "attention, over heads. Heads cut to such ranks still attend alike; what the model loses does not follow "
            "from it, and is measured by reduce."
        )
    )


_CRITERIA = ("top", "several", "attention")


def _reading(one: NeedMeasurement, settings: NeedAsked) -> str:
    spread = one.participation_ratio.keys  # 0 where all keys are equal
    beside_spread = (
        ""
        if spread == 0
        else f"The need is {one.need / spread:.2f} times the participation ratio, which summarises the spectrum and "
        "bounds nothing. "
    )
    return (
        f"It means: one head of rank {one.need} can find the nearest of {one.candidates} such keys "
        f"({settings.similarity}) with {settings.target:g} of the error of a random choice; a better form may "
        f"exist, so it is an upper estimate. Isotropic vectors would need {one.need_isotropic}. "
        f"{beside_spread}"
        "It does not mean: that a model's heads do this search, nor that several heads of lower rank cannot share it."
    )
