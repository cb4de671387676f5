from itertools import product

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.spec import NeighborSpec, plain, vary
from rankwise.sweep.plan import flatten
from rankwise.train.loop import Training, train
from rankwise.train.protocols import PAPER_EXAMPLES, PAPER_SEQUENCES, Cell, capacity, paper


def cell(*, dim=64, points=16, **fields):
    task = NeighborSpec(name="farthest", dim=dim, points=points)
    return Cell(**{"task": task, "heads": 1, "rank": 64, "sequences": PAPER_SEQUENCES} | fields)


def few_examples(run):
    return vary(run, {"optim.validation_batches": 1, "optim.validation_batch": 64})


@pytest.mark.parametrize(("width", "parameters"), [(1, 280_898), (8, 397_378), (64, 1_329_218)])
def test_the_papers_parameter_counts_at_every_rank(width, parameters):
    for rank in (1, 2, 4, 8, 16, 32, 64):
        run = paper(cell(heads=width * 64 // rank, rank=rank))
        assert run.model.parameters() == parameters
        assert run.model.average == width
    assert sum(p.numel() for p in Training(few_examples(run)).model.parameters()) == parameters


@pytest.mark.parametrize(("layers", "loss"), [(1, 2.40), (3, 2.27), (5, 2.14)])
def test_the_papers_initial_losses(layers, loss):
    losses = [Training(few_examples(paper(cell(layers=layers, seed=seed)))).validate()[0] for seed in range(8)]
    assert sum(losses) / len(losses) == pytest.approx(loss, abs=0.03)


def test_the_papers_layers_start_equal_and_epoch_zero_moves_nothing():
    small = cell(dim=8, points=4, rank=4, heads=2, layers=3, sequences=25_600 * 20)
    run = vary(paper(small), {"optim.batch": 2, "optim.validation_batch": 2, "optim.validation_batches": 1})
    training = Training(run)
    first, *others = [block.state_dict() for block in training.model.blocks]
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)
    start = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}
    for _ in range(100):
        training.advance()
    assert all(torch.equal(tensor, start[name]) for name, tensor in training.model.state_dict().items())
    training.advance()
    assert not torch.equal(
        training.model.state_dict()["blocks.0.attention.q_weight"], start["blocks.0.attention.q_weight"]
    )


def test_the_papers_budget_and_schedule():
    optim = paper(cell()).optim
    assert (optim.steps, optim.batch, optim.warmup, optim.lr) == (100_000, 256, 5_000, 0.01)
    assert (optim.schedule, optim.betas, optim.weight_decay) == ("paper", (0.9, 0.95), 0.0)
    assert optim.steps * optim.batch == PAPER_SEQUENCES
    assert optim.epoch_steps * optim.batch == optim.examples == PAPER_EXAMPLES, "the same in every epoch"
    assert paper(cell(), lr=0.005) == vary(paper(cell()), {"optim.lr": 0.005})


def test_the_paper_trains_whole_epochs_and_refuses_less_than_one():
    assert paper(cell(sequences=51_199)).optim.steps == 100
    with pytest.raises(InvalidInputError, match=r"sequences: expected at least one epoch of 25,600 .* got 25,599"):
        paper(cell(sequences=25_599))


@pytest.mark.parametrize(("heads", "rank"), [(3, 32), (1, 48), (5, 16)])
def test_shapes_that_the_papers_modules_cannot_have_are_refused(heads, rank):
    with pytest.raises(InvalidInputError, match="heads: expected modules of dim/rank heads"):
        paper(cell(heads=heads, rank=rank))


@pytest.mark.parametrize(("protocol", "missing"), [(paper, 25_599), (capacity, 63)])
@pytest.mark.parametrize("sequences", [25_600, 25_700, 1_000_001])
def test_no_protocol_trains_on_more_than_the_cell_allows(protocol, missing, sequences):
    optim = protocol(cell(sequences=sequences)).optim
    assert sequences - missing <= optim.steps * optim.batch <= sequences


@pytest.mark.parametrize(("name", "number"), [("layers", 0), ("heads", 0), ("rank", 0), ("sequences", 63)])
def test_cells_of_nothing_are_refused(name, number):
    with pytest.raises(InvalidInputError, match=f"^{name}: expected at least"):
        cell(**{name: number})


def test_capacity_trains_every_cell_alike():
    """Over ranks, heads, depths, budgets and points: the specs differ in what the cell names, and in nothing else."""
    grid = product((1, 8, 63, 64, 96), (1, 3, 64, 512), (1, 2, 3, 5), (64_000, 128_000, 1_280_000), (4, 16, 256))
    rest, shares = set(), set()
    for rank, heads, layers, sequences, points in grid:
        keys = dict(
            flatten(plain(capacity(cell(rank=rank, heads=heads, layers=layers, sequences=sequences, points=points))))
        )
        named = [keys.pop(f"model.{name}") for name in ("rank", "heads", "layers")]
        assert [*named, keys.pop("task.points")] == [rank, heads, layers, points]
        steps = keys.pop("optim.steps")
        assert steps * keys["optim.batch"] == sequences
        shares.add(tuple(keys.pop(f"optim.{name}") / steps for name in ("warmup", "epoch_steps")))
        rest.add(repr(keys))
    assert shares == {(0.05, 0.05)}
    assert len(rest) == 1


def test_capacity_of_another_dim_differs_in_the_learning_rate_alone():
    large, small = (capacity(cell(dim=dim, rank=8, sequences=64_000)) for dim in (64, 16))
    assert (large.optim.lr, small.optim.lr) == (0.005, 0.01)
    assert vary(small, {"optim.lr": large.optim.lr}).optim == large.optim


def test_capacity_shows_only_fresh_examples_to_attention_alone():
    run = capacity(cell())
    assert run.optim.examples is None
    assert (run.model.feedforward, run.model.positions, run.model.value_rank) == (0, "none", None)


@pytest.mark.parametrize("layers", [1, 3])
def test_capacity_finds_what_full_rank_can_do(layers):
    run = few_examples(capacity(cell(dim=8, points=4, rank=8, layers=layers, sequences=32_000)))
    assert train(run).error < 0.02 < 1 < Training(run).validate()[0]
