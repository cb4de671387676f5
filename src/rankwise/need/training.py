"""A form of given rank, trained to retrieve: gradient descent from the SVD form on a softened error.

For candidates with scores t_j = beta a(q).b(x_j) the loss is what soft retrieval loses, relative to a random key::

    sum_j softmax(t)_j ||x_j - x*||^2  /  mean_j ||x_j - x*||^2

Many queries choose among the same candidates, so one matrix product serves thousands of questions. What comes out is
the snapshot that retrieves best on validation queries, which took no part in training; the SVD form, unless the gain
over it is more than two standard errors of the paired difference, lest chance be taken for learning. A better form may
exist: a need found with it is an upper estimate.

Legend: Q queries, G sets of N candidates, D dim, P coordinates, R rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.need.forms import Form
from rankwise.need.retrieval import CandidateSets, Pool, retrieve

_QUERIES_A_STEP, _KEYS_A_STEP = 256, 256
_LEARNING_RATE = 0.01
_SHARPNESS = 10.0  # of the softmax at first: standard deviation of the scores of the candidates
_SNAPSHOTS = 4
_WARM_UP = 10
_SIGNIFICANT = 2.0
_KEPT_DISTANCES = 2**26  # numbers, over all steps: 256 MB, up to 1310 candidates in 200 steps


@dataclass(frozen=True)
class Trainer:
    """What the forms of all ranks are trained on: ``start`` is the SVD form of full rank."""

    training: Pool
    validation: Pool
    questions: CandidateSets
    start: Form
    candidates: int
    steps: int
    seed: int

    def best(self, rank: int) -> tuple[Form, str]:
        """The best form of that rank on the validation queries, and whether it is the "svd" or a "trained" one."""
        svd = self.start.first(rank)
        if rank >= self.start.rank or not self.steps:
            return svd, "svd"
        plain = self._lost(svd)
        gains = [(_gain(plain, self._lost(form)), form) for form in self._snapshots(rank)]
        gain, trained = max(gains, key=lambda entry: entry[0])
        return (trained, "trained") if gain > _SIGNIFICANT else (svd, "svd")

    def _lost(self, form: Form) -> Float[Tensor, " Q"]:
        pool = self.validation
        return retrieve(self.questions, pool.queries @ form.left, pool.keys @ form.right).lost

    def _snapshots(self, rank: int) -> list[Form]:
        queries, keys = self.training.queries @ self.start.left, self.training.keys @ self.start.right
        spread = float((queries[:512] @ keys[:512].mT).std(1).mean())
        left = torch.eye(self.start.rank)[:, :rank].clone().requires_grad_()
        right = left.detach().clone().requires_grad_()
        sharpness = torch.tensor(math.log(_SHARPNESS / max(spread, 1e-30))).requires_grad_()
        optimizer = torch.optim.Adam([left, right, sharpness], lr=_LEARNING_RATE)
        taken = []
        for step, (asked, members) in enumerate(self._questions):
            distances = self._distances(asked, members) if self._kept is None else self._kept[step]
            for group in optimizer.param_groups:
                group["lr"] = _LEARNING_RATE * min(1.0, (step + 1) / _WARM_UP) * (1 - step / self.steps)
            scores = (queries[asked] @ left) @ (keys[members.flatten()] @ right).mT
            chances = (scores.view(len(asked), *members.shape) * sharpness.exp()).softmax(-1)
            loss = (chances * distances).sum() / distances.mean(-1).sum().clamp(min=1e-30)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (step + 1) % max(1, self.steps // _SNAPSHOTS) == 0:
                taken.append(Form(self.start.left @ left.detach(), self.start.right @ right.detach()))
        return taken

    @cached_property
    def _questions(self) -> list[tuple[Tensor, Tensor]]:
        """Queries asked [Q] and members of the sets of candidates [G, N] of every step, for all ranks."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn = []
        for _ in range(self.steps):
            asked = torch.randint(len(self.training.queries), (_QUERIES_A_STEP,), generator=generator)
            drawn.append((asked, self._candidate_sets(generator)))
        return drawn

    @property
    def _many_distances(self) -> bool:
        return _QUERIES_A_STEP * max(_KEYS_A_STEP, self.candidates) * self.steps > _KEPT_DISTANCES

    @cached_property
    def _kept(self) -> list[Tensor] | None:
        """The distances of every step, None where they would fill the memory and are found again for each rank."""
        return None if self._many_distances else [self._distances(asked, members) for asked, members in self._questions]

    def _candidate_sets(self, generator: torch.Generator) -> Tensor:
        """Different keys in every set [G, N]; a query may meet itself, which is no question and does no harm."""
        sets = max(1, min(_KEYS_A_STEP, len(self.training.keys)) // self.candidates)
        if len(self.training.keys) > 64 * sets * self.candidates:  # repetitions are rare
            return torch.randint(len(self.training.keys), (sets, self.candidates), generator=generator)
        order = torch.randperm(len(self.training.keys), generator=generator)
        return order[: sets * self.candidates].view(sets, self.candidates)

    def _distances(self, asked: Tensor, members: Tensor) -> Float[Tensor, "Q G N"]:
        """Squared distances from every key to the nearest of its set, for every query."""
        keys = self.training.keys[members]
        nearest = torch.einsum("qd,gnd->qgn", self.training.queries[asked], keys).argmax(-1)
        squares = keys.square().sum(-1)
        groups = torch.arange(len(members))
        if self.candidates <= len(asked) or not self._many_distances:
            apart = (squares.unsqueeze(1) + squares.unsqueeze(2) - 2 * keys @ keys.mT).clamp(min=0)
            return apart[groups, nearest]
        # only from keys that are nearest to a query: those between all of so many candidates are too many
        across = torch.einsum("qgd,gnd->qgn", keys[groups, nearest], keys)
        return (squares[groups, nearest].unsqueeze(-1) + squares - 2 * across).clamp(min=0)


def _gain(before: Float[Tensor, " Q"], after: Float[Tensor, " Q"]) -> float:
    """How much less is lost, in standard errors of the mean over queries."""
    saved = before - after
    return float(saved.mean() / (saved.std() / math.sqrt(len(saved))).clamp(min=1e-30))
