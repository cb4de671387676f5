from dataclasses import replace

import pytest
import torch

from rankwise.errors import StorageError
from rankwise.nn.constructions import exact_farthest
from rankwise.spec import NeighborSpec, OptimSpec
from rankwise.sweep.trained_weights import error_of, trained_model
from rankwise.tasks import FarthestNeighbor
from rankwise.train.loop import Training
from recipe_rows import trained_here
from spec_examples import small_run

FEW = OptimSpec(lr=0.01, steps=3, batch=4, validation_batches=1, validation_batch=8)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = small_run(optim=FEW, task=NeighborSpec(name="farthest", dim=8, points=4))
    return trained_here(run, tmp_path_factory.mktemp("store"), steps=3)


def test_the_model_of_a_run_is_the_one_that_was_validated(trained):
    training = Training(trained.run)
    while not training.done:
        training.advance()
    expected = training.model.state_dict()
    found = trained_model(trained).state_dict()
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_weights_that_are_gone_are_named(trained, tmp_path):
    with pytest.raises(StorageError, match=f"expected the weights of run {trained.run.id}, got none that are whole"):
        trained_model(replace(trained, weights=tmp_path / "gone.safetensors"))
    with pytest.raises(StorageError, match="the store"):
        trained_model(replace(trained, weights=None))


def test_errors_are_of_fresh_examples_whatever_is_held_at_once(monkeypatch):
    task = FarthestNeighbor(6, 5)
    assert error_of(exact_farthest(6), task, 64).mean == pytest.approx(0, abs=1e-10)
    soft = exact_farthest(6, beta=3.0)
    whole = error_of(soft, task, 64)
    assert whole.standard_error > 0
    assert error_of(soft, task, 64, seed=1).mean != whole.mean
    monkeypatch.setattr("rankwise.sweep.trained_weights._NUMBERS_AT_ONCE", 1)
    alone = error_of(soft, task, 64)
    assert alone.mean == pytest.approx(whole.mean, abs=5 * whole.standard_error)
