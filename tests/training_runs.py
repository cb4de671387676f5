"""A short run that has every kind of state, and a worker that stops it where a test wants."""

import torch

from rankwise.spec import LrMultipliers, ModelSpec, NeighborSpec, OptimSpec, RunSpec
from rankwise.train.loop import Training


def thirty_steps(optimizer="muon", **fields):
    """Everything that has state: two optimisers, patience, partial epochs, micro-batches."""
    optim = OptimSpec(
        optimizer=optimizer,
        lr=0.01,
        lr_multipliers=LrMultipliers(temperature=10),
        steps=30,
        batch=8,
        micro_batch=4,
        clip=1.0,
        epoch_steps=7,
        patience=50,
        validation_batches=2,
        validation_batch=8,
        weight_decay=0.1,
    )
    model = ModelSpec(dim=6, heads=2, rank=3, feedforward=8, temperature="learned", residual="learned")
    whole = {"task": NeighborSpec(name="farthest", dim=6, points=4), "model": model, "optim": optim}
    return RunSpec(**whole | fields)


class Context:
    """A worker that stops the run after ``steps`` more steps."""

    def __init__(self, directory, steps=10**9):
        self.checkpoint_dir = directory
        self.left = steps
        self.reports = []
        self.checkpoints = []
        self.seconds_before = None

    def should_stop(self):
        self.left -= 1
        return self.left < 0

    def report(self, progress):
        self.reports.append(dict(progress))

    def checkpointed(self, path, sha256, step):
        self.checkpoints.append((path, sha256, step))

    def continued(self, seconds):
        self.seconds_before = seconds


def finished(run):
    training = Training(run)
    while not training.done:
        training.advance()
    return training


def assert_same_state(one, other):
    assert one.tensors.keys() == other.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, other.tensors[name]), name
    drop = {"seconds"}
    assert {k: v for k, v in one.values.items() if k not in drop} == {
        k: v for k, v in other.values.items() if k not in drop
    }
    assert one.step == other.step
