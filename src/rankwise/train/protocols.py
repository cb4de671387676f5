"""Four ways to train the cells of the paper's figures: as the authors did, as well as we can, the same with values as
wide as the paper's parameters allow, and on few sequences that come again, as theirs do.

A protocol is a function from a cell to a complete ``RunSpec``; a variant calls it and changes a field.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.errors import InvalidInputError, require_int
from rankwise.spec import LrMultipliers, ModelSpec, OptimSpec, RunSpec, TaskSpec, vary

PAPER_SEQUENCES = 25_600_000
"""1000 epochs of 100 batches of 256."""

_BATCH = 256
_EPOCH = 100
PASS = _BATCH * _EPOCH
"""The different sequences of ``paper`` and ``recall``, all of which come again in every epoch."""

_SMALL_BATCH = 64
_MANY = 1_000_000
_FEEDFORWARD = 2048
_LARGE = 16.0
_VOTERS = 8
_SLOW = 0.4
_HIGHEST_RATE = 0.01
_FEW_POINTS = 16
_SEEING_ITSELF: dict[str, object] = {"model.last_residual": None, "model.last_residual_start": 0.0}
_BARE: dict[str, object] = {"model.norm": "none", **_SEEING_ITSELF}
_BY_ADDRESS: dict[str, object] = {"model.head_init": "address", **_BARE}
_IN_GROUPS: dict[str, object] = {"model.head_init": "shared", **_SEEING_ITSELF}


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
    heads each are averaged. AdamW (.9, .95) without weight decay; 100 batches of 256 an epoch; the learning rate
    moves once an epoch: 0 in epoch 0, linear warm-up over a twentieth of the epochs, cosine to 0.

    Every epoch has the same 25,600 sequences: the authors' data set seeds its generator whenever it is iterated, and
    the trainer iterates it anew each epoch. The paper's numbers are the best ``train_min`` of five seeds, so they are
    errors on the training set; ``error`` is on held-out examples.
    """
    module_heads, remainder = divmod(cell.dim, cell.rank)
    if remainder or cell.heads % module_heads:
        raise InvalidInputError(
            f"heads: expected modules of dim/rank heads with the paper's protocol, so a rank that divides "
            f"dim = {cell.dim} and a multiple of dim/rank heads, got rank = {cell.rank} with {cell.heads} heads; "
            f"use the protocol 'capacity' for free shapes"
        )
    epochs = cell.sequences // PASS
    if epochs == 0:
        raise InvalidInputError(
            f"sequences: expected at least one epoch of {PASS:,} with the paper's protocol, "
            f"got {cell.sequences:,}; use the protocol 'capacity' or 'recall' for less"
        )
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
            feedforward=_FEEDFORWARD,
            norm="unit",
            init="paper",
        ),
        optim=OptimSpec(
            lr=lr,
            steps=_EPOCH * epochs,
            batch=_BATCH,
            examples=PASS,
            schedule="paper",
            warmup=_EPOCH * (epochs // 20),
            epoch_steps=_EPOCH,
        ),
    )


def capacity(cell: Cell) -> RunSpec:
    """The best training we know, so that a figure shows what heads can do and not what an optimiser found.

    Inside the fence: same dim, points, layers, heads and rank, no positions. One setting for every depth and budget
    (but for several heads a direction, below), fresh examples at every step. What differs from ``paper``, found by
    measurement (LOG.md has the numbers):

    - No feed-forward. Heads learn faster without, at every depth tried; at one layer little is lost (.0045 of .567 at
      dim 16), as it acts after the choice is made. A seventeenth of the parameters is left at dim 64.
    - But with a million sequences, one layer with several heads of rank 4 or more for a direction (d < H r, r < d) has
      the paper's feed-forward. Its hidden units are 16 times larger at the start, with biases of 0; it sees x_i; no
      norm stands behind it; all rates are doubled, and its own twice. With fewer sequences, heads that outweigh such a
      feed-forward (H r > 1024) have no norm either, and twice the rate.
    - Eight such heads for a direction, of any rank below d, start in groups that bring the same coordinates, with one
      head against each (``nn.head_starts``): votes, which the feed-forward can count. From random values they come to
      that late or not at all, and at a high rate they lose it again: theirs is .4 of that of heads alone. With fewer
      sequences they would gain as well; there the laptop figures are, which have heads alone.
    - Several layers of several heads of low rank have no norm, twice the rate (at most .01), small batches at any
      budget and a learned weight of x_i. With no more than one head for a direction (H r <= d) the earlier ones start
      as votes on one address, by which the last one searches (``nn.head_starts``): from elsewhere few starts come to
      that, and what they reach is luck. More heads are better off with values of their own, and start as nothing.
      Beyond 16 points batch and highest rate fall as 16 / N: a step has as many queries (.46 and .39 with 64 points).
    - No residual around the last attention: the output is what the heads bring. With it, x_i is an error that W_O has
      to outgrow. Fewer than dim/rank heads leave some dimensions unanswered, where -x_i is a guess: there x_i has one
      learned weight, 0 at the start. With more heads in one layer that weight changes nothing.
    - Otherwise earlier layers start as the identity (their W_O is 0), so that depth starts where one layer does.
    - One learned temperature a head, with 50 times the learning rate: an exact head needs scores of hundreds.
    - Learning rate .16/dim, at most .01, after a short warm-up; all layers start differently. Below full rank it falls
      by a cosine. Full rank can be exact: its errors are near ties, fewer with every smaller scale of noise, so that
      there each scale of the rate gets as many steps ("scales"). Half the error; low rank loses by it.
    """
    if _low_rank_in_depth(cell):
        start = {**_BY_ADDRESS, "model.branch_gain": None} if _share_an_address(cell) else _BARE
        share = min(1.0, _FEW_POINTS / cell.points)
        rate = min(share * _HIGHEST_RATE, 2 * _rate(cell))
        return vary(_heads_alone(cell, batch=max(1, int(share * _SMALL_BATCH))), {**start, "optim.lr": rate})
    heads_alone = _heads_alone(cell)
    without_norm = {"model.norm": "none", "optim.lr": 2 * heads_alone.optim.lr}
    if cell.sequences < _MANY:
        outweigh = _several_heads_a_direction(cell) and not _mostly_feedforward(cell)
        return vary(heads_alone, without_norm) if outweigh else heads_alone
    steps = cell.sequences // _SMALL_BATCH
    without_norm |= {"optim.steps": steps, "optim.batch": _SMALL_BATCH, "optim.epoch_steps": steps // 20}
    votes = _enough_to_vote(cell)
    if not votes and not _several_heads_a_direction(cell):
        return heads_alone
    return vary(
        heads_alone,
        {
            **without_norm,
            "model.feedforward": _FEEDFORWARD,
            "model.feedforward_gain": _LARGE,
            **(_IN_GROUPS | {"optim.lr": _SLOW * heads_alone.optim.lr} if votes else _SEEING_ITSELF),
            "optim.lr_multipliers.feedforward": 2.0,
        },
    )


def _heads_alone(cell: Cell, *, batch: int | None = None) -> RunSpec:
    """``capacity`` without its feed-forward, which the other protocols start from."""
    batch = batch or _batch(cell)
    steps = max(1, cell.sequences // batch)
    answers_all = cell.heads * cell.rank >= cell.dim
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
            norm="unit",
            last_residual=False if answers_all else None,
            last_residual_start=None if answers_all else 0.0,
            branch_gain=0.0,
        ),
        optim=OptimSpec(
            lr=_rate(cell),
            lr_multipliers=LrMultipliers(temperature=50.0),
            steps=steps,
            batch=batch,
            schedule="scales" if cell.rank >= cell.dim else "cosine",
            warmup=min(100, steps // 10),
            epoch_steps=max(1, min(_EPOCH, steps)) if steps < 1000 else max(_EPOCH, steps // 20),
        ),
    )


def wide(cell: Cell) -> RunSpec:
    """The heads of ``capacity`` alone, with whole values: what one finds by ``rank`` it brings as whole as it can.

    The heads of Figure 1 have values of their rank r, so that one of rank 1 tells one coordinate of what it found. The
    theorem limits queries and keys alone: its V_h is any d x d matrix. A value coordinate of a head costs 2 d weights,
    and so does a unit of the paper's feed-forward, which gains less (LOG.md). ::

        value_rank = min(d, r + 2048 // H)

    gives the weights of the one to the other: same dim, points, layers, heads and rank, and never more parameters than
    the paper's. Nothing is normalised: where heads disagree a short answer is the best one, and a fixed length forbids
    it. LOG.md has what either is worth.
    """
    base = _heads_alone(cell)
    value_rank = min(cell.dim, cell.rank + _FEEDFORWARD // cell.heads)
    answers_all = cell.heads * value_rank >= cell.dim
    return vary(
        base,
        {
            "protocol": "wide",
            "model.value_rank": value_rank,
            "model.norm": "none",
            "model.last_residual": False if answers_all else None,
            "model.last_residual_start": None if answers_all else 0.0,
        },
    )


def recall(cell: Cell) -> RunSpec:
    """``capacity`` on a training set as small as the authors', for numbers that measure what the published ones do.

    Those are errors on 25,600 sequences that every epoch repeats, and are low in part because the sequences are known
    by heart. Here too a pass over the same 25,600 is an epoch, so that ``train_min`` is the authors' statistic. The
    feed-forward is back, at their width, as that is where things are remembered. Small batches, twice the rate of
    ``capacity`` (except for the feed-forward) and a longer second moment remember more in as many passes (LOG.md). On
    held-out examples it is worse than ``capacity`` in all kept cells: what is learned by heart is no use there.

    Where ``capacity`` may have a feed-forward and that is the larger part (H r <= 1024), this one starts with large
    hidden units too, at any budget, and has no norm: .8083 and .7995 after five passes with 128 heads of rank 4. One
    head for a direction loses by both. Where ``capacity`` starts heads in groups and the feed-forward is the larger
    part, this one trains the same model. Where it starts layers as votes on an address, this one does as well (its
    feed-forwards start as nothing): .535 after five passes with three layers of 8 heads of rank 8, .733 from elsewhere.
    """
    base = _heads_alone(cell)
    steps = max(1, cell.sequences // _SMALL_BATCH)
    votes = cell.sequences >= _MANY and _enough_to_vote(cell)
    large = (votes or _several_heads_a_direction(cell)) and _mostly_feedforward(cell)
    return vary(
        base,
        {
            "protocol": "recall",
            "model.feedforward": _FEEDFORWARD,
            **({"model.norm": "none", "model.feedforward_gain": _LARGE} if large else {}),
            **(_IN_GROUPS if votes and large else {}),
            **(_BY_ADDRESS if _share_an_address(cell) else {}),
            "optim.lr": 2 * base.optim.lr,
            "optim.betas": (0.9, 0.99),
            "optim.lr_multipliers.feedforward": 1.0 if large else 0.4,
            "optim.steps": steps,
            "optim.batch": _SMALL_BATCH,
            "optim.examples": PASS,
            "optim.warmup": min(100, steps // 10),
            "optim.epoch_steps": PASS // _SMALL_BATCH,
        },
    )


def _several_heads_a_direction(cell: Cell) -> bool:
    """One layer with more heads of a low rank than one for a direction. Below rank 4 nothing was gained by what is done
    for them."""
    return cell.layers == 1 and 4 <= cell.rank < cell.dim < cell.heads * cell.rank


def _enough_to_vote(cell: Cell) -> bool:
    """One layer with at least eight heads of a low rank for a direction, the fewest for which it was measured."""
    return cell.layers == 1 and cell.rank < cell.dim and cell.heads * cell.rank >= _VOTERS * cell.dim


def _low_rank_in_depth(cell: Cell) -> bool:
    """Several layers of several heads of a low rank."""
    return cell.layers > 1 and cell.heads > 1 and cell.rank < cell.dim


def _share_an_address(cell: Cell) -> bool:
    """Such layers with at most one head for a direction: with four or more, values of their own are worth more."""
    return _low_rank_in_depth(cell) and cell.heads * cell.rank <= cell.dim


def _mostly_feedforward(cell: Cell) -> bool:
    """No more weights in the heads (4 d H r) than in the paper's feed-forward (2 d 2048)."""
    return 2 * cell.heads * cell.rank <= _FEEDFORWARD


def _rate(cell: Cell) -> float:
    return min(_HIGHEST_RATE, 0.16 / cell.dim)


def _batch(cell: Cell) -> int:
    """Small budgets buy more from many small steps than from few large ones."""
    return _BATCH if cell.sequences >= _MANY else _SMALL_BATCH
