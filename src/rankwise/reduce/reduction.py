"""``rankwise reduce`` from beginning to end: texts, moments, curve, choice of the rank, sensitivity, files.

Texts are split: the first pieces only teach which directions matter, the rest only measure what cutting costs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from rankwise.errors import InvalidInputError, require_int, require_number
from rankwise.models.files.source import ModelSource, open_model
from rankwise.models.running.loading import save_dequantised
from rankwise.models.running.model import RunningModel, load_running
from rankwise.reduce.cost import CostMeter, cost_meter
from rankwise.reduce.cutting import (
    CutPoint,
    Method,
    Reducer,
    curve_ranks,
    measure_cut,
    module_names,
    prepare,
    rank_choices,
    smallest_cut,
)
from rankwise.reduce.factored_model import cut_description, savings, why_not_factored
from rankwise.reduce.files import require_new, write_reduction

FORMAT = "rankwise-reduction/1"
Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much."""


@dataclass(frozen=True, kw_only=True)
class ReductionOptions:
    """``rank`` None finds the smallest within ``tolerance``; ``value_rank`` None leaves values whole."""

    rank: int | None
    value_rank: int | None = None
    method: Method | None = None
    tolerance: float = 0.01
    curve: bool = True
    sensitivity: bool = True

    def __post_init__(self) -> None:
        for name in ("rank", "value_rank"):
            if getattr(self, name) is not None:
                require_int(f"--{name.replace('_', '-')}", getattr(self, name), minimum=1)
        require_number("--tolerance", self.tolerance, minimum=0)


@dataclass(frozen=True)
class SplitTexts:
    """Pieces that teach and pieces that measure, and where they come from."""

    calibration: Int64[Tensor, "t N"]
    evaluation: Int64[Tensor, "T N"]
    source: tuple[str, ...]


def split_texts(tokens: Int64[Tensor, "all N"], source: tuple[str, ...], share: float = 0.25) -> SplitTexts:
    """The first quarter of the pieces (at least one) teaches, the rest measures."""
    if len(tokens) < 2:
        raise InvalidInputError(
            f"texts: expected at least two pieces (one to find directions, one to measure), got {len(tokens)}; give "
            f"more text or a smaller --length"
        )
    first = max(1, round(share * len(tokens)))
    return SplitTexts(tokens[:first], tokens[first:], source)


def reduce_model(
    model: Path,
    options: ReductionOptions,
    read_texts: Callable[[RunningModel], SplitTexts] | None = None,
    *,
    out: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The reduction as a document of strict JSON; with ``out``, the cut model is written there."""
    if out is not None:
        require_new(out)
    if options.rank is None and read_texts is None:
        raise InvalidInputError("--rank auto: expected texts to measure on (--text FILE or --tokens FILE), got none")
    if read_texts is None and model.suffix != ".gguf":
        source = open_model(model)
        return _finished(prepare(source), options, None, None, None, [], [], options.rank or 1, out)
    running = load_running(model)
    with _as_safetensors(model, running) as source:
        texts = None if read_texts is None else read_texts(running)
        return _measured(source, running, texts, options, out, _Steps(progress))


class _Steps:
    def __init__(self, report: Progress | None) -> None:
        self.report, self.what, self.done, self.total = report, "", 0, 1

    def begin(self, what: str, total: int) -> None:
        self.what, self.done, self.total = what, 0, max(1, total)
        self._tell()

    def step(self, _: str = "") -> None:
        self.done += 1
        self._tell()

    def _tell(self) -> None:
        if self.report is not None:
            self.report(self.what, self.done, self.total)


def _measured(
    source: ModelSource,
    running: RunningModel,
    texts: SplitTexts | None,
    options: ReductionOptions,
    out: Path | None,
    steps: _Steps,
) -> dict[str, Any]:
    if texts is None:
        return _finished(prepare(source), options, running, None, None, [], [], options.rank or 1, out)
    steps.begin("second moments", len(texts.calibration))
    reducer = prepare(source, running, texts.calibration, progress=steps.step)
    if options.rank is not None:
        _require_choice(reducer, options.rank)
    steps.begin("the original", 1)
    meter = cost_meter(running, texts.evaluation)
    steps.step()
    method = options.method or "activations"
    points: list[CutPoint] = []

    def measured(rank: int, by: Method) -> CutPoint:
        known = next((point for point in points if (point.rank, point.method) == (rank, by)), None)
        if known is None:
            known = measure_cut(reducer, running, meter, rank, options.value_rank, method=by)
            points.append(known)
            steps.step()
        return known

    if options.curve:
        ranks = curve_ranks(reducer)
        steps.begin("cost against rank", len(ranks) * len(reducer.methods))
        for one in ranks:
            for by in reducer.methods:
                measured(one, by)
    if options.rank is None:
        steps.begin("smallest rank", len(rank_choices(reducer)).bit_length())
        rank = smallest_cut(
            reducer,
            lambda k: measured(k, method).measured["cost"],
            tolerance=options.tolerance,
            value_rank=options.value_rank,
        )
    else:
        rank = options.rank
        steps.begin("the chosen rank", 1)
    measured(rank, method)
    alone: list[CutPoint] = []
    if options.sensitivity:
        layers = reducer.layers[method]
        steps.begin("layer by layer", len(layers))
        for number in range(len(layers)):
            alone.append(measure_cut(reducer, running, meter, rank, options.value_rank, method=method, only=number))
            steps.step()
    return _finished(reducer, options, running, texts, meter, points, alone, rank, out)


def _require_choice(reducer: Reducer, rank: int) -> None:
    choices = rank_choices(reducer)
    if rank not in choices:
        pairs = " (rotary positions turn pairs of coordinates; only whole pairs are dropped)" if choices[0] == 2 else ""
        steps = " in steps of 2" if choices[:2] == [2, 4] else ""
        raise InvalidInputError(f"--rank: expected {choices[0]} to {choices[-1]}{steps}{pairs}, got {rank}")


def _finished(
    reducer: Reducer,
    options: ReductionOptions,
    running: RunningModel | None,
    texts: SplitTexts | None,
    meter: CostMeter | None,
    points: list[CutPoint],
    alone: list[CutPoint],
    rank: int,
    out: Path | None,
) -> dict[str, Any]:
    _require_choice(reducer, rank)
    method: Method = options.method or reducer.methods[0]
    if method not in reducer.methods:
        raise InvalidInputError(f"--method {method}: expected texts to measure activations on (--text FILE), got none")
    layers = reducer.cut(rank, options.value_rank, method=method)
    chosen = next((point for point in points if (point.rank, point.method) == (rank, method)), None)
    document: dict[str, Any] = {
        "format": FORMAT,
        "model": reducer.source.name if running is None else running.path.name,
        "architecture": reducer.architecture,
        "objective": None if running is None else running.objective,
        "method": method,
        "rank": rank,
        "original_rank": reducer.rank,
        "value_rank": options.value_rank,
        "chosen": "given" if options.rank is not None else "smallest within the tolerance",
        "tolerance": options.tolerance if options.rank is None else None,
        "cost": None if chosen is None else dict(chosen.measured),
        "cost_unit": None if meter is None else meter.unit,
        "texts": None
        if texts is None
        else {
            "source": list(texts.source),
            "tokens": int(texts.evaluation.shape[1]),
            "calibration": len(texts.calibration),
            "evaluation": len(texts.evaluation),
        },
        "savings": savings(layers),
        "curve": [_point(point) for point in sorted(points, key=lambda p: (p.method, -p.rank))],
        "sensitivity": [
            {"layer": layer.ref.name, **_point(point)} for layer, point in zip(layers, alone, strict=bool(alone))
        ],
        "layers": [
            {"layer": layer.ref.name, **cut_description(layer), "not_factored": why_not_factored(layer.ref)}
            for layer in layers
        ],
        "untouched": [{"what": what, "reason": reason} for what, reason in reducer.untouched],
        "written": None,
    }
    if out is not None:
        paths: list[str | None] = [None] * len(layers)
        if running is not None:
            paths = list(module_names(running, [layer.ref for layer in layers]))
        document["written"] = write_reduction(out, reducer.source, layers, report=document, module_paths=paths)
    return document


def _point(point: CutPoint) -> dict[str, Any]:
    return {"method": point.method, "rank": point.rank, "lost_scores": point.lost, **point.measured}


@contextmanager
def _as_safetensors(model: Path, running: RunningModel) -> Iterator[ModelSource]:
    """The model's own files, or those of a GGUF file dequantised into a directory that goes away."""
    if model.suffix != ".gguf":
        yield open_model(model)
        return
    with tempfile.TemporaryDirectory(prefix="rankwise-") as scratch:
        folder = Path(scratch) / model.stem
        save_dequantised(running.model, running.tokenizer, folder)
        yield open_model(folder)
