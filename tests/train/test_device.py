import dataclasses

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.spec import ModelSpec, NeighborSpec
from rankwise.sweep.plan import on_device, plan_sweep
from rankwise.tasks import build_task
from rankwise.train.build import build_model
from rankwise.train.checkpoint import read_checkpoint, write_checkpoint
from rankwise.train.device import device_name, pick_device
from rankwise.train.loop import Training, train
from rankwise.train.optimizers import Muon, build_optimizers
from spec_examples import seeds_sweep, small_run

no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without CUDA")


@no_cuda
def test_auto_takes_the_cpu_where_there_is_nothing_else():
    assert pick_device("auto") == pick_device("cpu") == torch.device("cpu")
    assert device_name(pick_device("auto")) == "cpu"


@no_cuda
def test_cuda_where_there_is_none_is_refused_with_the_way_out():
    with pytest.raises(InvalidInputError, match=r"device: expected a CUDA device .* got none; use cpu or auto"):
        train(small_run(device="cuda"))


def test_auto_takes_cuda_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Imaginary 1")
    assert pick_device("auto") == torch.device("cuda")
    assert device_name(pick_device("auto")) == "cuda (Imaginary 1)"


def test_the_device_is_recorded_and_changes_neither_ids_nor_seeds():
    plan = plan_sweep(seeds_sweep(3))
    moved = on_device(plan, "auto")
    assert [run.id for run in moved.runs] == [run.id for run in plan.runs]
    assert [run.spec.id for run in moved.runs] == [run.id for run in plan.runs]
    assert {run.spec.device for run in moved.runs} == {"auto"}
    assert train(small_run()).device == "cpu"


@no_cuda
def test_a_checkpoint_continues_under_another_device_name(tmp_path):
    run = small_run()
    begun, straight = Training(run), Training(run)
    for _ in range(7):
        begun.advance()
    write_checkpoint(tmp_path, begun.state())
    other = Training(dataclasses.replace(run, device="auto"))
    other.restore(read_checkpoint(tmp_path, run.id))
    for training in (other, straight):
        while not training.done:
            training.advance()
    assert dataclasses.replace(other.result(), seconds=0) == dataclasses.replace(straight.result(), seconds=0)


def test_checkpoints_hold_cpu_tensors_only(tmp_path):
    training = Training(small_run())
    training.advance()
    write_checkpoint(tmp_path, training.state())
    assert {tensor.device.type for tensor in read_checkpoint(tmp_path, training.run.id).tensors.values()} == {"cpu"}


@pytest.mark.parametrize(
    "run",
    [
        small_run(),
        small_run(
            task=NeighborSpec(name="farthest", dim=8, points=4),
            model=ModelSpec(dim=8, heads=4, rank=8, kv_heads=2, layers=2, feedforward=16, temperature="learned"),
        ),
        small_run(model=ModelSpec(dim=8, heads=2, rank=4, generalized=6, residual="none", bias=False, norm="none")),
    ],
    ids=["one layer", "two layers", "generalised"],
)
def test_no_part_of_a_training_step_stays_behind_on_the_cpu(run):
    """On the meta device nothing is computed, but every operation that mixes devices raises, as CUDA would."""
    model, task = build_model(run, "meta"), build_task(run.task)
    batch = task.sample(4, torch.Generator().manual_seed(0)).to("meta")
    inputs = (batch.points,) if batch.queries is None else (batch.queries, batch.points)
    error = task.error(model(*inputs), batch).mean()
    error.backward()
    assert error.device.type == "meta"
    assert {p.grad.device.type for p in model.parameters() if p.grad is not None} == {"meta"}
    muon = Muon([{"params": [p for p in model.parameters() if p.ndim >= 2]}], lr=0.1)
    muon.step()
    assert {tensor.device.type for state in muon.state.values() for tensor in state.values()} == {"meta"}


def test_optimiser_states_follow_their_parameters():
    """Loaded from CPU tensors, they take the place and type of the weights they belong to."""
    run = small_run(dtype="float64")
    trained = Training(run)
    trained.advance()
    (saved,) = (optimizer.state_dict() for optimizer in trained._optimizers)
    as_half = {k: {n: t.float() for n, t in entries.items()} for k, entries in saved["state"].items()}
    (fresh,) = build_optimizers(build_model(run), run.optim)
    fresh.load_state_dict(fresh.state_dict() | {"state": as_half})
    assert {entries["exp_avg"].dtype for entries in fresh.state.values()} == {torch.float64}
