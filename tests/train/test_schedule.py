from itertools import pairwise

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from rankwise.spec import OptimSpec
from rankwise.train.schedule import lr_factor


def optim(**fields):
    return OptimSpec(lr=1.0, batch=1, **fields)


@pytest.mark.parametrize(("epochs", "warmup"), [(40, 2), (100, 5), (7, 0), (3, 3)])
def test_the_papers_schedule_is_the_usual_cosine_stepped_once_an_epoch(epochs, warmup):
    ours = optim(schedule="paper", steps=10 * epochs, warmup=10 * warmup, epoch_steps=10)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = get_cosine_schedule_with_warmup(optimizer, warmup, epochs)
    for epoch in range(epochs):
        factors = {lr_factor(ours, step) for step in range(10 * epoch, 10 * epoch + 10)}
        assert len(factors) == 1
        assert factors.pop() == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()


def test_the_papers_epoch_zero_learns_nothing():
    ours = optim(schedule="paper", steps=4000, warmup=200, epoch_steps=100)
    assert [lr_factor(ours, step) for step in (0, 99, 100, 199, 200)] == [0, 0, 0.5, 0.5, 1]


@pytest.mark.parametrize("schedule", ["cosine", "scales"])
def test_warm_up_rises_to_one_and_the_rest_never_rises(schedule):
    ours = optim(schedule=schedule, steps=50, warmup=10)
    factors = [lr_factor(ours, step) for step in range(50)]
    assert factors[:10] == pytest.approx([k / 10 for k in range(1, 11)])
    assert factors[10] == 1
    assert all(later <= earlier for earlier, later in pairwise(factors[10:]))
    last = {"cosine": 0.00154, "scales": 1000 ** -((39 / 40 - 0.3) / 0.7)}
    assert factors[-1] == pytest.approx(last[schedule], rel=0.01)


@pytest.mark.parametrize(
    ("schedule", "step", "factor"), [("cosine", 50, 0.5), ("scales", 30, 1), ("scales", 65, 1000**-0.5)]
)
def test_half_way_down(schedule, step, factor):
    assert lr_factor(optim(schedule=schedule, steps=100), step) == pytest.approx(factor)
