"""``rankwise reduce MODEL --keep SHARE``: a trained model with a smaller cache or smaller heads, and a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from rankwise.cli.given_names import given_names
from rankwise.cli.output import print_json, require_figure_name, require_target
from rankwise.errors import InvalidInputError, require_int

if TYPE_CHECKING:
    from rankwise.models import RunningModel
    from rankwise.reduce import MaskedPieces, Reduction, Texts


def reduce(
    model: tyro.conf.Positional[str],
    *,
    keep: float | None = None,
    rank: int | None = None,
    tolerance: float | None = None,
    method: Literal["fisher", "activations", "weights"] = "fisher",
    uniform: bool = False,
    text: tuple[Path, ...] = (),
    calibrate: tuple[Path, ...] = (),
    tokens: Path | None = None,
    records: Path | None = None,
    length: int = 512,
    pieces: int = 48,
    every: int = 1,
    calibration: int = 16,
    heal: float = 0.0,
    heal_tokens: int = 0,
    context: int = 1024,
    recall: bool = True,
    format: Literal["latents", "mla"] = "latents",
    frontier: bool = False,
    q: str | None = None,
    k: str | None = None,
    v: str | None = None,
    o: str | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    transposed: bool = False,
    order: Literal["turn", "head"] | None = None,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    download: bool = False,
    figure: Path | None = None,
    page: Path | None = None,
    open: bool = False,
    json: bool = False,
) -> None:
    """Shrink a trained model's attention and say whether it is worth it; the original is only read.

    Example: rankwise reduce SmolLM2.gguf --keep 0.5 --text book.txt --out smaller

    Decoders get one latent for keys and values per layer, which the cache of generation holds instead of them.
    Encoders get fewer coordinates per head. Part of the texts is used for calibration; the cost is measured on
    others. Load the result with rankwise.load_reduced("smaller"). With --out, --figure or --page, the same command
    continues after an interruption.

    Args:
        model: A folder with config.json and safetensors, a .gguf file (extra gguf), or a name on the hub (with
            --download).
        keep: Share of the cache (of encoders: of the heads' coordinates) that stays.
        rank: Instead of --keep: the size of every latent, or the rank of every head.
        tolerance: Instead of --keep: the smallest share that costs at most this percentage of perplexity or neighbours.
        method: Which directions stay: by what they do to the loss, by activations, or by weights alone (no texts).
        uniform: The same share in every layer and head, not more where it is worth more.
        text: Text files, UTF-8, to measure on; the first quarter is used for calibration unless --calibrate is given.
        calibrate: Calibration texts: the directions are chosen on these.
        tokens: Token ids instead of texts: JSON, or .npy.
        records: Instead of --text: a file with one record per line; whole sequences, padded and masked.
        length: Tokens of a piece of text; longest record.
        pieces: How many pieces or records at most.
        every: Use every N-th piece of --text.
        calibration: How many pieces of --calibrate, spread evenly over it.
        heal: Minutes to train the new factors against the original model, on the calibration texts.
        heal_tokens: Instead of --heal: how many tokens to train them on, with the same result on every run.
        context: Tokens before generation is measured; 0 leaves it out.
        recall: Leave out the test of copying from the context.
        format: What --out holds: latents, for rankwise.load_reduced, or a DeepSeek-V2 that transformers loads alone.
        frontier: Also measure all three methods at 75, 50, 37.5 and 25 % kept.
        q: Name of the query matrix in the loaded model, {layer} for the layer's number; needs --k, --v, --o and
            --heads too. For layouts that are refused. Norms and positions stay where the model has them.
        k: Name of the key matrix.
        v: Name of the value matrix.
        o: Name of the output matrix.
        heads: Number of query heads (with --q).
        kv_heads: Number of key and value heads, if fewer (with --q).
        head_dim: Rank of a head, if the matrices do not tell (with --q).
        transposed: The named matrices are stored (in, out) (with --q).
        order: Of one matrix with all three (with --q): turn, [all queries, keys, values], or head, head by head.
        out: A new folder for the reduced model.
        download: Fetch MODEL from the Hugging Face hub if it is no path: owner/name or hf://owner/name.
        figure: Also draw the frontier: this name with .png, .svg and .csv (extra report; needs --frontier).
        page: Also write a page (extra report).
        open: Open the page in the browser.
        json: Print one JSON object instead of tables.
    """
    _require_targets(figure, page, frontier)
    from rankwise.cli.progress import shown_progress
    from rankwise.models import local_model
    from rankwise.reduce import ReductionOptions, reduce_model

    options = ReductionOptions(
        keep=keep, rank=rank, tolerance=tolerance, method=method, allocation="uniform" if uniform else "allocated",
        heal=heal, heal_tokens=heal_tokens, context=context, recall=recall, form=format, frontier=frontier,
        names=given_names(q, k, v, o, heads, kv_heads, head_dim, transposed, causal=False, order=order),
    )  # fmt: skip
    require_int("--every", every, minimum=1)
    require_int("--calibration", calibration, minimum=1)

    def read_texts(running: RunningModel) -> Texts:
        measuring = pieces_to_run(running, text, tokens, records, length=length, limit=pieces, every=every)
        teaching = pieces_to_run(running, calibrate, None, None, length=length, limit=10**6) if calibrate else None
        return divided(measuring, teaching, calibration, choosing=tolerance is not None)

    given = bool(text) or tokens is not None or records is not None
    if calibrate and not given:
        raise InvalidInputError("--calibrate: expected texts to measure on too (--text FILE), got none")
    changed = {"--length": length != 512, "--pieces": pieces != 48, "--every": every != 1, "--frontier": frontier}
    for option in (option for option, asked in changed.items() if asked and not given):
        raise InvalidInputError(f"{option}: expected texts to measure on (--text FILE), got none")
    if calibration != 16 and not calibrate:
        raise InvalidInputError(
            "--calibration: expected --calibrate FILE, whose pieces it counts, got none; without it the first quarter "
            "of --text is used"
        )
    place = local_model(model, download=download)
    with shown_progress() as progress:
        read = read_texts if given else None
        report = reduce_model(place, options, read, out=out, beside=figure or page, progress=progress)
    if figure is not None:
        _draw(report, figure.with_suffix(""))
    if json:
        print_json(report.to_json())
    else:
        from rankwise.cli.reduce_table import print_reduction

        print_reduction(report, out)
    if page is not None:
        from rankwise.cli.page import page_content, say_page
        from rankwise.report import write_page

        written = write_page(page_content(reduction=report), page)
        if not json:  # whose output is one object
            say_page(written, open=open)


def _require_targets(figure: Path | None, page: Path | None, frontier: bool) -> None:
    if figure is not None:
        if not frontier:
            raise InvalidInputError("--figure: expected a frontier to draw (--frontier), got none")
        require_figure_name(figure)
        require_target("--figure", figure.with_suffix(".png"))
        from rankwise.report import require_drawing

        require_drawing()
    if page is not None:
        require_target("--page", page)
        from rankwise.report import require_page

        require_page()


def pieces_to_run(
    running: RunningModel,
    text: tuple[Path, ...],
    tokens: Path | None,
    records: Path | None,
    *,
    length: int,
    limit: int,
    every: int = 1,
) -> MaskedPieces:
    """The pieces of texts, or the whole records."""
    from rankwise.cli.reading_texts import read_pieces
    from rankwise.reduce import MaskedPieces, read_records

    if records is not None:
        if text or tokens is not None:
            raise InvalidInputError("expected one of --text, --tokens and --records, got several")
        return read_records(records, running, length=length, limit=limit)
    longest = running.longest
    wanted = length if longest is None else min(length, longest)
    read = read_pieces(running, text, tokens, length=wanted, limit=limit * every)
    return MaskedPieces(read.tokens[::every], read.sources, used=read.used / every)


def divided(measuring: MaskedPieces, teaching: MaskedPieces | None, calibration: int, *, choosing: bool) -> Texts:
    """Pieces that teach, choose and measure; where none only teach, the first quarter does, and an eighth chooses.

    - ``calibration``: how many of ``teaching``, spread evenly, directions are learned on; healing reads all of it but
      what chooses.
    """
    from rankwise.reduce import Texts

    if teaching is not None:
        count = min(calibration, len(teaching))
        spread = [int((at + 0.5) * len(teaching) / count) for at in range(count)]
        choice = [one for one in range(len(teaching)) if one not in spread][::4] if choosing else []
        if choosing and not choice:
            raise InvalidInputError(
                f"--calibrate: expected more than {calibration} pieces (--calibration), some to choose the share, got "
                f"{len(teaching)}"
            )
        healing = teaching.pick([one for one in range(len(teaching)) if one not in choice])
        return Texts(teaching.pick(spread), teaching.pick(choice) if choosing else None, measuring, healing)
    first = max(1, len(measuring) // 4)
    second = first + (max(1, len(measuring) // 8) if choosing else 0)
    if len(measuring) - second < 1:
        raise InvalidInputError(
            f"texts: expected at least {second + 1} pieces (to teach, to choose, to measure), got {len(measuring)}; "
            f"give more text or a smaller --length"
        )
    return Texts(measuring[:first], measuring[first:second] if choosing else None, measuring[second:])


def _draw(report: Reduction, stem: Path) -> None:
    from rankwise.report import draw_frontier, frontier_rows, house_style, save_figure
    from rankwise.sweep import to_csv
    from rankwise.whole_file import write_whole

    with house_style():
        drawn = draw_frontier(report)
    save_figure(drawn, stem)
    write_whole(stem.with_name(f"{stem.name}.csv"), to_csv(frontier_rows(report)).encode())
