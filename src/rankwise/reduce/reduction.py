"""``rankwise reduce`` from beginning to end: calibrate, cut, choose, measure, heal, judge, write.

Three sorts of texts that never mix: those that teach directions (and heal), those that choose a share, those that
measure.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from rankwise.errors import InvalidInputError
from rankwise.models import RunningModel, load_running
from rankwise.progress import Progress, silent
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
    round_factors,
)
from rankwise.reduce.document import CostReport, FrontierPoint, HealingReport, Reduction
from rankwise.reduce.generation import compare_generation
from rankwise.reduce.healing import heal
from rankwise.reduce.methods import METHODS, MethodName
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.recall import copy_accuracies, recall_reports
from rankwise.reduce.saved import factor_dtype, require_new, save_reduced, use_fast_attention
from rankwise.reduce.sites import Sites, attention_sites
from rankwise.reduce.summary import Measured, parameter_count, readme_of, summary

FRONTIER_SHARES = (0.75, 0.5, 0.375, 0.25)
_CHOICES = tuple(share / 20 for share in range(1, 20))


@dataclass(frozen=True)
class Texts:
    """Pieces that teach, pieces that choose (None where nothing is chosen) and pieces that measure."""

    calibration: MaskedPieces
    selection: MaskedPieces | None
    evaluation: MaskedPieces


def reduce_model(
    model: Path,
    options: ReductionOptions,
    read_texts: Callable[[RunningModel], Texts] | None = None,
    *,
    out: Path | None = None,
    progress: Progress = silent,
) -> Reduction:
    """Reduce ``model`` and say what that costs; with ``out``, the reduced model is written there.

    With ``out``, an interrupted calibration or healing continues when the same call is made again.
    """
    if out is not None:
        require_new(out)
    if read_texts is None and (options.method != "weights" or options.keep is options.rank is None or options.heal):
        raise InvalidInputError(
            "expected texts to run the model on (--text FILE), got none; without texts: --method weights with "
            "--keep or --rank"
        )
    started = time.monotonic()
    progress("load the model", 0, 1)
    running = load_running(model)
    use_fast_attention(running.model)
    texts = None if read_texts is None else read_texts(running)
    with _work_folder(out, running, texts) as folder, torch.no_grad():
        work = _Cutting(running, attention_sites(running), options, texts, folder, progress)
        return _measured(work, started, out)


def _measured(work: _Cutting, started: float, out: Path | None) -> Reduction:
    """Cut, measure before and after, and write."""
    running, options, texts, progress = work.running, work.options, work.texts, work.progress
    model = running.model
    if texts is not None:
        _estimate_time(work, texts)
    keep = work.chosen_share() if options.tolerance is not None else options.keep
    cuts = work.cuts(options.method, keep)
    original = None if texts is None else work.read(texts.evaluation, "measure the original")
    lengths = options.recall and texts is not None and running.objective == "causal"
    recall = copy_accuracies(running, progress) if lengths else []
    frontier = () if texts is None or original is None or not options.frontier else work.frontier(texts, original)
    before = parameter_count(model)
    with cut_model(model, cuts, dtype=work.dtype) as installed:
        cost = healing = None
        if texts is not None and original is not None:
            cost = cost_of(work.read(texts.evaluation, "measure the reduced model"), original)
            if options.heal:
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
                stored=None if out is None else work.dtype,
                seconds=time.monotonic() - started,
            ),
        )
        if out is not None:
            progress(f"write {out.name}", 0, 1)
            save_reduced(out, running, installed, readme=readme_of(report), reduction=report.to_json())
    return report


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
        self.dtype = factor_dtype(running.path)
        self._samples: list[Samples] | None = None
        self._directions: dict[MethodName, list[Directions]] = {}

    def read(self, pieces: MaskedPieces, what: str) -> ModelReading:
        """What the model as it stands makes of ``pieces``."""
        return measure_pieces(self.running, pieces, progress=self.progress, what=what)

    def cuts(self, method: MethodName, keep: float | None) -> list[Cut]:
        """The cut to a share, or, where that is None, to the rank of the options."""
        model, sites = self.running.model, self.found.sites
        if method not in self._directions:
            samples = None if METHODS[method].needs == "nothing" else self._calibrated()
            self._directions[method] = find_directions(model, sites, samples, method, progress=self.progress)
        total = None if keep is None else budget(sites, keep)
        rank = self.options.rank if keep is None else None
        return cut_to(model, self._directions[method], total=total, rank=rank, allocation=self.options.allocation)

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
            with cut_model(self.running.model, self.cuts(self.options.method, _CHOICES[middle]), dtype=self.dtype):
                cost = cost_of(self.read(texts.selection, f"choose: {_CHOICES[middle]:.0%}"), original).cost
            low, high = (low, middle) if cost <= tolerance else (middle + 1, high)
        if high == len(_CHOICES):
            raise InvalidInputError(
                f"--tolerance: expected a cost that keeping 95 % stays within, got {tolerance:g}; choose a larger one"
            )
        return _CHOICES[high]

    def frontier(self, texts: Texts, original: ModelReading) -> tuple[FrontierPoint, ...]:
        """All methods at several shares."""
        points = []
        for method in METHODS:
            for keep in FRONTIER_SHARES:
                with cut_model(self.running.model, self.cuts(method, keep), dtype=self.dtype):
                    cost = cost_of(self.read(texts.evaluation, f"{method} at {keep:.0%}"), original)
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
    with torch.enable_grad():
        done = heal(
            work.running, installed, texts.calibration, work.options.heal, folder=work.folder, progress=work.progress
        )
    round_factors(installed.modules, work.dtype)
    return HealingReport(minutes=done.seconds / 60, steps=done.steps, tokens=done.tokens, before=before)


def _estimate_time(work: _Cutting, texts: Texts) -> None:
    """Say how long it will take, from one pass."""
    start = time.monotonic()
    measure_pieces(work.running, next(texts.calibration.passes()))
    once = time.monotonic() - start
    calibration, evaluation = (len(list(pieces.passes())) for pieces in (texts.calibration, texts.evaluation))
    measured = 2 + (len(FRONTIER_SHARES) * len(METHODS) if work.options.frontier else 0)
    minutes = once * (5 * calibration + measured * evaluation) / 60 + work.options.heal
    work.progress(f"about {max(1, round(minutes))} min in all", 0, 1)


@contextmanager
def _work_folder(out: Path | None, running: RunningModel, texts: Texts | None) -> Iterator[Path | None]:
    """Beside ``out``, for what an interrupted reduction goes on from; gone when the reduction is done."""
    if out is None or texts is None:
        yield None
        return
    told = hashlib.sha256(str(running.path.resolve()).encode())
    told.update(texts.calibration.tokens.numpy().tobytes())
    folder = out.with_name(f".{out.name}.work-{told.hexdigest()[:12]}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
