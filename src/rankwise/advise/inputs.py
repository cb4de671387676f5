"""What is known about a model before advice is given: its shape, how it is used, what was measured."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from pathlib import Path

from rankwise.advise.audited_layers import audited_shape, counted_layers, differing_windows, widest_mask
from rankwise.advise.commands import ModelFiles
from rankwise.advise.measured_need import MeasuredNeed
from rankwise.advise.removal import TakenAway
from rankwise.audit import LATENT_NOTE, AuditReport
from rankwise.choose import Choice
from rankwise.errors import InvalidInputError, require_int
from rankwise.need import NeedReport
from rankwise.shapes import ModelShape, context_length, generates, read_config
from rankwise.spec import read_json_object
from rankwise.theory import visible_reach

_DEFAULT_TARGET = 0.1
_DEFAULT_LENGTH = 1024


@dataclass(frozen=True, kw_only=True)
class AuditSummary:
    """What the weights say: medians over all heads of the rank that holds 90 % of QK's energy, and random weights'."""

    model: str
    heads: int
    energy_90: float
    energy_90_random: float
    redundant_pairs: int


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A model's shape and its use."""

    shape: ModelShape
    """Sizes of the model."""
    length: int
    """How many tokens the model sees."""
    mask: str
    """Of the layers that see most, as is ``window``."""
    window: int | None
    """A query sees tokens at distances below it; None: at any distance."""
    windows: tuple[int | None, ...] = ()
    """Every layer's window where they differ, None for a layer without; else empty."""
    qk_norm: bool
    """Whether queries and keys are normalised."""
    target: float
    """The error asked for."""
    dtype: str
    """Of cached keys and values."""
    need: MeasuredNeed | None
    """None where it was not measured."""
    audit: AuditSummary | None
    """None where the weights were not audited."""
    reduction: TakenAway | None = None
    """A measured cut of this model, None where none was given."""
    choice: Choice | None = None
    """What small models trained on one's own text found, None where none was given."""
    cached: bool = True
    """Whether keys and values are kept between tokens, as in models that generate; an encoder keeps none."""
    files: ModelFiles | None = None
    """Where the model and texts lie, for the commands that are named; None where that was not said."""
    assumed: tuple[str, ...]
    """What is assumed because it was not given, in words."""

    @property
    def trained(self) -> bool:
        """Whether there is a trained model to speak of, or only the sizes of one."""
        return self.audit is not None or self.reduction is not None

    @property
    def reach(self) -> float | None:
        """How many tokens a query sees, the mean over layers; None for all."""
        if self.windows:
            return statistics.fmean(self.length if one is None else min(self.length, one) for one in self.windows)
        return visible_reach(self.length, self.mask, self.window)


def situation(
    *,
    config: Path | None = None,
    audit: AuditReport | None = None,
    need: NeedReport | None = None,
    reduction: TakenAway | None = None,
    choice: Choice | None = None,
    dim: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    rank: int | None = None,
    value_rank: int | None = None,
    layers: int | None = None,
    length: int | None = None,
    mask: str | None = None,
    window: int | None = None,
    qk_norm: bool | None = None,
    target: float | None = None,
    dtype: str = "bfloat16",
    files: ModelFiles | None = None,
) -> Situation:
    """What was measured first, then the numbers given, which win; contradictions between measurements are errors."""
    measured = None if need is None else MeasuredNeed.of(need)
    assumed: list[str] = []
    read = _shape_of_files(config, audit)
    if audit is not None and read is not None:
        for name, asked, has in (("rank", rank, read.rank), ("value_rank", value_rank, read.value_rank)):
            if asked is not None and asked > has:
                raise InvalidInputError(
                    f"{name}: expected at most {has}, that of the audited heads, got {asked}; "
                    f"for another shape leave the audit out"
                )
    shape = _with_numbers(read, measured, dim, heads, kv_heads, rank, value_rank, layers, assumed)
    if measured is not None and measured.dim != shape.dim:
        raise InvalidInputError(
            f"need: expected one measured in the model's dimension {shape.dim}, got vectors of {measured.dim}"
        )
    if reduction is not None and reduction.original_rank != shape.rank:
        raise InvalidInputError(
            f"reduction: expected one of this model, whose heads have rank {shape.rank}, got heads of rank "
            f"{reduction.original_rank}"
        )
    stated = None if config is None else read_json_object(config / "config.json" if config.is_dir() else config)
    audited = () if audit is None else counted_layers(audit)
    windows: tuple[int | None, ...] = ()
    if mask is None and window is not None:
        mask = "window"
    elif mask is None and audited:
        (mask, window), windows = widest_mask(audited), differing_windows(audited)
    elif mask is None:
        mask = "full" if stated is not None and not generates(stated) else "causal"
        if stated is None:
            assumed.append("a causal mask (--mask)")
    elif mask == "window" and window is None:
        window = max((layer.window for layer in audited if layer.window is not None), default=None)
    if length is None:
        length = None if stated is None else context_length(stated)
    if length is None and audit is not None:
        length = audit.context_length
    if length is None:
        length = _DEFAULT_LENGTH
        assumed.append(f"{_DEFAULT_LENGTH} tokens per sequence (--length)")
    if qk_norm is None:
        normed = sum(layer.qk_norm for layer in audited)
        qk_norm = bool(audited) and normed == len(audited)
        if 0 < normed < len(audited):
            assumed.append(f"no QK-norm, which {normed} of {len(audited)} layers have (--qk-norm)")
    made = Situation(
        shape=shape,
        length=require_int("length", length, minimum=1),
        mask=mask,
        window=window,
        windows=windows,
        qk_norm=qk_norm,
        target=_target(target, measured),
        dtype=dtype,
        need=measured,
        audit=None if audit is None else _summary(audit),
        reduction=reduction,
        choice=choice,
        cached=mask != "full",
        files=files,
        assumed=tuple(assumed),
    )
    visible_reach(made.length, mask, window)  # says now what is wrong with the mask
    return made


def _shape_of_files(config: Path | None, report: AuditReport | None) -> ModelShape | None:
    read = None if config is None else read_config(config)
    if report is None:
        return read
    audited = audited_shape(report)
    if read is None:
        notes = counted_layers(report)[0].notes
        if audited.latent is None and any(note.startswith(LATENT_NOTE) for note in notes):
            raise InvalidInputError(
                f"{report.model}: expected the sizes of its latent attention, without which costs are not known, got "
                f"an audit from before they were kept; add --config FILE or audit the model again"
            )
        return audited
    for what in ("dim", "heads", "rank"):
        if getattr(read, what) != getattr(audited, what):
            raise InvalidInputError(
                f"{what}: the config says {getattr(read, what)}, the audited weights {getattr(audited, what)}; "
                f"are they of one model?"
            )
    return read


def _with_numbers(
    read: ModelShape | None,
    measured: MeasuredNeed | None,
    dim: int | None,
    heads: int | None,
    kv_heads: int | None,
    rank: int | None,
    value_rank: int | None,
    layers: int | None,
    assumed: list[str],
) -> ModelShape:
    given = {"dim": dim, "heads": heads, "kv_heads": kv_heads, "rank": rank, "value_rank": value_rank, "layers": layers}
    for name, value in given.items():
        if value is not None:
            require_int(name, value, minimum=1)
    if read is not None and read.latent is not None and any(value is not None for value in given.values()):
        raise InvalidInputError("--dim, --heads, --rank, ...: not with latent attention; edit a copy of the config")
    dim = dim or (read.dim if read else measured.dim if measured else None)
    heads = heads or (read.heads if read else None)
    if dim is None or heads is None:
        raise InvalidInputError(
            "expected a model: --config FILE, --audit FILE, or --dim and --heads (and --rank where it is not dim/heads)"
        )
    if rank is None:
        rank = read.rank if read else _standard_rank(dim, heads)
    if kv_heads is None:
        kv_heads = heads if read is None or read.kv_heads == read.heads else read.kv_heads
    if heads % kv_heads:
        raise InvalidInputError(f"kv_heads: expected a divisor of the {heads} heads, got {kv_heads}")
    if layers is None and read is None:
        assumed.append("one layer (--layers)")
    if read is None:
        count = layers or 1
        return ModelShape(
            name="your model", dim=dim, layers=count, cached_layers=count, heads=heads, kv_heads=kv_heads,
            rank=rank, value_rank=value_rank or rank,
        )  # fmt: skip
    return replace(
        read,
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        rank=rank,
        value_rank=value_rank or (read.value_rank if rank == read.rank else rank),
        layers=layers or read.layers,
        cached_layers=layers or read.cached_layers,
    )


def _standard_rank(dim: int, heads: int) -> int:
    if dim % heads:
        raise InvalidInputError(f"rank: expected the number, because {heads} heads do not divide the dimension {dim}")
    return dim // heads


def _target(target: float | None, measured: MeasuredNeed | None) -> float:
    if measured is not None and target is not None and target != measured.target:
        raise InvalidInputError(
            f"target: the need was measured for {measured.target:g}, got {target:g}; measure again with "
            f"rankwise need ... --target {target:g}, or leave it out"
        )
    chosen = target if target is not None else measured.target if measured is not None else _DEFAULT_TARGET
    if measured is None and not 0 < chosen <= 0.5:
        raise InvalidInputError(f"target: expected an error in (0, 1/2] (1/2 needs no head), got {chosen:g}")
    return chosen


def _summary(report: AuditReport) -> AuditSummary:
    heads = [
        (head.qk.energy_90, layer.qk_baseline.energy_90.mean) for layer in report.layers for head in layer.head_reports
    ]
    return AuditSummary(
        model=report.model,
        heads=len(heads),
        energy_90=statistics.median(own for own, _ in heads),
        energy_90_random=statistics.median(random for _, random in heads),
        redundant_pairs=sum(pair.redundant for layer in report.layers for pair in layer.overlaps),
    )
