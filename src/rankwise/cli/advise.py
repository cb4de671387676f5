"""``rankwise advise``: what rank and how many heads, why, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rankwise.cli.output import console, print_json, short
from rankwise.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankwise.advise import Advice, Resources, Statement, TakenAway
    from rankwise.audit import AuditReport


def advise(
    *,
    model: Path | None = None,
    text: tuple[Path, ...] = (),
    config: str | None = None,
    download: bool = False,
    audit: Path | None = None,
    need: Path | None = None,
    reduce: tuple[Path, ...] = (),
    choose: Path | None = None,
    dim: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    rank: int | None = None,
    value_rank: int | None = None,
    layers: int | None = None,
    length: int | None = None,
    mask: Literal["full", "causal", "window"] | None = None,
    window: int | None = None,
    qk_norm: bool | None = None,
    target: float | None = None,
    dtype: Literal["float32", "bfloat16", "float16", "float8", "int8"] = "bfloat16",
    json: bool = False,
) -> None:
    """What to do about rank and heads: with this trained model (measured), and in the next training (hypotheses).

    Each statement says its reason, how sure it is (theorem, our derivation, heuristic, hypothesis, measurement) and
    what it does not prove. Numbers given here win over those of the files.

    Example: rankwise advise --model DIR --text book.txt

    Example: rankwise advise --audit audit.json --need need.json --reduce reduction.json

    Example: rankwise advise --dim 768 --heads 12 --length 1024

    Args:
        model: A folder or .gguf file, audited here (seconds) unless --audit is given.
        text: With --model: texts on which it is measured here (minutes) what the model loses with half of its cache
            or of its heads' coordinates, and with three quarters where half is too little.
        config: A Hugging Face config.json, the folder that holds it, or a name on the hub.
        download: Fetch the config from the Hugging Face hub if it is no path: owner/name or hf://owner/name.
        audit: What rankwise audit wrote with -o.
        need: What rankwise need wrote with -o; without it the need is that of isotropic data, the worst case.
        reduce: What rankwise reduce printed with --json, instead of --text; of several files the best cut counts.
        choose: What rankwise choose wrote with -o: the best shape of small models trained on your text.
        dim: Model dimension.
        heads: Query heads of a layer.
        kv_heads: Heads with keys and values of their own (default: all).
        rank: Query-key dimension of a head (default: dim / heads).
        value_rank: Value dimension of a head (default: the rank).
        layers: Number of layers.
        length: Tokens of a sequence (default: the model's own, else 1024).
        mask: What a token sees (default: the model's own, else causal).
        window: Width of the window, for --mask window.
        qk_norm: Keys have a norm of their own in each head, as in Qwen3 or Gemma 3.
        target: The error that counts as good enough (default: the need file's, else 0.1).
        dtype: Type of cached keys and values.
        json: Print one JSON object instead of text.
    """
    from rankwise.advise import ModelFiles, advice_document, best_cut, situation, taken_away
    from rankwise.advise import advise as advise_about
    from rankwise.audit import read_report
    from rankwise.choose import read_choice
    from rankwise.models import local_model
    from rankwise.need import read_need
    from rankwise.reduce import read_reduction

    if model is None and text:
        raise InvalidInputError("--text: expected the model to run on it too (--model DIR), got none")
    if model is not None and config is not None:
        raise InvalidInputError("--config: not with --model, which has its own")
    if window is not None and mask not in (None, "window"):
        raise InvalidInputError(f"--window: expected --mask window with it, got --mask {mask}")
    if text and reduce:
        raise InvalidInputError("expected --text, to measure a reduction here, or --reduce FILE, got both")
    audited = None if audit is None else read_report(audit)
    cuts = [taken_away(read_reduction(file)) for file in reduce]
    if model is not None:
        audited = audited or _audited(model)
        cuts += _cuts_here(model, text) if text else []
    advice = advise_about(
        situation(
            config=None if config is None else local_model(config, download=download, config_only=True),
            audit=audited,
            need=None if need is None else read_need(need),
            reduction=best_cut(cuts) if cuts else None,
            choice=None if choose is None else read_choice(choose),
            dim=dim, heads=heads, kv_heads=kv_heads, rank=rank,
            value_rank=value_rank, layers=layers, length=length, mask=mask, window=window, qk_norm=qk_norm,
            target=target, dtype=dtype, files=None if model is None else ModelFiles(model=model, texts=text),
        )
    )  # fmt: skip
    if json:
        print_json(advice_document(advice))
    else:
        print_advice(advice)


_SHARES = (0.5, 0.75)
"""What is kept in turn, until a cut is worth trying."""


def _audited(model: Path) -> AuditReport:
    from rankwise.audit import audit_weights
    from rankwise.cli.progress import shown_progress
    from rankwise.models import open_model, place

    source = open_model(str(model))
    with shown_progress() as progress:
        return audit_weights(source, place(source), progress=progress)


def _cuts_here(model: Path, text: tuple[Path, ...]) -> list[TakenAway]:
    """Measured on the texts, the boldest cut first; none after one that is worth trying."""
    from rankwise.advise import taken_away
    from rankwise.cli.progress import shown_progress
    from rankwise.cli.reduce import divided, pieces_to_run
    from rankwise.models import RunningModel
    from rankwise.reduce import ReductionOptions, Texts, reduce_model

    def read_texts(running: RunningModel) -> Texts:
        return divided(pieces_to_run(running, text, None, None, length=512, limit=48), None, 0, choosing=False)

    found: list[TakenAway] = []
    for keep in _SHARES:
        with shown_progress() as progress:
            report = reduce_model(model, ReductionOptions(keep=keep, context=0), read_texts, progress=progress)
        found.append(taken_away(report))
        if found[-1].affordable:
            break
    return found


def print_advice(advice: Advice) -> None:
    """Everything on stdout; names from files never act as markup."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    of, shape = advice.situation, advice.situation.shape
    sees = f"window of {of.window}" if of.mask == "window" else f"{of.mask} mask"
    out.print(Text(advice.headline, style="bold"))
    out.print(
        Text(
            f"\n{shape.name}: dimension {shape.dim:,}, layers {shape.layers}, {shape.heads} heads of rank {shape.rank} "
            f"each; {of.length:,} tokens, {sees}{', unit keys (QK-norm)' if of.qk_norm else ''}"
        )
    )
    if advice.this_model:
        out.print(Text("\nFor this trained model", style="bold"))
        _print_statements(advice, advice.this_model)
    out.print(Text("\nFor the next training", style="bold"))
    _print_statements(advice, advice.next_training)
    if advice.reconciled is not None:
        out.print(Text("\nHow this fits together", style="bold"))
        out.print(Text(advice.reconciled))
    out.print(Text("\nThe numbers", style="bold"))
    table = Table("what", "rank", "what it is", box=None, padding=(0, 2, 0, 0), header_style="bold")
    if of.need is not None:
        blocks = of.need.blocks
        each = f"{blocks[0].name}" if len(blocks) == 1 else "by block " + ", ".join(str(one.rank) for one in blocks)
        table.add_row(
            "need, measured",
            str(of.need.rank) if len(blocks) == 1 else f"{of.need.least}-{of.need.rank}",
            Text(f"one head alone finds the nearest of {of.need.candidates} keys: {each}"),
        )
    table.add_row(
        "need, isotropic data",
        str(advice.need_isotropic),
        f"{shape.heads} heads cannot reach error {of.target:g} below it if all directions are equally likely "
        "(our derivation, the worst case)",
    )
    table.add_row(
        "plateau",
        str(advice.plateau.value),
        f"random heads have 90 % of the hardmax rank that {of.length:,} tokens allow ({advice.plateau.status})",
    )
    low, high = advice.published_ranks
    near = ", ".join(f"{one.name} {one.heads} x {one.rank} (d {one.dim:,})" for one in advice.published)
    table.add_row("published models", f"{low}-{high}", Text(f"nearest in dimension: {near}"))
    out.print(table)
    out.print(Text(f"Costs now: {_resources(advice.resources, of.cached)}"))
    for note in advice.notes:
        out.print(Text(f"Note: {note}"))


def _print_statements(advice: Advice, statements: Sequence[Statement]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from rankwise.advise import resources_of

    out = console()
    for number, one in enumerate(statements, 1):
        lines = [f"Why: {one.reason}", f"How sure: {one.confidence}. It does not prove {one.does_not_prove}"]
        if one.shapes:
            lines.append(f"Then: {_resources(resources_of(advice, one), advice.situation.cached)}")
        if one.command is not None:
            lines.append(f"Next: {one.command}")
        out.print(Text(f"{number}. {one.what}", style="bold"))
        out.print(Padding(Text("\n".join(lines)), (0, 0, 0, 3), expand=False))


def _resources(of: Resources, cached: bool) -> str:
    counted = (
        f"{short(of.parameters)} attention weights, {short(of.flops_per_token)} floating-point operations of attention "
        f"per token at full length"
    )
    if not cached:
        return f"{counted}; no cache, because nothing is generated"
    if of.kv_bytes is None or of.kv_bytes_per_token is None:
        return f"{counted}; cache of keys and values unknown, because layers differ"
    return (
        f"{counted}; cache of keys and values {short(of.kv_bytes)}B per sequence ({short(of.kv_bytes_per_token)}B per "
        f"token)"
    )
