"""What one look at a training says, and when a head gives an alarm.

Legend: T sequences, H heads, N queries, M keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rankwise.audit import barrier, seen_mask
from rankwise.errors import InvalidInputError, require_number
from rankwise.measure import effective_rank, hardmax_rank


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Below which share of its baseline a head gives an alarm: a heuristic, with a measured rate of false alarms.

    At initialisation none of 3,200 heads of five kinds of models gave one (``benchmarks/watching.py``): a rate below
    0.1 % with 95 % confidence, if heads count as independent.
    """

    collapse: float = 0.1
    """Of the attention rank of random attention, or of the QK effective rank of random weights. Every rank is at least
    1, so that sequences of fewer than about 20 tokens give no alarm by their attention rank."""
    saturation: float = 0.05
    """Of the entropy of uniform attention: the softmax is nearly one-hot, and its scores get hardly any gradient."""

    def __post_init__(self) -> None:
        for name in ("collapse", "saturation"):
            if require_number(name, getattr(self, name), minimum=0.0) > 1:
                raise InvalidInputError(f"{name}: expected a share from 0 to 1, got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class HeadReading:
    """One head at one step, each number beside its baseline."""

    layer: str
    """The module's path."""
    head: int
    attention_rank: float
    """Hardmax rank, the mean over sequences."""
    attention_rank_random: float
    """The same where every row picks a key at random among those that the mask shows it."""
    entropy: float
    """Of a row of attention, in nats; the mean over rows."""
    entropy_uniform: float
    """Of rows that are uniform over what they see."""
    qk_effective: float | None
    """Effective rank of the query-key form: of the weights ``W_Q^T W_K``, and in models of ``transformers``, which do
    not say where those lie, of the first sequence's ``q k^T``; None in latent attention."""
    qk_effective_random: float | None
    """The same for Gaussian numbers of the same shapes."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """A head that is far below its baseline."""

    kind: str
    """``"collapse"`` or ``"saturation"``."""
    layer: str
    head: int
    measure: str
    """Which reading it is about."""
    share: float
    """Of the baseline."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.layer} head {self.head}: {self.measure} is {self.share:.1%} of its baseline"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """All heads at one step."""

    step: int
    heads: tuple[HeadReading, ...]
    alarms: tuple[Alarm, ...]


def attention_readings(
    name: str, weights: Float[Tensor, "T H N M"], qk: tuple[list[float], float] | None
) -> list[HeadReading]:
    """The readings of all heads of one layer; the mask is read off the zeros of ``weights``.

    - ``qk``: effective rank of every head's QK form, and that of Gaussian weights.
    """
    weights = weights.detach().float()
    visible: Bool[Tensor, "N M"] = (weights > 0).flatten(0, 1).any(0)
    entropy = torch.special.entr(weights).sum(-1)
    sees = weights.sum(-1) > 0
    ranks = hardmax_rank(weights.masked_fill(~sees[..., None], -torch.inf)).double().mean(0)
    entropies = (entropy * sees).sum((0, 2)) / sees.sum((0, 2)).clamp(min=1)
    counts = visible.sum(-1)
    uniform = float(counts[counts > 0].double().log().mean()) if bool(visible.any()) else 0.0
    mask = seen_mask(visible.cpu())
    queries, keys = weights.shape[2:]
    random = barrier(queries, keys, None if mask.kind == "full" else visible.cpu())
    return [
        HeadReading(
            layer=name,
            head=head,
            attention_rank=float(ranks[head]),
            attention_rank_random=random,
            entropy=float(entropies[head]),
            entropy_uniform=uniform,
            qk_effective=None if qk is None else qk[0][head],
            qk_effective_random=None if qk is None else qk[1],
        )
        for head in range(weights.shape[1])
    ]


def alarms_of(heads: list[HeadReading], thresholds: Thresholds) -> tuple[Alarm, ...]:
    """Every head that is below a threshold, once per kind."""
    found = []
    for head in heads:
        of_rank = head.attention_rank / head.attention_rank_random
        of_qk = None if head.qk_effective is None or not head.qk_effective_random else (
            head.qk_effective / head.qk_effective_random
        )  # fmt: skip
        measure, share = ("attention rank", of_rank)
        if of_qk is not None and of_qk < share:
            measure, share = ("QK effective rank", of_qk)
        if share < thresholds.collapse:
            found.append(Alarm(kind="collapse", layer=head.layer, head=head.head, measure=measure, share=share))
        if head.entropy_uniform and head.entropy < thresholds.saturation * head.entropy_uniform:
            share = head.entropy / head.entropy_uniform
            found.append(Alarm(kind="saturation", layer=head.layer, head=head.head, measure="entropy", share=share))
    return tuple(found)


def gaussian_effective_rank(dim: int, context_dim: int, rank: int, draws: int = 4, seed: int = 0) -> float:
    """Mean effective rank of ``W_Q^T W_K`` for Gaussian W_Q [rank, dim], W_K [rank, context_dim], by simulation."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(draws, rank, dim, generator=generator)
    k = torch.randn(draws, rank, context_dim, generator=generator)
    return float(effective_rank(singular_values=qk_singular_values(q, k)).mean())


def qk_singular_values(q: Float[Tensor, "H R D"], k: Float[Tensor, "H R C"]) -> Float[Tensor, "H S"]:
    """Singular values of ``W_Q^T W_K`` of every head, from Gram matrices of the smaller side.

    ``W_Q^T W_K`` and ``A^T B`` with ``A A^T = W_Q W_Q^T``, ``B B^T = W_K W_K^T`` have the same ones. A Gram matrix
    loses half the digits of the smallest, which the effective rank does not see.
    """
    q, k = q.detach().double(), k.detach().double()
    if q.shape[1] >= min(q.shape[2], k.shape[2]):
        return torch.linalg.svdvals(q.mT @ k)
    left, right = (_root(x @ x.mT) for x in (q, k))
    return torch.linalg.svdvals(left.mT @ right)


def _root(gram: Float[Tensor, "H R R"]) -> Float[Tensor, "H R R"]:
    values, vectors = torch.linalg.eigh(gram)
    return vectors * values.clamp(min=0).sqrt()[..., None, :]
