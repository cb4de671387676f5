"""Counted operations against torch's own counter, which sees every matrix product of a real forward pass."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rankwise.spec import ModelSpec, NeighborSpec, OptimSpec, plain
from rankwise.sweep.run_time import (
    NOMINAL,
    Rate,
    corrected,
    forward_flops,
    measured_rate,
    run_calls,
    run_flops,
    run_scores,
    run_seconds,
    wall_seconds,
)
from rankwise.sweep.store import Row
from spec_examples import small_run


def plain_forward(model, queries, points):
    """One example through the products of the layer, written out."""
    a = model.attention
    H, G, R, V, W = a.heads, a.key_heads, a.rank, a.value_dim, a.dim
    x, context = torch.ones(queries, W), torch.ones(points, W)

    def keys_or_values(size):
        return (context @ torch.ones(W, G * size)).reshape(points, G, size).transpose(0, 1).repeat_interleave(H // G, 0)

    for _ in range(model.layers):
        q = (x @ torch.ones(W, H * R)).reshape(queries, H, R).transpose(0, 1)
        scores = torch.bmm(q, keys_or_values(R).transpose(1, 2)).softmax(-1)
        mixed = torch.bmm(scores, keys_or_values(V)).transpose(0, 1).reshape(queries, H * V)
        x = mixed @ torch.ones(H * V, W)
        if model.feedforward:
            x = (x @ torch.ones(W, model.feedforward)) @ torch.ones(model.feedforward, W)


@pytest.mark.parametrize(
    "fields",
    [
        {"heads": 6, "rank": 5, "value_rank": 7, "kv_heads": 3, "feedforward": 11, "layers": 2},
        {"heads": 1, "rank": 8, "residual": "learned"},
        {"heads": 2, "rank": 3, "positions": "concatenated", "position_dim": 4, "max_points": 9},
    ],
)
def test_operations_are_those_torch_counts(fields):
    model = ModelSpec(dim=8, **fields)
    cross = small_run(model=model, task=NeighborSpec(name="nearest", dim=8, points=6, queries=3))
    with FlopCounterMode(display=False) as counter:
        plain_forward(model, queries=3, points=6)
    assert forward_flops(cross) == counter.get_total_flops()
    itself = small_run(model=model, task=NeighborSpec(name="farthest", dim=8, points=6))
    with FlopCounterMode(display=False) as counter:
        plain_forward(model, queries=6, points=6)
    assert forward_flops(itself) == counter.get_total_flops()


def test_a_run_is_three_forwards_a_training_example_and_one_a_validation_example():
    optim = OptimSpec(lr=0.1, steps=250, batch=8, epoch_steps=100, validation_batches=2, validation_batch=32)
    run = small_run(optim=optim)
    assert run_flops(run) == forward_flops(run) * (3 * 250 * 8 + 3 * 2 * 32)


def test_small_models_cost_their_calls():
    """Ten times the work a step is free when the step is all overhead, and costs ten times when it is none."""
    small, large = (small_run(optim=OptimSpec(lr=0.1, steps=100, batch=batch)) for batch in (16, 160))
    only_calls = Rate(flops=1e30, call_seconds=1e-5, score_seconds=0.0, source="")
    only_flops = Rate(flops=1e9, call_seconds=0.0, score_seconds=0.0, source="")
    assert run_seconds(large, only_calls) == pytest.approx(run_seconds(small, only_calls))
    validation = forward_flops(small) * 16 * 256 / 1e9
    assert run_seconds(large, only_flops) - validation == pytest.approx(
        10 * (run_seconds(small, only_flops) - validation)
    )
    assert run_calls(small) == 800 * (100 + 16 / 4)


def test_many_small_heads_cost_their_scores():
    """At equal operations of the projections, 8 heads of rank 1 have 8 times the scores of one of rank 8."""
    one, many = (small_run(model=ModelSpec(dim=8, heads=heads, rank=8 // heads)) for heads in (1, 8))
    queries, points, optim = one.neighbors.queries, one.neighbors.points, one.optim
    validated = -(-optim.steps // optim.epoch_steps) * optim.validation_batches * optim.validation_batch
    assert run_scores(one) == queries * points * (3 * optim.steps * optim.batch + validated)
    assert run_scores(many) == 8 * run_scores(one)
    only_scores = Rate(flops=1e30, call_seconds=0.0, score_seconds=1e-9, source="")
    assert run_seconds(many, only_scores) == pytest.approx(1e-9 * run_scores(many))


def test_wall_time_is_shared_work_but_never_less_than_the_longest_run():
    assert wall_seconds([10.0] * 4, 2) == 20.0
    assert wall_seconds([10.0, 0.1], 2) == 10.0
    assert wall_seconds([], 2) == 0.0


def row(seed, seconds, steps):
    run = small_run(seed=seed)
    empty = dict.fromkeys(
        ("reason", "traceback", "started", "finished", "progress", "versions", "machine", "checkpoint")
    )
    return Row(
        run_id=run.id,
        spec=plain(run),
        status="done",
        attempts=1,
        losses=0,
        result={"error": 0.1, "steps": steps},
        seconds=seconds,
        checkpoint_sha256=None,
        **empty,
    )


def test_finished_runs_correct_the_estimate():
    predicted = run_seconds(small_run(), NOMINAL)
    rows = [row(0, predicted, 20), row(1, 3 * predicted, 20), row(2, 9 * predicted, 20)]
    rate = corrected(NOMINAL, [*rows, row(3, 1e-6, 5)])  # the last one stopped early and says nothing
    assert run_seconds(small_run(), rate) == pytest.approx(3 * predicted)
    assert rate.source.endswith("corrected by 3 finished runs of this store")
    assert corrected(NOMINAL, []) == NOMINAL


def test_runs_of_another_version_do_not_stand_in_the_way():
    """A schedule that this version does not have: its row says nothing, and stops nothing."""
    known = row(0, 2 * run_seconds(small_run(), NOMINAL), 20)
    optim = {**known.spec["optim"], "schedule": "of another version"}
    unknown = replace(known, spec={**known.spec, "optim": optim})
    assert corrected(NOMINAL, [unknown, known]) == corrected(NOMINAL, [known])
    assert corrected(NOMINAL, [unknown]) == NOMINAL


def test_the_machine_is_measured_with_one_thread_and_left_as_it_was():
    threads = torch.get_num_threads()
    rate = measured_rate(seconds=0.02)
    assert rate.flops > 1e7
    assert 0 < rate.call_seconds < 1e-2
    assert 0 < rate.score_seconds < 1e-5
    assert "assumed" in rate.source
    assert torch.get_num_threads() == threads
