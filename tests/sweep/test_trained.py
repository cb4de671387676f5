import pytest

from rankwise.errors import RunsFailedError
from rankwise.spec import OptimSpec
from rankwise.sweep.store import open_store
from rankwise.sweep.trained import train_sweep
from rankwise.train.loop import train
from spec_examples import seeds_sweep

FEW = OptimSpec(lr=0.01, steps=3, batch=4, validation_batches=1, validation_batch=8)


def test_a_sweep_trained_by_workers_has_the_numbers_of_training_here(tmp_path):
    sweep = seeds_sweep(3, optim=FEW)
    runs = train_sweep(sweep, tmp_path, workers=1)
    assert [trained.run.seed for trained in runs] == [0, 1, 2]
    for trained in runs:
        here = train(trained.run)
        assert trained.result == here.to_json() | {"threads": trained.result["threads"]}
    with open_store(tmp_path):  # as a driver holds it
        assert train_sweep(sweep, tmp_path, workers=1) == runs, "what is there is only read"
    for trained in runs:
        assert trained.weights is not None
        assert trained.weights.is_relative_to(tmp_path)
        assert trained.weights.exists()


def test_a_run_that_diverges_is_an_error_that_names_it(tmp_path):
    with pytest.raises(RunsFailedError, match=r"1 of 1 runs failed(.|\n)*diverged at step"):
        train_sweep(seeds_sweep(1, optim=OptimSpec(lr=1e6, steps=100, batch=4)), tmp_path, workers=1)
