"""The select task: its law, its errors, hand-built heads on it, and a run of it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn.constructions import discriminant_directions, exact_nearest, selecting_head
from rankwise.spec import ModelSpec, OptimSpec, RunSpec, SelectSpec, parse_toml
from rankwise.tasks import Select, build_task
from rankwise.theory.selection import selection_accuracy

DOUBLE = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=40)
@given(
    dim=st.integers(2, 9),
    points=st.integers(2, 12),
    queries=st.integers(1, 4),
    noise=st.floats(0, 3),
    codebook=st.none() | st.integers(0, 2**62),
)
def test_an_example_is_codes_and_copies_of_some(dim, points, queries, noise, codebook):
    spec = SelectSpec(dim=dim, points=points, queries=queries, noise=noise, codebook=codebook)
    task = Select(spec)
    batch, again = (task.sample(5, generator(3), dtype=DOUBLE) for _ in range(2))
    assert torch.equal(batch.queries, again.queries)
    assert batch.points.shape == (5, points, dim)
    assert batch.queries.shape == batch.targets.shape == (5, queries, dim)
    torch.testing.assert_close(batch.points.norm(dim=-1), torch.ones(5, points, dtype=DOUBLE))
    assert (batch.targets[:, :, None] == batch.points[:, None]).all(-1).any(-1).all()
    assert task.error(batch.targets, batch).eq(0).all()
    assert task.loss(batch.targets, batch).eq(0).all()
    if codebook is not None:
        assert torch.equal(batch.points[0], task.sample(1, generator(9), dtype=DOUBLE).points[0])
    if noise == 0:
        assert torch.equal(batch.queries, batch.targets)


def test_noise_has_the_length_that_it_says():
    batch = Select(SelectSpec(dim=64, points=2, noise=2.0)).sample(20_000, generator(), dtype=DOUBLE)
    noise = batch.queries * math.sqrt(5) - batch.targets
    assert noise.square().sum(-1).mean().item() == pytest.approx(4.0, rel=0.01)
    assert batch.queries.square().sum(-1).mean().item() == pytest.approx(1.0, rel=0.01)


def test_errors_against_a_plain_loop():
    task = Select(SelectSpec(dim=6, points=5, queries=3, noise=1.0))
    batch = task.sample(50, generator(), dtype=DOUBLE)
    prediction = batch.queries + 0.3
    for example in range(50):
        wrong = 0
        for query in range(3):
            answer = prediction[example, query] / prediction[example, query].norm()
            nearest = min(batch.points[example], key=lambda code, answer=answer: (answer - code).norm().item())
            wrong += not torch.equal(nearest, batch.targets[example, query])
        assert task.error(prediction, batch)[example].item() == pytest.approx(wrong / 3)
    assert task.levels(10) == {"random code": 0.8}


def test_selecting_head_reaches_its_closed_form():
    """Any projection will do for new codes: a random one, and that on the first coordinates."""
    task = Select(SelectSpec(dim=16, points=8, noise=0.5))
    batch = task.sample(20_000, generator(), dtype=DOUBLE)
    rotation = torch.linalg.qr(torch.randn(16, 16, generator=generator(4), dtype=DOUBLE)).Q
    expected = selection_accuracy(16, 6, 8, 0.5)
    for directions in (torch.eye(16, dtype=DOUBLE), rotation):
        head = selecting_head(directions[:6], dtype=DOUBLE)
        right = 1 - task.error(head(batch.queries, batch.points), batch).mean().item()
        assert abs(right - expected) < 3.5 * math.sqrt(expected * (1 - expected) / 20_000)


def test_a_head_of_full_rank_is_exact_search():
    batch = Select(SelectSpec(dim=12, points=9, noise=1.0)).sample(500, generator(), dtype=DOUBLE)
    rotation = torch.linalg.qr(torch.randn(12, 12, generator=generator(4), dtype=DOUBLE)).Q
    ours, exact = selecting_head(rotation, dtype=DOUBLE), exact_nearest(12, dtype=DOUBLE)
    assert torch.equal(ours(batch.queries, batch.points), exact(batch.queries, batch.points))


def test_discriminant_directions_beat_random_ones_on_fixed_codes():
    """8 codes differ in 7 directions: the discriminant sees them all at rank 7."""
    task = Select(SelectSpec(dim=64, points=8, noise=0.5, codebook=1))
    directions = discriminant_directions(task.codes)
    torch.testing.assert_close(directions @ directions.mT, torch.eye(64, dtype=DOUBLE))
    batch = task.sample(4_000, generator(), dtype=DOUBLE)

    def accuracy(projection):
        return 1 - task.error(selecting_head(projection, dtype=DOUBLE)(batch.queries, batch.points), batch).mean()

    assert accuracy(directions[:7]) > 0.995
    assert accuracy(torch.eye(64, dtype=DOUBLE)[:7]) < 0.95


def test_specs_name_it():
    run = parse_toml(
        RunSpec,
        """
        task = { name = "select", dim = 8, points = 4, noise = 0.5 }
        model = { dim = 8, heads = 1, rank = 4, residual = "none", norm = "none" }
        optim = { lr = 0.01, steps = 2, batch = 8 }
        """,
    )
    assert isinstance(build_task(run.task), Select)
    assert run.task.title == "Select among 4 new codes in 8 dimensions, noise 0.5"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"noise": -1.0}, "noise: expected a finite number of at least 0"),
        ({"points": 1}, "points"),
        ({"codebook": 2**63}, "codebook: expected a whole number of at most 64 bits"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        SelectSpec(**{"dim": 8, "points": 4} | fields)


def test_a_model_that_does_not_fit_is_refused():
    task, optim = SelectSpec(dim=8, points=4), OptimSpec(lr=0.01, steps=1, batch=1)
    with pytest.raises(InvalidInputError, match=r"model\.dim"):
        RunSpec(task=task, model=ModelSpec(dim=9, heads=1, rank=1), optim=optim)
    with pytest.raises(InvalidInputError, match="kv_lora_rank"):
        RunSpec(task=task, model=ModelSpec(dim=8, heads=1, rank=1, kv_lora_rank=2), optim=optim)
    batch = Select(task).sample(2, generator())
    with pytest.raises(ShapeError, match="prediction"):
        Select(task).error(batch.points, batch)
