"""The two ways in which a point of a figure is trained: ``paper``, the authors' setting, and ``capacity``, ours.

A protocol is a function from a cell to a complete ``RunSpec``. Neither looks at the rank, the heads, the depth, the
budget or the number of points to decide how to train, so that the points of a curve differ in what the axis says alone.
A recipe that asks another question changes a field of the spec with ``vary``: the value rank, the positions, or
``optim.examples``, how many different sequences there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.errors import InvalidInputError, require_int
from rankwise.spec import LrMultipliers, ModelSpec, NeighborSpec, OptimSpec, RunSpec

PAPER_SEQUENCES = 25_600_000
"""1000 epochs of 100 batches of 256."""

PAPER_EXAMPLES = 25_600
"""The different sequences among them: every epoch repeats the same 100 batches."""

_PAPER_BATCH = 256
_PAPER_EPOCH = PAPER_EXAMPLES // _PAPER_BATCH
_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of a figure: a task, ``layers`` layers of ``heads`` heads of rank ``rank``, and at most ``sequences``
    training examples."""

    task: NeighborSpec
    layers: int = 1
    heads: int
    rank: int
    sequences: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "rank"):
            require_int(name, getattr(self, name), minimum=1)
        require_int("sequences", self.sequences, minimum=_BATCH)


def paper(cell: Cell, *, lr: float = 0.01) -> RunSpec:
    """The authors' protocol for Figure 1, to the letter (``lr`` .005 for the later figures).

    Post-norm encoder with ReLU feed-forward of 2048 at any dim, L2-normalisation times one scalar, biases, PyTorch's
    initialisation, all layers initially copies of one. ``heads`` are modules of ``dim / rank`` heads each, averaged.
    AdamW (.9, .95) without weight decay; 100 batches of 256 per epoch; the learning rate moves once per epoch: 0 in
    epoch 0, linear warm-up over a twentieth of the epochs, cosine to 0.

    Every epoch has the same 25,600 sequences: the authors' data set seeds its generator whenever it is iterated, and
    the trainer iterates it anew each epoch. The paper's numbers are the best ``train_min`` of five seeds, so they are
    errors on the training set; ``error`` is on held-out examples.
    """
    dim = cell.task.dim
    module_heads, remainder = divmod(dim, cell.rank)
    if remainder or cell.heads % module_heads:
        raise InvalidInputError(
            f"heads: expected modules of dim/rank heads with the paper's protocol, so a rank that divides "
            f"dim = {dim} and a multiple of dim/rank heads, got rank = {cell.rank} with {cell.heads} heads; "
            f"use the protocol 'capacity' for free shapes"
        )
    epochs = cell.sequences // PAPER_EXAMPLES
    if epochs == 0:
        raise InvalidInputError(
            f"sequences: expected at least one epoch of {PAPER_EXAMPLES:,} with the paper's protocol, "
            f"got {cell.sequences:,}; use the protocol 'capacity' for less"
        )
    return RunSpec(
        protocol="paper",
        seed=cell.seed,
        task=cell.task,
        model=ModelSpec(
            dim=dim,
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
            steps=_PAPER_EPOCH * epochs,
            batch=_PAPER_BATCH,
            examples=PAPER_EXAMPLES,
            schedule="paper",
            warmup=_PAPER_EPOCH * (epochs // 20),
            epoch_steps=_PAPER_EPOCH,
        ),
    )


def capacity(cell: Cell) -> RunSpec:
    """One setting for every cell, so that a curve shows what heads can do: attention alone, trained on fresh examples.

    No feed-forward and no norm. Each head has a learned temperature, with 50 times the learning rate, because an exact
    head needs scores in the hundreds. The residual around each attention has a learned weight, initially 0 in the last
    layer, and earlier layers begin as the identity, so that a deep model begins where a shallow one does. AdamW,
    batches of 64, learning rate ``.04 / sqrt(dim)``; after a warm-up it is constant and then falls exponentially to a
    thousandth, because near ties, the last errors of full rank, are resolved at ever smaller rates.

    Chosen by the mean log held-out error over all cells of the laptop Figure 1 (LOG.md has the comparison).
    """
    steps = cell.sequences // _BATCH
    return RunSpec(
        protocol="capacity",
        seed=cell.seed,
        task=cell.task,
        model=ModelSpec(
            dim=cell.task.dim,
            layers=cell.layers,
            heads=cell.heads,
            rank=cell.rank,
            temperature="learned",
            norm="none",
            residual="learned",
            init="identity",
        ),
        optim=OptimSpec(
            lr=0.04 * cell.task.dim**-0.5,
            lr_multipliers=LrMultipliers(temperature=50.0),
            steps=steps,
            batch=_BATCH,
            schedule="scales",
            warmup=steps // 20,
            epoch_steps=max(1, steps // 20),
        ),
    )
