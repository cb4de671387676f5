"""The best form found of every rank: the SVD's, and a trained one only where training could lower the need.

The need by the SVD is known first. A form of lower rank that meets the target could be padded to the rank just below
that need, so training is tried there once: where it gains nothing that validation queries confirm, it is taken to gain
nothing below, and the SVD's curve is the answer. A heuristic that saves nearly all of the training: a search that
stays in a poor optimum at that one rank alone would be missed.
"""

from __future__ import annotations

from functools import cache

from rankwise.need.curves import RankCurve, nested
from rankwise.need.forms import Form, inner_product
from rankwise.need.retrieval import CandidateSets, Pool, Retrieved, retrieve
from rankwise.need.training import Trainer


class BestForms:
    """Forms of all ranks.

    - ``trainer``: fits a form of a rank, and says whether validation queries confirm a gain over the SVD's.
    - ``svd``: the SVD form of full rank.
    - ``pool``: what is measured on.
    - ``below``: the need by the SVD; training is of use below it only.
    """

    def __init__(self, trainer: Trainer, svd: Form, pool: Pool, *, below: int) -> None:
        self._svd, self._pool, self._below = svd, pool, below
        self._dim = svd.left.shape[0]
        self._best = cache(trainer.best)
        self._helps = below > 1 and trainer.steps > 0 and self._best(below - 1)[1] == "trained"

    def origin(self, rank: int) -> str:
        """Where the form of ``rank`` came from: svd, trained, or the inner product itself."""
        if rank == self._dim:
            return "inner product"
        return self._best(rank)[1] if self._may_be_trained(rank) else "svd"

    def curve(self, questions: CandidateSets, *, seed: int) -> RankCurve:
        """How the best forms retrieve for ``questions``; ``seed`` is of the bootstrap."""
        by_svd = nested(self._pool, questions, self._svd)

        def at(rank: int) -> Retrieved:
            if self.origin(rank) == "svd":
                return by_svd(rank)
            form = inner_product(self._dim) if rank == self._dim else self._best(rank)[0]
            return retrieve(questions, self._pool.queries @ form.left, self._pool.keys @ form.right)

        return RankCurve([at], self.origin, seed=seed)

    def _may_be_trained(self, rank: int) -> bool:
        return self._helps and rank < self._below
