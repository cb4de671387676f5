"""``rankwise audit MODEL``: how much rank a trained model's heads have, and, with texts, what they do with it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rankwise.cli.given_names import given_names
from rankwise.cli.output import print_json, print_line, require_target
from rankwise.cli.progress import shown_progress
from rankwise.errors import InvalidInputError, require_int

if TYPE_CHECKING:
    from rankwise.audit import AttentionReport
    from rankwise.models import ModelSource, Placement


def audit(
    model: tyro.conf.Positional[str],
    other: tyro.conf.Positional[str | None] = None,
    /,
    *,
    config: Path | None = None,
    q: str | None = None,
    k: str | None = None,
    v: str | None = None,
    o: str | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    transposed: bool = False,
    causal: bool = False,
    order: Literal["turn", "head"] | None = None,
    norm: str | None = None,
    download: bool = False,
    text: tuple[Path, ...] = (),
    tokens: Path | None = None,
    length: int | None = None,
    pieces: int | None = None,
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o", "--out"])] = None,
    page: Path | None = None,
    open: bool = False,
    json: bool = False,
) -> None:
    """The ranks of every head's QK and OV forms beside those of random weights; no code of the model is run.

    Example: rankwise audit ./all-MiniLM-L6-v2 -o audit.json

    With texts the model is also run (extra audit; by the source of transformers, never by its own), and the ranks of
    its attention matrices are given beside those of random attention.

    Example: rankwise audit DIR --text README.md

    With two models, what differs head by head: fine-tuned against base, or quantised against full.

    Example: rankwise audit BASE TUNED

    Any other layout by its tensors' names: rankwise audit weights.safetensors --q 'blocks.{layer}.wq'
    --k 'blocks.{layer}.wk' --v 'blocks.{layer}.wv' --o 'blocks.{layer}.wo' --heads 12

    Args:
        model: A folder with config.json and safetensors, a .safetensors file, a .gguf file (extra gguf), or a name on
            the hub (with --download).
        other: A second model of the same shape, compared with the first head by head.
        config: The config.json of a single safetensors file.
        q: Name of the query matrix, {layer} for the layer's number; needs --k and --heads too. A name given for
            --q and --k alike means one matrix with all three, see --order.
        k: Name of the key matrix.
        v: Name of the value matrix.
        o: Name of the output matrix.
        heads: Number of query heads (with --q).
        kv_heads: Number of key and value heads, if fewer (with --q).
        head_dim: Rank of a head, if the matrices do not tell (with --q).
        transposed: The named matrices are stored (in, out) (with --q).
        causal: Tokens of these layers see only what comes before them (with --q); all see all if not given.
        order: Of one matrix with all three (with --q): turn, [all queries, keys, values], or head, head by head.
        norm: Name of the gain of the norm in front, to be folded in (with --q).
        download: Fetch MODEL from the Hugging Face hub if it is no path: owner/name or hf://owner/name.
        text: Text files to run the model on, UTF-8; MODEL must be a folder, a .gguf file, or come by --download.
        tokens: Token ids to run it on instead: JSON, or .npy.
        length: Tokens of a piece of text; 256 if not given.
        pieces: How many pieces of text at most; 8 if not given.
        output: Also write the report as JSON to this file, for advise and report.
        page: The page to look at; its path is the last line (default: named after -o, else audit.html).
        open: Open the page in the browser.
        json: Print the report as one JSON object instead of tables, and write no page.
    """
    from rankwise.cli.page import page_beside, say_page, write_page_of

    page_place = page_beside(page, output, "audit.html")
    for option, file in (("-o", output), ("--page", None if json else page_place)):
        if file is not None:
            require_target(option, file)
    names = given_names(q, k, v, o, heads, kv_heads, head_dim, transposed, causal, order, norm)
    from rankwise.models import open_model, place

    if other is not None:
        if text or tokens is not None:
            raise InvalidInputError("--text, --tokens: expected one model to run, got two to compare")
        first, second = (open_model(one, config=config, download=download) for one in (model, other))
        placements = place(first, names), place(second, names)
        _compare(first, second, placements, output, page_place, open=open, json=json)
        return
    source = open_model(model, config=config, download=download)
    runs = bool(text) or tokens is not None
    for option, value in {"--length": length, "--pieces": pieces}.items():
        if value is not None and not runs:
            raise InvalidInputError(f"{option}: expected texts to cut into pieces (--text FILE), got none")
    try:
        placement = place(source, names)  # mistakes are told before torch is loaded
    except InvalidInputError as error:
        if not runs or names is not None:
            raise
        placement, unknown = None, str(error)  # a model can be run without knowing how its weights are laid out
    run = _ready_to_run(source.path, text, tokens, length, pieces) if runs else None
    from rankwise.audit import audit_weights, report_without_weights

    if placement is None:
        report = report_without_weights(source, unknown)
    else:
        with shown_progress() as progress:
            report = audit_weights(source, placement, progress=progress)
    if output is not None:
        report.write(output)  # before the model is run, so that its failure does not lose the weights' report
    if run is not None:
        report = replace(report, attention=run())
        if output is not None:
            report.write(output)
    if json:
        print_json(report.to_json())
        return
    from rankwise.advise import ModelFiles
    from rankwise.cli.audit_table import print_report

    print_report(report)
    if report.attention is not None:
        from rankwise.cli.attention_table import print_attention

        print_attention(report.attention)
    if report.layers:
        print_line(_what_next(model, text), bold=True)
    files = ModelFiles(model=Path(model), texts=text)
    if (written := write_page_of(page_place, audit=report, files=files)) is not None:
        say_page(written, open=open)


def _compare(
    first: ModelSource,
    second: ModelSource,
    placements: tuple[Placement, Placement],
    output: Path | None,
    page: Path,
    *,
    open: bool,
    json: bool,
) -> None:
    from rankwise.audit import compare_weights

    with shown_progress() as progress:
        comparison = compare_weights(first, second, placements, progress=progress)
    if output is not None:
        comparison.write(output)
    if json:
        print_json(comparison.to_json())
        return
    from rankwise.cli.comparison_table import print_comparison
    from rankwise.cli.page import say_page, write_page_of

    print_comparison(comparison)
    if (written := write_page_of(page, comparison=comparison)) is not None:
        say_page(written, open=open)


def _what_next(model: str, text: tuple[Path, ...]) -> str:
    """Weights bound what a head can do; only a cut that is measured says what can go."""
    known = "What to do: nothing yet. Weights alone do not say what can be taken away;"
    if text:
        command = shlex.join(["rankwise", "advise", "--model", model, "--text", *map(str, text)])
        return f"{known} measure it: {command}"
    return f"{known} rankwise advise with --model and a --text of yours measures it."


def _ready_to_run(
    model: Path, text: tuple[Path, ...], tokens: Path | None, length: int | None, pieces: int | None
) -> Callable[[], AttentionReport]:
    """Loads the model and reads its texts, where mistakes show; what it gives runs them."""
    from rankwise.audit import attention_report, measure_attention
    from rankwise.cli.reading_texts import read_pieces
    from rankwise.models import load_running, run_sanity

    limit = 8 if pieces is None else require_int("--pieces", pieces, minimum=1)
    running = load_running(model)
    read = read_pieces(running, text, tokens, length=length, limit=limit)

    def run() -> AttentionReport:
        with shown_progress() as report:
            sanity = run_sanity(running, read)
            layers = measure_attention(running, read.tokens, progress=report)
        return attention_report(layers, texts=len(read.tokens), source=read.sources, sanity=sanity)

    return run
