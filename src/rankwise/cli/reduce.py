"""``rankwise reduce MODEL --rank K|auto``: what a trained model loses when its heads get smaller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from rankwise.cli.output import console, print_json, require_target
from rankwise.errors import InvalidInputError


def reduce(
    model: tyro.conf.Positional[Path],
    *,
    rank: str,
    value_rank: int | None = None,
    tolerance: float = 0.01,
    method: Literal["activations", "weights"] | None = None,
    text: tuple[Path, ...] = (),
    tokens: Path | None = None,
    length: int = 128,
    pieces: int = 64,
    curve: bool = True,
    sensitivity: bool = True,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    figure: Path | None = None,
    json: bool = False,
) -> None:
    """Cut every head's query-key form to a smaller rank and measure what that costs; the original is only read.

    Example: rankwise reduce ./all-MiniLM-L6-v2 --rank auto --text README.md manual.txt --out smaller

    Without texts heads are cut by their weights alone, and nothing is measured. With texts (extra audit) a quarter of
    their pieces teaches which directions matter, the rest measures: loss of language models, agreement of embeddings
    of sentence encoders.

    Args:
        model: A folder with config.json and safetensors, or a .gguf file (extra gguf).
        rank: The rank of each head, or auto for the smallest whose cost is within --tolerance.
        value_rank: Also cut each head's output-value map, to this rank.
        tolerance: Largest cost for auto: nats a token, or 1 - cosine of embeddings.
        method: Which directions stay: by activations (with texts) or by weights alone.
        text: Text files, UTF-8.
        tokens: Token ids instead: JSON, or .npy.
        length: Tokens of a piece of text.
        pieces: How many pieces at most.
        curve: Measure a range of ranks, both ways of cutting.
        sensitivity: Measure each layer cut alone.
        out: A new folder for the cut model: old shape and format, and factored/ for rankwise.nn layers.
        figure: Also draw the curve: this name with .png, .svg and .csv (extra report).
        json: Print one JSON object instead of tables.
    """
    wanted = _wanted(rank)
    if figure is not None:
        require_target("--figure", figure.with_suffix(".png"))
        from rankwise.report.figures import require_drawing

        if not curve or not (text or tokens is not None):
            raise InvalidInputError("--figure: expected a curve to draw, got no texts or --no-curve")
        require_drawing()
    from rankwise.cli.progress import shown_progress
    from rankwise.cli.reading_texts import read_pieces
    from rankwise.models.running.model import RunningModel
    from rankwise.reduce.reduction import ReductionOptions, SplitTexts, reduce_model, split_texts

    options = ReductionOptions(
        rank=wanted,
        value_rank=value_rank,
        method=method,
        tolerance=tolerance,
        curve=curve,
        sensitivity=sensitivity,
    )

    def read_texts(running: RunningModel) -> SplitTexts:
        read = read_pieces(running, text, tokens, length=length, limit=pieces)
        return split_texts(read.tokens, read.sources)

    with shown_progress() as progress:
        given = read_texts if text or tokens is not None else None
        document = reduce_model(model, options, given, out=out, progress=progress)
    if figure is not None:
        _draw(document, figure)
    if json:
        print_json(document)
    else:
        _print(document, out)


def _wanted(rank: str) -> int | None:
    if rank == "auto":
        return None
    try:
        return int(rank)
    except ValueError:
        raise InvalidInputError(f"--rank: expected a whole number or auto, got {rank!r}") from None


def _draw(document: dict[str, Any], stem: Path) -> None:
    from rankwise.report.figures import house_style, save_figure
    from rankwise.report.reduction import draw_reduction
    from rankwise.sweep.results import to_csv
    from rankwise.whole_file import write_whole

    with house_style():
        drawn = draw_reduction(document)
    save_figure(drawn, stem)
    write_whole(stem.with_name(f"{stem.name}.csv"), to_csv(document["curve"]).encode())


def _print(document: dict[str, Any], out_folder: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    for line in _headline(document):
        out.print(Text(line), style="bold", soft_wrap=True)
    rows = sorted({point["rank"] for point in document["curve"]}, reverse=True)
    if rows:
        measures = [key for key in document["curve"][0] if key not in ("method", "rank", "lost_scores", "cost")]
        by = {(point["method"], point["rank"]): point for point in document["curve"]}
        methods = sorted({point["method"] for point in document["curve"]})
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("rank", justify="right")
        for method in methods:
            for measure in ("cost", "scores lost", *measures):
                table.add_column(f"{method}\n{measure.replace('_', ' ')}", justify="right")
        for rank in rows:
            cells = [f"{rank}{' *' if rank == document['rank'] else ''}"]
            for method in methods:
                point = by.get((method, rank))
                keys = ("cost", "lost_scores", *measures)
                cells += ["-"] * len(keys) if point is None else [f"{point[key]:.4f}" for key in keys]
            table.add_row(*map(Text, cells))
        out.print(table)
    for line in _details(document, out_folder):
        out.print(Text(line), soft_wrap=True)


def _headline(document: dict[str, Any]) -> list[str]:
    saved, cache = (document["savings"][key] for key in ("attention_parameters", "kv_cache_bytes_per_token"))
    cut = f"{document['model']}: heads of rank {document['rank']} instead of {document['original_rank']}"
    cost = document["cost"]
    told = "cost not measured (no texts)" if cost is None else f"cost {cost['cost']:.4g} ({document['cost_unit']})"
    return [
        f"{cut}: {told}.",
        f"As factors: attention parameters {saved['before']:,} -> {saved['after']:,}, "
        f"keys and values of a token {cache['before']:,} -> {cache['after']:,} bytes.",
    ]


def _details(document: dict[str, Any], out_folder: Path | None) -> list[str]:
    lines = [""]
    alone = sorted(document["sensitivity"], key=lambda point: -point["cost"])
    if alone:
        lines.append(
            "Cut alone, dearest first: " + "; ".join(f"{point['layer']} {point['cost']:.4g}" for point in alone[:5])
            + f"; cheapest {alone[-1]['layer']} {alone[-1]['cost']:.4g}."
        )  # fmt: skip
    dropped = [layer for layer in document["layers"] if layer["dropped_pairs"]]
    if dropped:
        first = dropped[0]
        shown = ", ".join(map(str, first["dropped_pairs"][0]))
        lines.append(
            f"Rotary positions: whole pairs were dropped, for each key head its own (all in --json); {first['layer']}, "
            f"key head 0, lost pairs {shown} (0 turns fastest)."
        )
    if document["texts"] is not None:
        texts = document["texts"]
        lines.append(
            f"Texts: {', '.join(texts['source'])}; pieces of {texts['tokens']} tokens, {texts['calibration']} to find "
            f"directions, {texts['evaluation']} others to measure. On other texts the cost differs."
        )
    lines += [f"Untouched: {item['what']}: {item['reason']}." for item in document["untouched"]]
    lines += [
        f"Not factored: {layer['layer']}: {layer['not_factored']}."
        for layer in document["layers"]
        if layer["not_factored"]
    ]
    if document["written"] is not None:
        lines.append(f"Written: {out_folder} (old shape), {out_folder}/factored (rankwise.nn), reduction.json.")
    return lines
