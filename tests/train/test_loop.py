import json
import math

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.spec import ModelSpec, NeighborSpec, OptimSpec, RunSpec, plain, vary
from rankwise.train import loop
from rankwise.train.contract import Diverged, Stopped
from rankwise.train.loop import Training, run_entry, train
from spec_examples import small_run
from training_runs import Context, finished, thirty_steps


def test_checkpoints_come_by_wall_time(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_EVERY", 0.0)
    context = Context(tmp_path)
    run_entry(plain(thirty_steps()), context)
    assert [step for _, _, step in context.checkpoints] == [*range(30), 30]
    path, sha256, _ = context.checkpoints[-1]
    assert list(tmp_path.iterdir()) == [path]
    assert sha256 in path.name


def test_a_finished_run_asked_again_answers_from_its_checkpoint(tmp_path):
    run = thirty_steps()
    one = Context(tmp_path)
    first = run_entry(plain(run), one)
    again = Context(tmp_path)
    assert run_entry(plain(run), again) == first
    assert again.reports == []
    assert again.checkpoints == one.checkpoints, "told again, as the driver may have died before it noted the file"


def test_a_task_without_details_runs_the_model_on_one_batch_to_say_so():
    training = Training(vary(thirty_steps(), {"optim.validation_batches": 3}))
    calls = []
    training.model.register_forward_hook(lambda *_: calls.append(1))
    assert training.details() == {}
    assert len(calls) == 1


def test_a_resumed_run_tells_the_checkpoint_it_goes_on_from(tmp_path):
    run = thirty_steps()
    stopped = Context(tmp_path, 12)
    with pytest.raises(Stopped):
        run_entry(plain(run), stopped)
    resumed = Context(tmp_path)
    run_entry(plain(run), resumed)
    assert resumed.checkpoints[:1] == stopped.checkpoints
    assert [step for _, _, step in resumed.checkpoints] == [12, 30]
    assert stopped.seconds_before is None
    assert resumed.seconds_before > 0


def test_the_result_is_strict_json_and_a_function_of_the_spec():
    run = thirty_steps()
    torch.manual_seed(1)
    one = train(run).to_json()
    torch.manual_seed(2)  # the global generator must not matter
    drawn = torch.rand(1)
    torch.manual_seed(2)
    other = train(run).to_json()
    assert one == other
    assert torch.equal(torch.rand(1), drawn)  # nor be touched
    assert json.loads(json.dumps(one, allow_nan=False)) == one
    assert train(thirty_steps(seed=1)).error != one["error"]
    assert one["sequences"] == 240
    assert one["curve"]["steps"] == [7, 14, 21, 28, 30]
    assert one["train_min"] == min(one["curve"]["train"][:4])
    assert one["parameters"] == run.model.parameters()


def test_training_lowers_the_error_and_the_standard_error_is_that_of_a_mean():
    optim = OptimSpec(lr=0.01, steps=150, batch=64, epoch_steps=50, validation_batches=4, validation_batch=128)
    model = ModelSpec(dim=4, heads=2, rank=4, residual="none", norm="none", bias=False)
    task = NeighborSpec(name="nearest", dim=4, points=2, distribution="orthogonal")
    run = RunSpec(task=task, model=model, optim=optim)
    result = train(run)
    assert result.error < 0.4 < 0.9 * Training(run).validate()[0]
    errors = [train(RunSpec(task=task, model=model, optim=optim, seed=0)).error]
    assert errors[0] == result.error
    # validated on other examples the error moves by what its standard error says
    training = finished(run)
    others = []
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        batch = training._task.sample(512, generator)
        with torch.no_grad():
            others.append(training._task.error(training.model(*batch.inputs), batch).mean().item())
    spread = torch.tensor(others).std().item()
    assert 0.6 < result.error_se / spread < 1.6


def test_micro_batches_change_nothing_but_rounding():
    optim = {"lr": 0.01, "steps": 20, "batch": 12, "validation_batches": 1, "validation_batch": 32}
    whole = train(small_run(optim=OptimSpec(**optim), dtype="float64"))
    training = Training(small_run(optim=OptimSpec(**optim), dtype="float64"))
    pieces = Training(small_run(optim=OptimSpec(**optim, micro_batch=4), dtype="float64"))
    # ids differ, so the data would too: give both the same
    pieces.restore(training.state())
    pieces._held_out = training._held_out
    while not pieces.done:
        pieces.advance()
    assert pieces.result().error == pytest.approx(whole.error, rel=1e-9)


def test_with_examples_set_the_same_ones_come_again_and_can_be_learned_by_heart(monkeypatch):
    """Eight sequences, over and over: always the same batches, and the training error leaves the held-out one."""
    held_out = {"validation_batches": 1, "validation_batch": 64}
    optim = OptimSpec(lr=0.01, steps=200, batch=4, examples=8, epoch_steps=100, **held_out)
    training = Training(small_run(optim=optim, model=ModelSpec(dim=8, heads=2, rank=4, feedforward=64)))
    drawn = []
    task = type(training._task)
    sample = task.training_batch

    def noted(*args, **named):
        drawn.append(sample(*args, **named))
        return drawn[-1]

    monkeypatch.setattr(task, "training_batch", noted)
    while not training.done:
        training.advance()
    points = torch.stack([batch.inputs[0] for batch in drawn])
    assert torch.equal(points, points[:2].repeat(100, 1, 1, 1))
    assert not torch.equal(points[0], points[1])
    result = training.result()
    assert result.train_min < result.error / 2


def test_examples_that_are_not_whole_batches_are_refused():
    with pytest.raises(InvalidInputError, match="examples: expected a multiple of batch = 4, got 6"):
        OptimSpec(lr=0.01, steps=1, batch=4, examples=6)


def test_clip_bounds_the_gradient():
    free = Training(small_run(optim=OptimSpec(lr=0.0, steps=5, batch=16)))
    free._accumulate_gradients(free._task.sample(16, free._data))
    norm = free._gradient_norm().item()
    seen = []
    clipped = Training(small_run(optim=OptimSpec(lr=0.0, steps=5, batch=16, clip=norm / 10)))
    clipped._optimizers[0].step = lambda: seen.append(clipped._gradient_norm().item())
    clipped.advance()
    assert seen[0] == pytest.approx(norm / 10, rel=0.05) or seen[0] <= norm / 10 * 1.001


def test_early_stop_is_recorded_and_counts_only_the_steps_made():
    optim = OptimSpec(lr=0.0, steps=1000, batch=4, epoch_steps=3, patience=2, validation_batches=1)
    result = train(small_run(optim=optim))
    assert result.stopped_early
    assert result.steps == 9  # the first epoch sets the mark, two do not lower it
    assert result.sequences == 36
    assert not train(small_run(optim=OptimSpec(lr=0.0, steps=9, batch=4, epoch_steps=3, patience=2))).stopped_early


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("nearest", {"distribution": "orthogonal", "queries": 3}),
        ("farthest", {"distribution": "power_law", "alpha": 1.0}),
        ("biased", {"distribution": "orthogonal", "biases": (0.1, -0.2), "coefficients": (1.0, 2.0)}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_every_task_and_dtype_trains(name, fields, dtype):
    points = 4 if name == "nearest" else 2
    run = small_run(
        task=NeighborSpec(name=name, dim=8, points=points, **fields),
        optim=OptimSpec(lr=0.01, steps=3, batch=4, validation_batches=1, validation_batch=8),
        dtype=dtype,
    )
    assert math.isfinite(train(run).error)
    assert next(Training(run).model.parameters()).dtype == getattr(torch, dtype)


class TestDivergence:
    def test_a_learning_rate_of_a_million(self):
        optim = OptimSpec(lr=1e6, steps=100, batch=8, validation_batches=1)
        for norm in ("none", "rms", "unit"):
            model = ModelSpec(dim=8, heads=2, rank=4, norm=norm, feedforward=8)
            with pytest.raises(Diverged, match=r"diverged at step \d+: the (loss|norm)"):
                train(small_run(model=model, optim=optim))

    @pytest.mark.parametrize("poison", [float("nan"), float("inf")])
    def test_a_poisoned_batch_stops_before_the_optimiser_step(self, poison):
        training = Training(thirty_steps())
        for _ in range(4):
            training.advance()
        before = training.state()
        weights = {name: tensor.clone() for name, tensor in before.tensors.items() if not name.startswith("generator")}
        draw = training._task.sample

        def poisoned(*args, **kwargs):
            batch = draw(*args, **kwargs)
            batch.targets[0, 0, 0] = poison
            return batch

        object.__setattr__(training._task, "sample", poisoned)
        with pytest.raises(Diverged) as caught:
            training.advance()
        assert caught.value.step == 4
        after = training.state().tensors
        assert all(torch.equal(tensor, after[name]) for name, tensor in weights.items())

    def test_a_gradient_that_overflows_where_the_loss_does_not(self):
        training = Training(small_run())
        training.model.blocks[0].attention.q_weight.register_hook(lambda grad: grad * float("inf"))
        with pytest.raises(Diverged, match="norm of the gradient"):
            training.advance()


def test_generalised_heads_train_and_are_counted():
    bare = {"norm": "none", "residual": "none", "bias": False}
    spec = ModelSpec(dim=4, heads=3, rank=2, generalized=5, **bare)
    run = RunSpec(
        task=NeighborSpec(name="nearest", dim=4, points=2, distribution="orthogonal"),
        model=spec,
        optim=OptimSpec(lr=0.01, steps=200, batch=64),
    )
    training = Training(run)
    assert sum(p.numel() for p in training.model.parameters()) == spec.parameters()
    assert train(run).error < 0.36 < 0.8 * training.validate()[0]
