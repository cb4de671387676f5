"""Training on token tasks: resumes to the bit, probes what it should, keeps the task's details, learns."""

import hashlib
import json

import pytest
import torch

from rankwise.spec import (
    Curriculum,
    ImagesSpec,
    InContextSpec,
    MatchSpec,
    ModelSpec,
    OptimSpec,
    RunSpec,
    TextSpec,
    plain,
)
from rankwise.spec.read import from_plain
from rankwise.train.checkpoint import State
from rankwise.train.loop import Training, train
from rankwise.train.optimizers import role_of
from rankwise.train.probe import probe_steps


@pytest.fixture
def text(tmp_path):
    content = b"the quick brown fox jumps over the lazy dog. " * 40
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    return TextSpec(context=8, sha256=hashlib.sha256(content).hexdigest(), path=str(path))


def tiny_run(task, **fields):
    optim = OptimSpec(
        optimizer="muon",
        lr=0.01,
        steps=12,
        batch=8,
        micro_batch=4,
        epoch_steps=5,
        validation_batches=2,
        validation_batch=8,
    )
    model = {"dim": 8, "heads": 2, "rank": 2, "layers": 2, "norm_place": "pre", "positions": "additive"}
    model |= {"max_points": task.tokens, "causal": task.interface.causal} | fields.pop("model", {})
    return RunSpec(**{"task": task, "model": ModelSpec(**model), "optim": optim, "probe": 4} | fields)


def every_task(text):
    curriculum = Curriculum(dims_start=1, points_start=3, every=4)
    return {
        "in_context": InContextSpec(function="linear", dim=3, points=5, curriculum=curriculum),
        "match": MatchSpec(name="match3", points=5),
        "text": text,
        "images": ImagesSpec(source="digits", patch=4, shift=1),
    }


def finished(run, *states):
    training = Training(run)
    for state in states:
        training.restore(state)
    while not training.done:
        training.advance()
    return training


@pytest.mark.parametrize("name", ["in_context", "match", "text", "images"])
def test_stopped_and_resumed_a_run_ends_in_the_same_bits(text, name):
    run = tiny_run(every_task(text)[name], model={"kv_lora_rank": 3} if name == "text" else {})
    straight = finished(run)
    for stop in (3, 11):
        training = Training(run)
        for _ in range(stop):
            training.advance()
        saved = training.state()
        # as a checkpoint keeps it: values through JSON, tensors as copies
        values = json.loads(json.dumps(saved.values, allow_nan=False))
        tensors = {key: tensor.clone() for key, tensor in saved.tensors.items()}
        resumed = finished(run, State(run_id=run.id, step=saved.step, tensors=tensors, values=values))
        for key, tensor in straight.state().tensors.items():
            assert torch.equal(tensor, resumed.state().tensors[key]), key
        assert resumed.result().to_json() == straight.result().to_json()


def test_ranks_are_taken_at_the_start_each_quarter_and_the_end(text):
    attention = train(tiny_run(text)).to_json()["attention"]
    assert attention["steps"] == [0, 3, 6, 9, 12]
    assert attention["tokens"] == 8
    hardmax = torch.tensor(attention["hardmax"])
    assert hardmax.shape == (5, 2, 2)  # times, layers, heads
    assert ((hardmax >= 1) & (hardmax <= 8)).all()
    assert not torch.equal(hardmax[0], hardmax[-1])
    assert probe_steps(2000) == {500, 1000, 1500}


def test_probing_changes_no_weights_and_is_part_of_the_identity_only_when_asked_for(text):
    probed, plain_run = tiny_run(text), tiny_run(text, probe=None)
    assert probed.id != plain_run.id
    assert "probe" not in plain(plain_run)
    assert "attention" not in train(plain_run).to_json()
    one, other = Training(probed), Training(probed)
    other._snapshots, other._probed, other._probe_steps = [], [], frozenset()
    for training in (one, other):
        for _ in range(5):
            training.advance()
    for key, tensor in one.state().tensors.items():
        assert torch.equal(tensor, other.state().tensors[key])


def test_details_are_means_over_the_held_out_examples(text):
    tasks = every_task(text)
    result = train(tiny_run(tasks["in_context"]))
    assert len(result.details["by_examples"]) == 5
    assert sum(result.details["by_examples"]) / 5 == pytest.approx(result.error)
    matched = train(tiny_run(tasks["match"]))
    assert 0 < matched.details["yes"] < 1
    assert 0 <= matched.error <= 1
    json.dumps(matched.to_json(), allow_nan=False)


def test_where_the_data_lies_is_not_identity_but_which_data_is(text):
    moved = TextSpec(context=8, sha256=text.sha256, path="/elsewhere.txt")
    other = TextSpec(context=8, sha256="0" * 64, path=text.path)
    assert tiny_run(text).id == tiny_run(moved).id != tiny_run(other).id


@pytest.mark.parametrize("name", ["in_context", "match", "text", "images"])
def test_runs_read_back_equal(text, name):
    run = tiny_run(every_task(text)[name])
    assert from_plain(RunSpec, plain(run)) == run


def test_a_text_model_learns_a_text_that_repeats(text):
    run = tiny_run(text, model={"dim": 16, "rank": 8}, probe=None)
    optim = OptimSpec(lr=0.01, steps=150, batch=16, epoch_steps=50, validation_batches=1, validation_batch=16)
    learning = RunSpec(task=run.task, model=run.model, optim=optim)
    assert train(learning).error < 2.0 < 6.0 < Training(learning).validate()[0]


def test_every_parameter_of_a_token_model_has_a_role(text):
    for latent in (None, 3):
        for task in every_task(text).values():
            model = Training(tiny_run(task, model={"kv_lora_rank": latent})).model
            assert all(role_of(name) for name, _ in model.named_parameters())
