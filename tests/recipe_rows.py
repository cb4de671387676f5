"""Rows of recipes from fixed numbers, and runs trained for a few steps without a worker."""

from rankwise.recipes.rows import result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import vary
from rankwise.train.checkpoint import write_checkpoint
from rankwise.train.loop import Training


def trained(run, error, error_se=0.001, **fields):
    """``run`` as if it had reached ``error``."""
    sequences = run.optim.steps * run.optim.batch
    numbers = {"error": error, "error_se": error_se, "train_min": error, "sequences": sequences, "seconds": 2.0}
    return TrainedRun(run=run, **numbers | fields)


def rows_of(figure, sweep, error_of, extra_of=lambda run: {}):
    """One row for every run of ``sweep``: its error and its extra columns are functions of the run."""
    return [result_row(figure, trained(run, error_of(run)), extra_of(run)) for run in sweep.expand()]


def trained_here(run, directory, steps=5):
    """``run`` cut to a few steps, trained here, with its weights in ``directory`` as a worker leaves them."""
    short = vary(run, {"optim.steps": steps, "optim.warmup": 0, "optim.epoch_steps": steps})
    training = Training(short)
    while not training.done:
        training.advance()
    result = training.result()
    path, _ = write_checkpoint(directory, training.state())
    return trained(short, result.error, result.error_se, weights=path)
