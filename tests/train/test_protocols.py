from dataclasses import replace

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.spec import heads_for_budget, vary
from rankwise.train.loop import Training
from rankwise.train.protocols import Cell, capacity, paper, recall, wide


def cell(**fields):
    return Cell(**{"dim": 64, "points": 16, "layers": 1, "heads": 1, "rank": 64} | fields)


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


def few_examples(run):
    return vary(run, {"optim.validation_batches": 1, "optim.validation_batch": 64})


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
    assert optim.steps * optim.batch == 25_600_000


def test_the_paper_trains_whole_epochs_and_refuses_less_than_one():
    assert paper(cell(sequences=51_199)).optim.steps == 100
    with pytest.raises(InvalidInputError, match=r"sequences: expected at least one epoch of 25,600 .* got 25,599"):
        paper(cell(sequences=25_599))


@pytest.mark.parametrize("protocol", [capacity, wide, recall, paper])
@pytest.mark.parametrize("sequences", [25_600, 25_700, 1_000_001])
def test_no_protocol_trains_on_more_than_the_cell_allows(protocol, sequences):
    optim = protocol(cell(sequences=sequences)).optim
    assert optim.steps * optim.batch <= sequences


@pytest.mark.parametrize("protocol", [capacity, wide, recall])
def test_budgets_below_an_epoch_are_for_the_other_protocols(protocol):
    optim = protocol(cell(sequences=1000)).optim
    assert 900 < optim.steps * optim.batch <= 1000


def test_the_papers_epochs_all_have_the_same_sequences():
    assert paper(cell()).optim.examples == 25_600


@pytest.mark.parametrize(("heads", "rank"), [(3, 32), (1, 48), (5, 16)])
def test_shapes_that_the_papers_modules_cannot_have_are_refused(heads, rank):
    with pytest.raises(InvalidInputError, match="heads: expected modules of dim/rank heads"):
        paper(cell(heads=heads, rank=rank))


@pytest.mark.parametrize("layers", [1, 3, 5])
@pytest.mark.parametrize(("heads", "rank"), [(1, 64), (64, 1), (3, 48), (512, 8)])
def test_capacity_stays_inside_its_fence(layers, heads, rank):
    ours = capacity(cell(layers=layers, heads=heads, rank=rank, sequences=1_280_000))
    model = ours.model
    assert (model.dim, model.layers, model.heads, model.rank) == (64, layers, heads, rank)
    assert model.positions == "none"
    assert model.attention.value_dim == rank
    assert model.feedforward <= 2048
    assert model.parameters() < paper(cell(layers=layers)).model.parameters() or heads * rank > 64
    assert ours.optim.examples is None, "fresh examples, always"
    assert ours.task == cell().task
    assert ours.optim.steps * ours.optim.batch <= 1_280_000
    assert ours.protocol == "capacity"


@pytest.mark.parametrize(
    ("changes", "feedforward"),
    [
        ({"heads": 64, "rank": 8}, 2048),
        ({"heads": 9, "rank": 8}, 2048),
        ({"heads": 128, "rank": 8}, 2048),
        ({"heads": 8, "rank": 8}, 0),
        ({"heads": 512, "rank": 8}, 2048),
        ({"heads": 128, "rank": 4}, 2048),
        ({"heads": 256, "rank": 2}, 2048),
        ({"heads": 255, "rank": 2}, 0),
        ({"heads": 8, "rank": 64}, 0),
        ({"heads": 64, "rank": 8, "layers": 3}, 0),
        ({"heads": 64, "rank": 8, "sequences": 999_999}, 0),
    ],
)
def test_capacity_has_a_feedforward_where_several_heads_of_low_rank_share_a_direction(changes, feedforward):
    run = capacity(cell(**{"sequences": 1_280_000} | changes))
    assert run.model.feedforward == feedforward
    bare = feedforward or run.model.layers > 1  # several layers for the sake of their address
    assert (run.model.norm, run.model.last_residual_start) == (("none", 0.0) if bare else ("unit", None))


@pytest.mark.parametrize(("heads", "rank", "norm"), [(128, 8, "unit"), (129, 8, "none"), (512, 2, "unit")])
def test_capacity_of_a_small_budget_leaves_only_many_heads_without_norm(heads, rank, norm):
    run = capacity(cell(heads=heads, rank=rank, sequences=640_000))
    assert (run.model.norm, run.model.feedforward) == (norm, 0)
    assert run.optim.lr == (0.005 if norm == "none" else 0.0025)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"heads": 64, "rank": 8}, "shared"),
        ({"heads": 512, "rank": 1}, "shared"),
        ({"heads": 128, "rank": 32}, "shared"),
        ({"heads": 63, "rank": 8}, None),
        ({"heads": 8, "rank": 64}, None),
        ({"heads": 64, "rank": 8, "layers": 3}, None),
        ({"heads": 64, "rank": 8, "sequences": 999_999}, None),
    ],
)
def test_capacity_starts_eight_heads_of_low_rank_a_direction_in_groups(changes, start):
    run = capacity(cell(**{"sequences": 1_280_000} | changes))
    assert run.model.head_init == start
    assert (run.optim.lr == 0.001) == (start == "shared"), "at a high rate groups are lost again"


@pytest.mark.parametrize(
    ("changes", "address"),
    [
        ({}, True),
        ({"layers": 2, "heads": 2, "rank": 32}, True),
        ({"layers": 5, "heads": 64, "rank": 1}, True),
        ({"layers": 1}, False),
        ({"heads": 1}, False),
        ({"rank": 64}, False),
        ({"heads": 9}, False),
    ],
)
def test_capacity_starts_deep_low_rank_as_votes_on_an_address(changes, address):
    run = capacity(cell(**{"layers": 3, "heads": 8, "rank": 8, "sequences": 1_280_000} | changes))
    assert (run.model.head_init == "address") == address
    if address:
        assert (run.model.norm, run.model.last_residual_start, run.model.feedforward) == ("none", 0.0, 0)
        assert (run.optim.lr, run.optim.batch, run.optim.steps) == (0.005, 64, 20_000)
        first = next(Training(vary(run, {"optim.validation_batches": 1})).model.attention_layers())
        assert first.o_weight.abs().max() > 0, "an address that is multiplied by nothing is no start"


@pytest.mark.parametrize(("dim", "lr"), [(8, 0.01), (16, 0.01), (32, 0.01), (64, 0.005), (128, 0.0025)])
@pytest.mark.parametrize(("heads", "start", "gain"), [(4, "address", None), (5, None, 0.0)])
def test_deep_low_rank_trains_alike_at_any_budget_with_twice_the_rate_but_no_more_than_heads_alone_may_have(
    heads, start, gain, dim, lr
):
    shape = cell(dim=dim, layers=2, heads=heads, rank=dim // 4)
    few, many = (capacity(replace(shape, sequences=sequences)) for sequences in (6_400, 1_280_000))
    assert few.model == many.model
    assert (few.model.head_init, few.model.branch_gain, few.model.norm) == (start, gain, "none")
    assert (few.model.last_residual, few.model.last_residual_start) == (None, 0.0)
    assert (few.optim.lr, few.optim.batch, few.optim.steps) == (lr, 64, 100)
    assert (many.optim.lr, many.optim.batch, many.optim.steps) == (lr, 64, 20_000)


@pytest.mark.parametrize(
    ("points", "batch", "lr"), [(4, 64, 0.005), (16, 64, 0.005), (64, 16, 0.0025), (256, 4, 0.01 / 16)]
)
def test_deep_low_rank_has_no_more_queries_a_step_than_sixteen_points_ask(points, batch, lr):
    run = capacity(cell(layers=2, heads=128, rank=32, points=points, sequences=16_000))
    assert (run.optim.batch, run.optim.steps, run.optim.lr) == (batch, 16_000 // batch, lr)
    alone = capacity(cell(layers=1, heads=128, rank=32, points=points, sequences=16_000))
    assert alone.optim.batch == 64, "one layer was not tried"


def test_capacity_starts_at_the_length_of_the_targets():
    run = vary(capacity(cell(dim=16, rank=16, points=8)), {"optim.validation_batches": 1})
    model = Training(run).model
    lengths = model(torch.nn.functional.normalize(torch.randn(4, 8, 16), dim=-1)).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones(4, 8), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("heads", "rank", "weighed"), [(1, 63, True), (7, 8, True), (8, 8, False), (1, 64, False)])
def test_capacity_weighs_the_token_itself_where_heads_leave_dimensions_unanswered(heads, rank, weighed):
    model = capacity(cell(heads=heads, rank=rank)).model
    assert (model.last_residual, model.last_residual_start) == ((None, 0.0) if weighed else (False, None))


@pytest.mark.parametrize(("rank", "schedule"), [(63, "cosine"), (64, "scales"), (96, "scales")])
def test_capacity_anneals_full_rank_over_every_scale(rank, schedule):
    assert capacity(cell(heads=1, rank=rank)).optim.schedule == schedule


@pytest.mark.parametrize("layers", [1, 3, 5])
@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("rank", [1, 2, 4, 8, 16, 32, 64])
def test_wide_has_the_heads_of_the_figure_and_at_most_the_papers_parameters(layers, exponent, rank):
    shape = cell(layers=layers, heads=heads_for_budget(64, rank, exponent), rank=rank, sequences=640_000)
    ours = wide(shape)
    base = capacity(replace(shape, layers=1))
    assert ours.model.parameters() <= paper(shape).model.parameters()
    assert ours.model.norm == "none"
    assert vary(ours, {"model.value_rank": None, "model.norm": base.model.norm, "model.layers": 1}).model == base.model
    assert (ours.protocol, ours.task) == ("wide", base.task)
    assert ours.optim == vary(base, {"optim.lr": 0.0025}).optim
    longer = wide(replace(shape, sequences=1_280_000))
    assert longer.model == ours.model, "also where capacity has a feed-forward by then"
    assert longer.optim == capacity(replace(shape, heads=1, sequences=1_280_000)).optim


@pytest.mark.parametrize(("heads", "rank", "value_rank"), [(64, 1, 33), (8, 8, 64), (512, 8, 12), (4096, 1, 1)])
def test_wide_gives_the_weights_of_the_feedforward_to_the_values(heads, rank, value_rank):
    assert wide(cell(heads=heads, rank=rank)).model.value_rank == value_rank


def test_wide_values_answer_in_all_dimensions_where_those_of_capacity_do_not():
    """One head of rank 8 with whole values leaves no dimension to -x_i."""
    assert capacity(cell(heads=1, rank=8)).model.last_residual_start == 0
    model = wide(cell(heads=1, rank=8)).model
    assert (model.last_residual, model.last_residual_start) == (False, None)
    few = wide(cell(dim=4096, heads=1, rank=8)).model
    assert (few.value_rank, few.last_residual, few.last_residual_start) == (2056, None, 0.0)


@pytest.mark.parametrize(("heads", "rank"), [(1, 64), (8, 8), (64, 1), (512, 8)])
def test_recall_is_capacity_on_the_papers_training_set(heads, rank):
    """An epoch of both is one pass over as many sequences, so that ``train_min`` is one statistic. Heads of d^3
    parameters are to it what one head a direction is to ``capacity``."""
    shape = cell(heads=heads, rank=rank, sequences=1_280_000)
    base = vary(capacity(replace(shape, heads=64 // rank)), {"model.heads": heads})
    ours, authors = recall(shape), paper(shape)
    assert ours.optim.examples == authors.optim.examples
    assert ours.optim.epoch_steps * ours.optim.batch == authors.optim.epoch_steps * authors.optim.batch == 25_600
    assert ours.optim.steps * ours.optim.batch == 1_280_000
    assert vary(ours, {"model.feedforward": 0}).model == base.model
    assert ours.model.feedforward == authors.model.feedforward
    assert (ours.protocol, ours.task, ours.optim.schedule) == ("recall", base.task, base.optim.schedule)


@pytest.mark.parametrize(("heads", "rank"), [(512, 1), (64, 8), (16, 32)])
def test_recall_trains_the_model_of_capacity_where_that_starts_in_groups(heads, rank):
    shape = cell(heads=heads, rank=rank, sequences=1_280_000)
    assert recall(shape).model == capacity(shape).model
    assert recall(shape).model.head_init == "shared"
    assert recall(replace(shape, sequences=999_999)).model.head_init is None


@pytest.mark.parametrize("layers", [3, 5])
def test_recall_starts_deep_low_rank_where_capacity_does_and_its_feedforwards_as_nothing(layers):
    shape = cell(layers=layers, heads=8, rank=8, sequences=1_280_000)
    silent = {"model.feedforward": 0, "model.branch_gain": None}
    assert vary(recall(shape), silent).model == capacity(shape).model
    assert (recall(shape).model.branch_gain, recall(shape).model.head_init) == (0.0, "address")
    assert recall(replace(shape, sequences=64_000)).model == recall(shape).model
    for changes in ({"heads": 9}, {"rank": 64}, {"layers": 1}):
        assert recall(replace(shape, **changes)).model.head_init is None


def test_recall_has_large_hidden_units_and_no_norm_where_several_heads_weigh_no_more_than_a_feedforward():
    shape = cell(heads=64, rank=8, sequences=640_000)
    ours = recall(shape)
    assert (ours.model.norm, ours.model.feedforward_gain) == ("none", 16.0)
    plain = vary(ours, {"model.norm": "unit", "model.feedforward_gain": None, "model.feedforward": 0})
    assert plain.model == capacity(shape).model
    assert ours.optim.lr_multipliers.feedforward > recall(cell(heads=8, rank=8)).optim.lr_multipliers.feedforward
    many = recall(cell(heads=512, rank=8))
    assert (many.model.norm, many.model.feedforward_gain, many.model.feedforward) == ("unit", None, 2048)
