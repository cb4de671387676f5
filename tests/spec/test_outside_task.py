"""A task of another package: its spec, its class and one line of registration, and it trains like ours."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
import torch
from torch.nn.functional import cross_entropy

from rankwise.errors import InvalidInputError, SpecError
from rankwise.report.settings import settings_of
from rankwise.spec import (
    ModelSpec,
    OptimSpec,
    RunSpec,
    TaskSpec,
    TokenInterface,
    parse_toml,
    plain,
    register_task,
    task,
)
from rankwise.sweep.session import require_data
from rankwise.tasks import TokenBatch, levels_of
from rankwise.train.loop import train


@dataclass(frozen=True)
class Largest:
    """For each of ``points`` numbers below ``numbers``: which is the largest?"""

    spec: "LargestSpec"

    def training_batch(self, size, generator, *, step, dtype):
        tokens = torch.randint(self.spec.numbers, (size, self.spec.points), generator=generator)
        return TokenBatch(tokens, tokens.max(dim=1, keepdim=True).values.expand(-1, self.spec.points))

    def held_out(self, batches, size, generator, *, dtype):
        return [self.training_batch(size, generator, step=0, dtype=dtype) for _ in range(batches)]

    def loss(self, prediction, batch):
        return cross_entropy(prediction.mT, batch.targets, reduction="none").mean(dim=1)

    def error(self, prediction, batch):
        return (prediction.argmax(dim=2) != batch.targets).float().mean(dim=1)

    def details(self, prediction, batch):
        return {}

    def levels(self, examples):
        (batch,) = self.held_out(1, examples, torch.Generator().manual_seed(0), dtype=torch.float32)
        return {"commonest": float((batch.targets != batch.targets.flatten().mode().values).float().mean())}


@dataclass(frozen=True, kw_only=True)
class LargestSpec(TaskSpec):
    builder: ClassVar[str] = f"{__name__}:Largest"
    unit: ClassVar[str] = "share of wrong answers"
    performance: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[bool] = False

    name: Literal["largest"] = "largest"
    points: int
    numbers: int = 16

    @property
    def tokens(self):
        return self.points

    @property
    def interface(self):
        return TokenInterface(vocabulary=self.numbers, outputs=self.numbers)

    @property
    def title(self):
        return f"Largest of {self.points} numbers below {self.numbers}"


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(task, "_TASKS", dict(task._TASKS))
    register_task(LargestSpec)


TOML = """
protocol = "custom"
task = { name = "largest", points = 4 }
model = { dim = 16, heads = 2, rank = 8 }
optim = { lr = 0.01, steps = 300, batch = 64, validation_batches = 4 }
"""


def test_an_unknown_task_is_refused_with_those_there_are():
    with pytest.raises(SpecError, match=r"task.name: expected one of .*'nearest'.*, got 'largest'"):
        parse_toml(RunSpec, TOML)


def test_a_registered_task_is_read_trained_and_reported(registered):
    run = parse_toml(RunSpec, TOML)
    assert run.task == LargestSpec(points=4)
    assert parse_toml(RunSpec, TOML).id == run.id
    assert plain(run)["task"] == {"name": "largest", "points": 4, "numbers": 16}
    require_data([run])
    result = train(run)
    assert result.error < levels_of(run.task)["commonest"] / 2
    (setting,) = settings_of([run], [result.to_json()])
    assert (setting.title, setting.task.unit) == ("Largest of 4 numbers below 16", "share of wrong answers")


def test_a_model_that_cannot_read_it_is_refused(registered):
    with pytest.raises(InvalidInputError, match=r"generalized: expected none for 'largest'"):
        RunSpec(
            task=LargestSpec(points=4),
            model=ModelSpec(dim=4, heads=1, rank=2, generalized=4, norm="none", residual="none", bias=False),
            optim=OptimSpec(lr=0.1, steps=1, batch=1),
        )
