"""A model's own attention inputs: the right vectors, block by block, and training inside the model's pass."""

from dataclasses import replace

import pytest
import torch

from rankwise.models.running.model import running_from
from rankwise.need.measurement import NeedSettings, measure_need
from rankwise.need.model import measure_model_need
from tiny_models import tiny_model

SETTINGS = NeedSettings(steps=2, questions=1000)
TOKENS = torch.randint(0, 50, (12, 20), generator=torch.Generator().manual_seed(0))


def running():
    return running_from(tiny_model("bert").eval(), objective="embedding")


def test_blocks_are_measured_on_what_enters_them():
    model = running()
    inputs = []
    model.watch(TOKENS, lambda call: inputs.append(call.inputs.clone()))
    found = measure_model_need(model, TOKENS, settings=SETTINGS)
    assert [one.name.split(" (")[0] for one in found] == ["layer 0", "layer 1"]
    alone = measure_need(inputs[1].clone().flatten(0, 1), settings=SETTINGS, name=found[1].name)
    assert replace(found[1], heads=()) == alone
    assert found[0].keys == TOKENS.numel()


def test_blocks_can_be_chosen_and_must_exist():
    (only,) = measure_model_need(running(), TOKENS, settings=SETTINGS, blocks=[1])
    assert only.name.startswith("layer 1")
    with pytest.raises(ValueError, match="numbers from 0 to 1, got 7"):
        measure_model_need(running(), TOKENS, settings=SETTINGS, blocks=[7])


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("small", "threads"), [(1 << 24, 1), (0, 2)])
def test_small_matrices_are_measured_on_one_thread(monkeypatch, two_threads, small, threads):
    monkeypatch.setattr("rankwise.need.measurement._SMALL", small)
    seen = []
    vectors = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    measure_need(vectors, settings=SETTINGS, progress=lambda *_: seen.append(torch.get_num_threads()))
    assert set(seen) == {threads}
    assert torch.get_num_threads() == 2
