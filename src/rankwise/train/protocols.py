"""Two ways to train the cells of the paper's figures: as the authors did, and as well as we can.

A protocol is a function from a cell to a complete ``RunSpec``; a variant calls it and changes a field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rankwise.errors import InvalidInputError, require_int
from rankwise.spec import LrMultipliers, ModelSpec, OptimSpec, RunSpec, TaskSpec

PAPER_SEQUENCES = 25_600_000
"""1000 epochs of 100 batches of 256."""

_BATCH = 256
_EPOCH = 100


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of a figure: farthest neighbour among ``points`` points in ``dim`` dimensions, ``layers`` layers of
    ``heads`` heads of rank ``rank``, trained on at most ``sequences`` examples."""

    dim: int
    points: int
    layers: int
    heads: int
    rank: int
    seed: int = 0
    sequences: int = PAPER_SEQUENCES

    def __post_init__(self) -> None:
        for name in ("dim", "layers", "heads", "rank"):
            require_int(name, getattr(self, name), minimum=1)
        require_int("sequences", self.sequences, minimum=_BATCH)

    @property
    def task(self) -> TaskSpec:
        return TaskSpec(name="farthest", dim=self.dim, points=self.points)


def paper(cell: Cell, *, lr: float = 0.01) -> RunSpec:
    """The authors' protocol for Figure 1, to the letter (``lr`` .005 for the later figures).

    Post-norm encoder with ReLU feed-forward of 2048 at any dim, L2-normalisation times one scalar, biases, PyTorch's
    initialisation, all layers started as copies of one, no input or output map. ``width`` modules of ``dim / rank``
    heads each are averaged. AdamW (.9, .95) without weight decay; 100 fresh batches of 256 an epoch; the learning rate
    moves once an epoch: 0 in epoch 0, linear warm-up over a twentieth of the epochs, cosine to 0.
    The paper's numbers are the best ``train_min`` of five seeds.
    """
    module_heads, remainder = divmod(cell.dim, cell.rank)
    if remainder or cell.heads % module_heads:
        raise InvalidInputError(
            f"heads: expected modules of dim/rank heads with the paper's protocol, so a rank that divides "
            f"dim = {cell.dim} and a multiple of dim/rank heads, got rank = {cell.rank} with {cell.heads} heads; "
            f"use the protocol 'capacity' for free shapes"
        )
    epochs = max(1, cell.sequences // (_BATCH * _EPOCH))
    return RunSpec(
        protocol="paper",
        seed=cell.seed,
        task=cell.task,
        model=ModelSpec(
            dim=cell.dim,
            layers=cell.layers,
            heads=cell.heads,
            rank=cell.rank,
            average=cell.heads // module_heads,
            feedforward=2048,
            norm="unit",
            init="paper",
        ),
        optim=OptimSpec(
            lr=lr,
            steps=_EPOCH * epochs,
            batch=_BATCH,
            schedule="paper",
            warmup=_EPOCH * (epochs // 20),
            epoch_steps=_EPOCH,
        ),
    )


def capacity(cell: Cell) -> RunSpec:
    """The best training we know, so that a figure shows what heads can do and not what an optimiser found.

    Inside the fence: same dim, points, layers, heads and rank, no positions, feed-forward at most the paper's 2048.
    What differs from ``paper``, found by measurement (LOG.md has the numbers and what failed):

    - The last layer's heads start as searches for the farthest point in a random subspace (``nn.head_starts``), not at
      random. The start knows the task; for full rank it is the answer up to temperature and training only sharpens
      it. An error below is what such heads can do; it says nothing of finding them from nothing.
    - RMSNorm with a gain a coordinate; the last one starts at the length of the targets.
    - One learned temperature a head, with a much larger learning rate: an exact head needs scores of hundreds.
    - Linear decay to 0 after a short warm-up.

    The rest depends on the cell: see ``_full_rank``, ``_low_rank`` and ``_low_rank_deep``.
    """
    steps = max(1, cell.sequences // _batch(cell))
    if cell.rank >= cell.dim:
        setting = _full_rank(cell)
    else:
        setting = _low_rank(cell) if cell.layers == 1 else _low_rank_deep(cell)
    return RunSpec(
        protocol="capacity",
        seed=cell.seed,
        task=cell.task,
        model=ModelSpec(
            dim=cell.dim,
            layers=cell.layers,
            heads=cell.heads,
            rank=cell.rank,
            temperature="learned",
            head_init="farthest",
            final_gain=cell.dim**-0.5,
            **setting.model,
        ),
        optim=OptimSpec(
            lr=setting.lr,
            lr_multipliers=setting.multipliers,
            steps=steps,
            batch=_batch(cell),
            schedule="linear",
            warmup=min(100, steps // 10),
            epoch_steps=max(1, min(_EPOCH, steps)) if steps < 1000 else max(_EPOCH, steps // 20),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """What ``capacity`` chooses by cell."""

    model: dict[str, Any]
    lr: float
    multipliers: LrMultipliers


def _full_rank(cell: Cell) -> _Setting:
    """The answer is one sharp choice: every other branch starts at 0 and stays slow; a small learning rate keeps the
    noise of the steps out of the scores. W_O starts much larger: behind the post-norm the residual x_i is
    an error of about 1/gain^2. One layer has no feed-forward: it would act after the choice is made.
    The formulas pass through what was measured at dim 16 and 64."""
    feedforward = 0 if cell.layers == 1 else _feedforward(cell)
    return _Setting(
        model={"feedforward": feedforward, "output_gain": 8 * cell.dim**0.5, "branch_gain": 0.0},
        lr=min(0.003, 1.2 / cell.dim**2),
        multipliers=LrMultipliers(temperature=3.125 * cell.dim, feedforward=0.1),
    )


def _low_rank(cell: Cell) -> _Setting:
    """The best output is a mean over candidates, corrected by how well the candidates' inner product with x_i fits a
    farthest point: that is work for a feed-forward at full learning rate, and pre-norm shows it both."""
    return _Setting(
        model={"feedforward": _feedforward(cell), "norm_place": "pre"},
        lr=min(0.005, 0.16 / cell.dim),
        multipliers=LrMultipliers(temperature=50.0),
    )


def _low_rank_deep(cell: Cell) -> _Setting:
    """As much freedom as one layer's start leaves: all branches but the last attention start at 0."""
    return _Setting(
        model={"feedforward": _feedforward(cell), "output_gain": 8.0, "branch_gain": 0.0},
        lr=min(0.01, 0.16 / cell.dim),
        multipliers=LrMultipliers(temperature=50.0, feedforward=0.1),
    )


def _feedforward(cell: Cell) -> int:
    return min(4 * cell.dim, 2048)


def _batch(cell: Cell) -> int:
    """Small budgets buy more from many small steps than from few large ones."""
    return _BATCH if cell.sequences >= 1_000_000 else 64
