"""Successive halving over shapes of one budget, within every rank, so that the curve against rank stays complete.

All shapes are trained a little; of every rank the best few are trained longer, from the start, because the schedule of
a training depends on its length; the best of every rank is trained in full with several seeds. A shape leaves on the
held-out loss of one short training: a good shape that learns slowly may be lost. The last round reports the mean over
seeds with its standard error; the best of several ranks is a little flattered, because it was chosen by the same
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankwise.choose.document import BudgetSearch, TrainedShape
from rankwise.choose.presets import Preset, Round
from rankwise.choose.shapes import HeadShape, ShapeBudget, shapes_within
from rankwise.estimate import Estimate
from rankwise.spec import RunSpec, SweepSpec, TextSpec
from rankwise.sweep import TrainedRun

Train = Callable[[SweepSpec], Sequence[TrainedRun]]
"""Trains what is missing of a sweep and returns all of its runs."""


def search_shapes(budget: ShapeBudget, preset: Preset, text: TextSpec, train: Train) -> BudgetSearch:
    """The loss of the best shape of every rank at ``budget``."""
    shapes = shapes_within(budget, dim=preset.dim, layers=preset.layers)
    trained: list[TrainedShape] = []
    for number, current in enumerate(preset.rounds):
        if current.keep is not None:
            shapes = _best_of_each_rank(trained, current.keep)
        sweep = round_sweep(budget, number, round_runs(preset, text, current, shapes))
        losses = {run.run.id: float(run.result["error"]) for run in train(sweep)}
        trained = [
            _trained(shape, [losses[run.id] for run in round_runs(preset, text, current, [shape])], current, preset)
            for shape in shapes
        ]
    return BudgetSearch(kind=budget.kind, amount=budget.amount, shapes=tuple(trained))


def round_runs(preset: Preset, text: TextSpec, current: Round, shapes: Sequence[HeadShape]) -> list[RunSpec]:
    """The trainings of a round, seed by seed."""
    return [preset.run(text, shape, current.steps, seed) for seed in range(current.seeds) for shape in shapes]


def round_sweep(budget: ShapeBudget, number: int, runs: Sequence[RunSpec]) -> SweepSpec:
    """The trainings as a sweep."""
    return SweepSpec(name=f"choose: {budget.words}, round {number + 1}", runs=tuple(runs))


def planned_runs(budget: ShapeBudget, preset: Preset, text: TextSpec) -> list[RunSpec]:
    """What a search trains at most in time: in later rounds, whose shapes are not known, the largest of every rank."""
    shapes: Sequence[HeadShape] = shapes_within(budget, dim=preset.dim, layers=preset.layers)
    runs = []
    for current in preset.rounds:
        if current.keep is not None:
            by_size = sorted(shapes, key=lambda one: -one.heads * (one.rank + one.value_rank))
            shapes = [
                one
                for rank in dict.fromkeys(shape.rank for shape in shapes)
                for one in [shape for shape in by_size if shape.rank == rank][: current.keep]
            ]
        runs += round_runs(preset, text, current, shapes)
    return runs


def _best_of_each_rank(trained: Sequence[TrainedShape], keep: int) -> tuple[HeadShape, ...]:
    best: list[HeadShape] = []
    for rank in dict.fromkeys(one.rank for one in trained):
        of_rank = sorted((one for one in trained if one.rank == rank), key=lambda one: one.loss)
        best += [one.shape for one in of_rank[:keep]]
    return tuple(best)


def _trained(shape: HeadShape, losses: list[float], current: Round, preset: Preset) -> TrainedShape:
    over = Estimate.over(losses)
    return TrainedShape(
        heads=shape.heads,
        rank=shape.rank,
        value_rank=shape.value_rank,
        kv_heads=shape.kv_heads,
        parameters=shape.parameters(preset.dim, preset.layers),
        cache_bytes=shape.cache(preset.layers),
        steps=current.steps,
        losses=tuple(losses),
        loss=over.mean,
        standard_error=over.standard_error,
    )
