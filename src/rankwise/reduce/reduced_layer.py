"""One attention layer with fewer coordinates a head, as factors and in its old shape.

Legend: H heads, G key heads, S query heads of a key head, R rank and V value rank as they were, K and L as they become,
E input coordinates, D dim, P rotating pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.errors import InvalidInputError, require_int
from rankwise.models.layouts import LayerRef, LayerWeights
from rankwise.reduce.moments import LayerMoments
from rankwise.reduce.truncation import FormBasis, best_pairs, form_basis, form_error, pairs_error


@dataclass(frozen=True, kw_only=True, eq=False)
class ReducedLayer:
    """The smaller matrices; ``places`` says where each kept coordinate stands in a head of the old shape.

    Rotating coordinates come first: one of each pair, then the other of each pair (as Llama writes them). ``pairs`` are
    the kept pairs of each key head, counted from the fastest; None without rotary positions. ``lost`` is the share of
    the mean squared score (row means removed) that is missing, ``lost_values`` that of the mixed values' output.
    """

    ref: LayerRef
    rank: int
    value_rank: int
    places: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, ...], ...] | None
    q: Float[Tensor, "H K E"]
    k: Float[Tensor, "G K E"]
    v: Float[Tensor, "G L E"]
    o: Float[Tensor, "H L D"]
    q_bias: Float[Tensor, "H K"] | None
    k_bias: Float[Tensor, "G K"] | None
    v_bias: Float[Tensor, "G L"] | None
    o_bias: Float[Tensor, "D"] | None
    lost: tuple[float, ...]
    lost_values: tuple[float, ...]

    def same_shape(self) -> dict[str, Float[np.ndarray, "..."]]:
        """q, k, v, o and biases in the shapes they had; what was dropped is exactly zero, in any precision."""
        ref = self.ref
        query_places = [self.places[head // ref.group] for head in range(ref.heads)]
        first = [tuple(range(self.value_rank))]
        wide: dict[str, Tensor | None] = {
            "q": _placed(self.q, query_places, ref.rank),
            "k": _placed(self.k, self.places, ref.rank),
            "v": _placed(self.v, first * ref.kv_heads, ref.value_rank),
            "o": _placed(self.o, first * ref.heads, ref.value_rank),
            "q_bias": None if self.q_bias is None else _placed(self.q_bias, query_places, ref.rank),
            "k_bias": None if self.k_bias is None else _placed(self.k_bias, self.places, ref.rank),
            "v_bias": None if self.v_bias is None else _placed(self.v_bias, first * ref.kv_heads, ref.value_rank),
        }
        return {name: value.numpy() for name, value in wide.items() if value is not None}


def _placed(
    small: Float[Tensor, "h K *rest"], places: Sequence[tuple[int, ...]], size: int
) -> Float[Tensor, "h R *rest"]:
    wide = small.new_zeros(len(small), size, *small.shape[2:])
    for head, kept in enumerate(places):
        wide[head, list(kept)] = small[head]
    return wide


class ReducibleLayer:
    """A layer with the bases in which its heads are cut; cheap to cut at any rank afterwards.

    ``moments`` decide what is kept, ``judge`` (the same unless given) measures what is lost. ``rival`` proposes
    rotating pairs too: the greedy choice is then never worse, by ``moments``, than the one the rival would have made.
    """

    def __init__(
        self,
        weights: LayerWeights,
        moments: LayerMoments,
        *,
        judge: LayerMoments | None = None,
        rival: LayerMoments | None = None,
    ) -> None:
        reason = why_not_reducible(weights.ref)
        if reason is not None:
            raise InvalidInputError(f"{weights.ref.name}: {reason}")
        self.weights, self.ref, self.moments = weights, weights.ref, moments
        self.judge = moments if judge is None else judge
        self.rival = None if rival is None else rival.pairs

    def reduce(self, rank: int, value_rank: int | None = None) -> ReducedLayer:
        """Cut every head to ``rank`` and its values to ``value_rank``; at full size the weights stay as they are."""
        ref = self.ref
        rank = min(require_int("rank", rank, minimum=1), ref.rank)
        value_rank = min(require_int("value rank", value_rank or ref.value_rank, minimum=1), ref.value_rank)
        w = self.weights
        tensors = {
            name: None if array is None else torch.from_numpy(np.ascontiguousarray(array)).double()
            for name, array in (("q", w.q), ("k", w.k), ("v", w.v), ("o", w.o), ("q_bias", w.q_bias),
                                ("k_bias", w.k_bias), ("v_bias", w.v_bias), ("o_bias", w.o_bias))
        }  # fmt: skip
        places, pairs, lost = self._cut_scores(rank, tensors)
        lost_values = self._cut_values(value_rank, tensors)
        dtype = torch.from_numpy(w.q[:1, :1]).dtype
        final = {name: None if tensor is None else tensor.to(dtype) for name, tensor in tensors.items()}
        return ReducedLayer(
            ref=ref, rank=len(places[0]), value_rank=value_rank, places=places, pairs=pairs, lost=lost,
            lost_values=lost_values, **final,  # type: ignore[arg-type]
        )  # fmt: skip

    def _cut_scores(
        self, rank: int, tensors: dict[str, Tensor | None]
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...] | None, tuple[float, ...]]:
        ref = self.ref
        if rank == ref.rank:
            everything = tuple(range(ref.rank))
            pairs = None if ref.rope is None else (tuple(range(len(ref.rope.frequencies))),) * ref.kv_heads
            if ref.rope is not None:
                everything = self._in_order(pairs[0] if pairs else (), self._still)
            places = (everything,) * ref.kv_heads
            self._gather(tensors, places)
            return places, pairs, (0.0,) * ref.kv_heads
        if ref.rope is None:
            self._turn(tensors, self._score_bases)
            places = (tuple(range(rank)),) * ref.kv_heads
            self._gather(tensors, places)
            lost = tuple(self._score_loss(g, rank) for g in range(ref.kv_heads))
            return places, None, lost
        chosen, still = self._split(rank)
        self._turn(tensors, self._score_bases)
        places = tuple(self._in_order(kept, self._still[:still]) for kept in chosen)
        self._gather(tensors, places)
        lost = tuple(self._rotary_loss(g, kept, still) for g, kept in enumerate(chosen))
        return places, chosen, lost

    @cached_property
    def _still(self) -> tuple[int, ...]:
        """Coordinates that do not rotate."""
        if self.ref.rope is None:
            return tuple(range(self.ref.rank))
        turning = {place for pair in self.ref.rope.pairs() for place in pair}
        return tuple(place for place in range(self.ref.rank) if place not in turning)

    @cached_property
    def _score_bases(self) -> list[FormBasis]:
        """Of the coordinates that do not rotate, for every key head."""
        index = torch.tensor(self._still, dtype=torch.long)
        m = self.moments
        return [
            form_basis(m.queries[g][index][:, index], m.keys[g][index][:, index]) if len(index) else _no_basis()
            for g in range(self.ref.kv_heads)
        ]

    @cached_property
    def _value_bases(self) -> list[FormBasis]:
        outputs, values = self.moments.outputs, self.moments.values
        assert outputs is not None
        assert values is not None
        return [form_basis(outputs[g], values[g]) for g in range(self.ref.kv_heads)]

    def _split(self, rank: int) -> tuple[tuple[tuple[int, ...], ...], int]:
        """Kept pairs of each key head and the number of still coordinates: the split of ``rank`` that loses least."""
        rope, m = self.ref.rope, self.moments
        assert rope is not None
        assert m.pairs is not None
        still = len(self._still)
        fitting = [p for p in range(1, len(rope.frequencies) + 1) if 0 <= rank - 2 * p <= still]
        if not fitting:
            raise InvalidInputError(
                f"{self.ref.name}: rank: expected an even number of at least 2 (rotary positions turn pairs of "
                f"coordinates, and only whole pairs can be dropped), got {rank}; choose {rank - rank % 2 or 2}"
            )
        options = []
        for p in fitting:
            rivals = [[] if self.rival is None else [best_pairs(self.rival[g], p)] for g in range(self.ref.kv_heads)]
            kept = tuple(best_pairs(m.pairs[g], p, candidates=rivals[g]) for g in range(self.ref.kv_heads))
            cost = sum(
                pairs_error(m.pairs[g], kept[g]) + float(self._score_bases[g].energy[rank - 2 * p :].sum())
                for g in range(self.ref.kv_heads)
            )
            options.append((cost, kept, rank - 2 * p))
        _, kept, left = min(options, key=lambda option: option[0])
        return kept, left

    def _in_order(self, pairs: tuple[int, ...], still: tuple[int, ...]) -> tuple[int, ...]:
        rope = self.ref.rope
        assert rope is not None
        places = rope.pairs()
        return tuple([places[p][0] for p in pairs] + [places[p][1] for p in pairs] + list(still))

    def _turn(self, tensors: dict[str, Tensor | None], bases: list[FormBasis]) -> None:
        """Still coordinates into their basis, every key head on its own."""
        if not self._still:
            return
        index = list(self._still)
        for g, basis in enumerate(bases):
            heads = range(g * self.ref.group, (g + 1) * self.ref.group)
            for name, rows, matrix in (("q", heads, basis.to_left), ("k", [g], basis.to_right)):
                for tensor in (tensors[name], tensors[f"{name}_bias"]):
                    if tensor is not None:
                        for row in rows:
                            tensor[row, index] = matrix @ tensor[row, index]

    def _gather(self, tensors: dict[str, Tensor | None], places: tuple[tuple[int, ...], ...]) -> None:
        for name in ("q", "q_bias", "k", "k_bias"):
            tensor = tensors[name]
            if tensor is not None:
                group = self.ref.group if name.startswith("q") else 1
                tensors[name] = torch.stack([tensor[row, list(places[row // group])] for row in range(len(tensor))])

    def _cut_values(self, rank: int, tensors: dict[str, Tensor | None]) -> tuple[float, ...]:
        ref = self.ref
        if rank == ref.value_rank:
            return (0.0,) * ref.kv_heads
        v, o, v_bias = tensors["v"], tensors["o"], tensors["v_bias"]
        assert v is not None
        assert o is not None
        bases = self._value_bases
        tensors["v"] = torch.stack([basis.to_right[:rank] @ v[g] for g, basis in enumerate(bases)])
        tensors["o"] = torch.stack([bases[h // ref.group].to_left[:rank] @ o[h] for h in range(ref.heads)])
        if v_bias is not None:
            tensors["v_bias"] = torch.stack([basis.to_right[:rank] @ v_bias[g] for g, basis in enumerate(bases)])
        outputs, values = self.judge.outputs, self.judge.values
        assert outputs is not None
        assert values is not None
        return tuple(
            _share(form_error(outputs[g], values[g], basis.projection(rank)), outputs[g], values[g])
            for g, basis in enumerate(bases)
        )

    def _score_loss(self, g: int, rank: int) -> float:
        queries, keys = self.judge.queries[g], self.judge.keys[g]
        return _share(form_error(queries, keys, self._score_bases[g].projection(rank)), queries, keys)

    def _rotary_loss(self, g: int, kept: tuple[int, ...], still: int) -> float:
        """Still coordinates and pairs taken as uncorrelated."""
        assert self.judge.pairs is not None
        lost, total = pairs_error(self.judge.pairs[g], kept), float(self.judge.pairs[g].sum())
        if self._still:
            index = torch.tensor(self._still)
            queries, keys = (moment[g][index][:, index] for moment in (self.judge.queries, self.judge.keys))
            lost += form_error(queries, keys, self._score_bases[g].projection(still))
            total += float((queries @ keys).trace())
        return lost / total if total > 0 else 0.0


def why_not_reducible(ref: LayerRef) -> str | None:
    """The reason why a layer's heads cannot be cut, None if they can."""
    if ref.latent is not None:
        return (
            "latent attention reads all keys from one latent that is already small: cutting heads apart would undo the "
            "sharing, and the cache would not shrink"
        )
    if ref.q_head_norm is not None or ref.k_head_norm is not None:
        return (
            "QK-norm divides every query and key by its length over all coordinates, so that leaving some out changes "
            "the others: no smaller head gives the scores of a subspace"
        )
    if ref.other_positions:
        return (
            "positions turn queries and keys in a way that is not modelled, so that no coordinate can be dropped alone"
        )
    if ref.v is None or ref.o is None:
        return "no values and outputs are known, only queries and keys"
    return None


def _share(error: float, left: Tensor, right: Tensor) -> float:
    total = float((left @ right).trace())
    return error / total if total > 0 else 0.0


def _no_basis() -> FormBasis:
    return FormBasis(torch.zeros(0, 0).double(), torch.zeros(0, 0).double(), torch.zeros(0).double())
