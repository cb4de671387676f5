"""``rankwise reduce`` from beginning to end: calibrate, cut, choose, measure, heal, judge, write.

Three sorts of texts that never mix: those for calibration (and healing), those that choose a share, those that
measure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rankwise.errors import InvalidInputError
from rankwise.models import RunningModel, load_running
from rankwise.progress import Progress, silent
from rankwise.reduce.bottleneck import Metric
from rankwise.reduce.calibration import Samples, collect
from rankwise.reduce.cost import ModelReading, cost_of, measure_pieces
from rankwise.reduce.cutting import (
    Cut,
    Directions,
    Installed,
    budget,
    cut_model,
    cut_to,
    find_directions,
    find_metrics,
    require_possible,
    round_factors,
)
from rankwise.reduce.document import CostReport, FrontierPoint, HealingReport, Reduction
from rankwise.reduce.expected_time import expected_minutes
from rankwise.reduce.generation import compare_generation
from rankwise.reduce.healing import heal, tokens_within
from rankwise.reduce.linear_modules import replaced
from rankwise.reduce.methods import METHODS, MethodName
from rankwise.reduce.mla_modules import mla_plan, require_mla
from rankwise.reduce.mla_shape import best_shape, mla_directions
from rankwise.reduce.options import FRONTIER_SHARES, ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.probing import runnable_sites
from rankwise.reduce.recall import copy_accuracies, recall_reports
from rankwise.reduce.saved import ready_to_use, require_new, save_reduced, storage_of, use_fast_attention
from rankwise.reduce.sites import Sites, attention_sites
from rankwise.reduce.summary import Measured, parameter_count, readme_of, summary
from rankwise.reduce.work_folder import keep_reading, kept_reading, work_folder

_CHOICES = tuple(share / 20 for share in range(1, 20))


@dataclass(frozen=True)
class Texts:
    """Pieces by what they are for; those of ``evaluation`` are in no other part."""

    calibration: MaskedPieces
    """For calibration: directions are chosen on these."""
    selection: MaskedPieces | None
    """That choose a share; None where nothing is chosen."""
    evaluation: MaskedPieces
    """That measure."""
    healing: MaskedPieces | None = None
    """That the new factors are trained on: all that teach; None: those of ``calibration``."""


@dataclass(frozen=True)
class Reduced:
    """A reduced model and what it costs."""

    model: nn.Module
    """Ready to generate, as ``load_reduced`` returns it; of a model in memory in its type and on its device."""
    report: Reduction
    """What was measured."""


def reduce_model(
    model: Path,
    options: ReductionOptions,
    read_texts: Callable[[RunningModel], Texts] | None = None,
    *,
    out: Path | None = None,
    beside: Path | None = None,
    progress: Progress = silent,
) -> Reduction:
    """``reduced``, for a model on disk and without keeping the reduced one in memory."""
    return reduced(model, options, read_texts, out=out, beside=beside, progress=progress).report


def reduced(
    model: Path | RunningModel,
    options: ReductionOptions,
    read_texts: Callable[[RunningModel], Texts] | None = None,
    *,
    out: Path | None = None,
    beside: Path | None = None,
    progress: Progress = silent,
) -> Reduced:
    """Reduce ``model`` and say what that costs; with ``out``, the reduced model is written there.

    A model on disk is only read; a running one becomes the reduced one.

    - ``beside``: what is done of a model on disk is kept beside this path, ``out`` where there is none: calibration,
      healing, and every cost that was measured. The same call continues from there after an interruption.
    """
    if out is not None:
        require_new(out)
    if read_texts is None and (options.method != "weights" or options.keep is options.rank is None or options.heals):
        raise InvalidInputError(
            "expected texts to run the model on (--text FILE), got none; without texts: --method weights with "
            "--keep or --rank"
        )
    started = time.monotonic()
    progress("load the model", 0, 1)
    running = load_running(model) if isinstance(model, Path) else model
    running = replace(running, names=options.names)
    use_fast_attention(running.model)
    texts = None if read_texts is None else read_texts(running)
    found = runnable_sites(running, attention_sites(running))
    require_possible(found.sites, keep=options.keep, rank=options.rank)
    if options.form == "mla":
        require_mla(running.model, found.sites)
    said = None if texts is None else vars(texts)
    with work_folder(out or beside, running, options, said) as folder, torch.no_grad():
        work = _Cutting(running, found, options, texts, folder, progress)
        installed, report = _measured(work, started, out)
    return Reduced(_with_cuts(running, installed), report)


def _with_cuts(running: RunningModel, installed: Installed) -> nn.Module:
    """The model with the cuts in place for good."""
    replaced(running.model, installed.modules)
    stored: Any = running.origin
    if isinstance(stored, Path):
        return ready_to_use(running.model, installed.cuts, torch.float32)
    return ready_to_use(running.model, installed.cuts, stored.dtype).to(stored.device)


def _measured(work: _Cutting, started: float, out: Path | None) -> tuple[Installed, Reduction]:
    """Cut, measure before and after, and write; the model is afterwards as it was."""
    running, options, texts, progress = work.running, work.options, work.texts, work.progress
    model = running.model
    if texts is not None:
        minutes = expected_minutes(running, options, texts.calibration, texts.selection, texts.evaluation)
        progress(f"about {max(1, round(minutes))} min in all", 0, 1)
    keep = work.chosen_share() if options.tolerance is not None else options.keep
    cuts = work.cuts(options.method, keep)
    original = None if texts is None else work.read(texts.evaluation, "measure the original", kept="original")
    lengths = options.recall and texts is not None and running.objective == "causal"
    recall = copy_accuracies(running, progress) if lengths else []
    frontier = () if texts is None or original is None or not options.frontier else work.frontier(texts, original)
    before = parameter_count(model)
    with cut_model(model, cuts, storage=work.storage) as installed:
        cost = healing = None
        if texts is not None and original is not None:
            reading = work.read(texts.evaluation, "measure the reduced model", kept=work.name(options.method, keep))
            cost = cost_of(reading, original)
            if options.heals:
                healing = _healed(work, installed, texts, cost.cost)
                cost = cost_of(work.read(texts.evaluation, "measure the healed model"), original)
        recalled = recall_reports(recall, copy_accuracies(running, progress)) if recall else ()
        generation = None
        if texts is not None and options.context:
            generation = compare_generation(running, installed, texts.evaluation, options.context, progress)
        report = summary(
            running,
            work.found,
            options,
            installed,
            Measured(
                keep=keep,
                parameters_before=before,
                texts=None if texts is None else (texts.calibration, texts.selection, texts.evaluation),
                original=original,
                cost=cost,
                healing=healing,
                generation=generation,
                recall=recalled,
                frontier=frontier,
                stored=None if out is None else work.storage,
                seconds=time.monotonic() - started,
            ),
        )
        if out is not None:
            progress(f"write {out.name}", 0, 1)
            save_reduced(
                out, running, installed, form=options.form, readme=readme_of(report), reduction=report.to_json()
            )
    return installed, report


class _Cutting:
    """A model, its texts, and the directions that have been found so far."""

    def __init__(
        self,
        running: RunningModel,
        found: Sites,
        options: ReductionOptions,
        texts: Texts | None,
        folder: Path | None,
        progress: Progress,
    ) -> None:
        self.running, self.found, self.options = running, found, options
        self.texts, self.folder, self.progress = texts, folder, progress
        self.storage = storage_of(running, options.form)
        self._samples: list[Samples] | None = None
        self._directions: dict[MethodName, list[Directions]] = {}
        self._metrics: dict[MethodName, list[Metric]] = {}
        self._readings: dict[str, ModelReading] = {}

    def name(self, method: MethodName, keep: float | None) -> str:
        """Of the cut to a share, or, where that is None, to the rank of the options."""
        return f"{method}-{f'rank-{self.options.rank}' if keep is None else keep}"

    def read(self, pieces: MaskedPieces, what: str, *, kept: str | None = None) -> ModelReading:
        """What the model as it stands makes of ``pieces``; measured once under each name ``kept``."""
        if kept is None:
            return measure_pieces(self.running, pieces, progress=self.progress, what=what)
        file = None if self.folder is None else self.folder / f"reading-{kept}.safetensors"
        known = self._readings.get(kept) or (None if file is None else kept_reading(file))
        if known is None:
            known = measure_pieces(self.running, pieces, progress=self.progress, what=what)
            if file is not None:
                keep_reading(file, known)
        self._readings[kept] = known
        return known

    def cuts(self, method: MethodName, keep: float | None) -> list[Cut]:
        """The cut to a share, or, where that is None, to the rank of the options."""
        model, sites = self.running.model, self.found.sites
        if self.options.form == "mla":
            return self._mla_cuts(method, keep)
        if method not in self._directions:
            self._directions[method] = find_directions(
                model, sites, self._samples_for(method), method, progress=self.progress
            )
        total = None if keep is None else budget(sites, keep)
        rank = self.options.rank if keep is None else None
        return cut_to(model, self._directions[method], total=total, rank=rank, allocation=self.options.allocation)

    def _mla_cuts(self, method: MethodName, keep: float | None) -> list[Cut]:
        """The cut in the form of DeepSeek-V2; how many rotations are dropped is tried out on texts that teach."""
        model, sites = self.running.model, self.found.sites
        if method not in self._metrics:
            found = find_metrics(model, sites, self._samples_for(method), method, progress=self.progress)
            self._metrics[method] = [metric for (metric,) in found]
        total = round(keep * sites[0].cached_numbers) if keep is not None else self.options.rank
        assert total is not None

        def cut(slow: int) -> list[Cut]:
            layers = [mla_directions(*pair, slow) for pair in zip(sites, self._metrics[method], strict=True)]
            shape = best_shape(layers, slow, total)
            return [mla_plan(model, layer, shape) for layer in layers]

        frequencies = sites[0].k.index.shape[1] // 2
        tried = [max(1, frequencies * share // 8) for share in (1, 2, 3, 4)]
        if self.texts is None:
            return cut(tried[1])
        pieces, best = next(self.texts.calibration.passes()), (math.inf, tried[1])
        for at, slow in enumerate(dict.fromkeys(tried)):
            self.progress("choose frequencies without rotation", at, len(tried))
            with cut_model(model, cut(slow), storage=self.storage):
                losses = measure_pieces(self.running, pieces).losses
            assert losses is not None
            best = min(best, (float(losses.mean()), slow))
        return cut(best[1])

    def _samples_for(self, method: MethodName) -> list[Samples] | None:
        return None if METHODS[method].needs == "nothing" else self._calibrated()

    def chosen_share(self) -> float:
        """The smallest share within the tolerance, by bisection on the pieces that choose."""
        texts, tolerance = self.texts, self.options.tolerance
        assert texts is not None
        assert texts.selection is not None
        assert tolerance is not None
        original = self.read(texts.selection, "choose: the original")
        low, high = 0, len(_CHOICES)
        while low < high:
            middle = (low + high) // 2
            with cut_model(self.running.model, self.cuts(self.options.method, _CHOICES[middle]), storage=self.storage):
                cost = cost_of(self.read(texts.selection, f"choose: {_CHOICES[middle]:.0%}"), original)
            within = CostReport(**asdict(cost)).noticed_percent <= tolerance
            low, high = (low, middle) if within else (middle + 1, high)
        if high == len(_CHOICES):
            raise InvalidInputError(
                f"--tolerance: expected percent that keeping 95 % stays within, got {tolerance:g}; choose a larger one"
            )
        return _CHOICES[high]

    def frontier(self, texts: Texts, original: ModelReading) -> tuple[FrontierPoint, ...]:
        """All methods at several shares."""
        points = []
        for method in METHODS:
            for keep in FRONTIER_SHARES:
                with cut_model(self.running.model, self.cuts(method, keep), storage=self.storage):
                    reading = self.read(texts.evaluation, f"{method} at {keep:.1%}", kept=self.name(method, keep))
                    cost = cost_of(reading, original)
                    size = parameter_count(self.running.model)
                points.append(FrontierPoint(method=method, keep=keep, parameters=size, cost=CostReport(**asdict(cost))))
        return tuple(points)

    def _calibrated(self) -> list[Samples]:
        assert self.texts is not None
        if self._samples is None:
            gradients = self.options.frontier or METHODS[self.options.method].needs == "gradients"
            folder = None
            if self.folder is not None:
                folder = self.folder / ("gradients" if gradients else "activations")
                folder.mkdir(parents=True, exist_ok=True)
            self._samples = collect(
                self.running, self.found.sites, self.texts.calibration,
                gradients=gradients, folder=folder, progress=self.progress,
            )  # fmt: skip
        return self._samples


def _healed(work: _Cutting, installed: Installed, texts: Texts, before: float) -> HealingReport:
    pieces = texts.healing or texts.calibration
    tokens = work.options.heal_tokens or _tokens_of_minutes(work, installed, pieces)
    done = heal(work.running, installed, pieces, tokens, folder=work.folder, progress=work.progress)
    round_factors(installed.modules, work.storage)
    return HealingReport(minutes=done.seconds / 60, steps=done.steps, tokens=done.tokens, before=before)


def _tokens_of_minutes(work: _Cutting, installed: Installed, pieces: MaskedPieces) -> int:
    """The tokens of ``--heal``, measured once: an interrupted healing goes on to the end that it began with."""
    kept = None if work.folder is None else work.folder / "tokens.txt"
    if kept is not None and kept.is_file():
        return int(kept.read_text(encoding="utf-8"))
    tokens = tokens_within(work.running, installed, pieces, work.options.heal)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(str(tokens), encoding="utf-8")
    return tokens
