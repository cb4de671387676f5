"""Trained runs of recipes from fixed numbers, their points, and runs trained for a few steps without a worker."""

from rankwise.recipes.points import points_of
from rankwise.spec import vary
from rankwise.sweep.trained import TrainedRun
from rankwise.train.checkpoint import write_checkpoint
from rankwise.train.loop import Training


def trained(run, error, error_se=0.001, *, weights=None, **result):
    """``run`` as if it had reached ``error``."""
    sequences = run.optim.steps * run.optim.batch
    numbers = {"error": error, "error_se": error_se, "train_min": error, "sequences": sequences}
    return TrainedRun(run=run, result={**numbers, "steps": run.optim.steps, **result}, seconds=2.0, weights=weights)


def rows_of(figure, preset, error_of, measured_of=None, **options):
    """The rows of a figure whose errors, and measured columns if given, are functions of the run."""
    runs = [trained(run, error_of(run)) for run in figure.sweep(preset, **options).expand()]
    if measured_of is None:
        return figure.rows(runs)
    kept, figure.measured = figure.measured, lambda one: [measured_of(one.run)]
    try:
        return figure.rows(runs)
    finally:
        del figure.measured
        assert figure.measured == kept


def points_from(figure, preset, error_of, measured_of=None, **options):
    """The points of ``rows_of``."""
    return points_of(rows_of(figure, preset, error_of, measured_of, **options), figure.keys)


def trained_here(run, directory, steps=5):
    """``run`` cut to a few steps, trained here, with its weights in ``directory`` as a worker leaves them."""
    short = vary(run, {"optim.steps": steps, "optim.warmup": 0, "optim.epoch_steps": steps})
    training = Training(short)
    while not training.done:
        training.advance()
    result = training.result()
    path, _ = write_checkpoint(directory, training.state())
    return TrainedRun(run=short, result=result.to_json(), seconds=result.seconds, weights=path)
