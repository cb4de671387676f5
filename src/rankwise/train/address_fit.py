"""The few numbers of ``rankwise.nn.addresses``, fitted by gradient descent on the iteration that it computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rankwise.nn import one_thread, turned_addresses
from rankwise.tasks import FarthestNeighbor

_BATCH = 256
_RATE = 0.03
_FIRST_STEP = (0.5, 0.05)
_FIRST_LOG_BETA = 2.0


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Steps, beta and gain as ``address_search`` takes them."""

    steps: list[tuple[float, float]]
    beta: float
    gain: float


@one_thread()
def fit_search(task: FarthestNeighbor, layers: int, rank: int, iterations: int, generator: torch.Generator) -> Fitted:
    """Numbers of small error for ``task``, one layer after the other: ``iterations`` for each, all of them moving.

    Fitted all at once, many steps may throw the addresses out of all bounds.
    """
    numbers = torch.tensor([_FIRST_LOG_BETA])
    for layer in range(layers):
        added = torch.tensor(_FIRST_STEP if layer else ())
        start = torch.cat((numbers[:-1], added, numbers[-1:]))
        numbers = _descend(start, lambda now: _error(task, rank, now, generator, _BATCH)[0], iterations)
    return _error(task, rank, numbers, generator, 8 * _BATCH)[1]


def _descend(start: Tensor, error_of: Callable[[Tensor], Tensor], iterations: int) -> Tensor:
    numbers = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([numbers], lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)
    for _ in range(iterations):
        optimizer.zero_grad()
        error_of(numbers).backward()
        torch.nn.utils.clip_grad_norm_([numbers], 1.0)
        optimizer.step()
        schedule.step()
    return numbers.detach()


def _error(
    task: FarthestNeighbor, rank: int, numbers: Tensor, generator: torch.Generator, sequences: int
) -> tuple[Tensor, Fitted]:
    """The mean error on fresh sequences of what ``numbers`` stand for, and that.

    They are turn and push of every step and the logarithm of beta; a push and beta count in units of the mean square of
    the addresses that they meet, which grow from step to step. The best gain is a ratio of sums.
    """
    batch = task.sample(sequences, generator)
    steps: list[tuple[float, float]] = []
    address, rest = batch.points[..., :rank], batch.points[..., rank:]
    for turn, push in numbers[:-1].reshape(-1, 2):
        step = (task.points * turn, task.points * push / _mean_square(address))
        steps.append((step[0].item(), step[1].item()))
        address = turned_addresses(torch.cat((address, rest), dim=-1), rank, [step])
    beta = numbers[-1].exp() / _mean_square(address)
    brought = torch.cat((torch.zeros_like(address), rest), dim=-1) if steps else batch.points
    answers = (-beta * address @ address.mT).softmax(-1) @ brought
    gain = (answers * batch.targets).sum() / answers.square().sum()
    error = (gain * answers - batch.targets).square().sum(-1).mean()
    return error, Fitted(steps=steps, beta=beta.item(), gain=gain.item())


def _mean_square(address: Tensor) -> Tensor:
    return address.detach().square().sum(-1).mean()
