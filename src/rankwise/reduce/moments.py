"""Second moments of what a layer's heads multiply: from the weights alone, or from a model at work.

All moments are float64, and of size R x R, V x V or P x P: none grows with the model's dim.

Legend: T texts, N tokens, M keys, H heads, G key heads, S = H/G query heads of a key head, R head dimension, V value
dimension, P rotating pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from rankwise.models.layouts import LayerWeights, Rope
from rankwise.models.running.model import AttentionCall
from rankwise.nn.rotary import rotate

_ENTRIES_AT_ONCE = 1 << 23


@dataclass(kw_only=True, eq=False)
class LayerMoments:
    """Of every key head: queries E[q q^T] summed over its query heads, keys centred, and what is explained below.

    ``pairs`` is E[c_p c_p'], what rotating pairs add to the scores; ``outputs`` is O O^T summed over the query heads,
    ``values`` E[m m^T] of the mixed values they multiply.
    """

    queries: Float64[Tensor, "G R R"]
    keys: Float64[Tensor, "G R R"]
    pairs: Float64[Tensor, "G P P"] | None
    outputs: Float64[Tensor, "G V V"] | None
    values: Float64[Tensor, "G V V"] | None


def weight_moments(weights: LayerWeights) -> LayerMoments:
    """What the weights say alone, inputs being isotropic behind the norm in front."""
    ref, folded = weights.ref, weights.folded()
    q = torch.from_numpy(folded.q).double().unflatten(0, (ref.kv_heads, ref.group))
    k = torch.from_numpy(folded.k).double()
    queries = (q @ q.mT).sum(1)
    if folded.q_bias is not None:
        bias = torch.from_numpy(folded.q_bias).double().unflatten(0, (ref.kv_heads, ref.group))
        queries = queries + bias.mT @ bias
    keys = k @ k.mT
    pairs = None
    if ref.rope is not None:
        places = torch.tensor(ref.rope.pairs())
        sizes = [moment.diagonal(dim1=1, dim2=2)[:, places].sum(-1) for moment in (queries, keys)]
        pairs = torch.diag_embed(sizes[0] * sizes[1] / 2) * ref.rope.amplitude**4
    values = None
    if folded.v is not None:
        v = torch.from_numpy(folded.v).double()
        values = v @ v.mT
        if folded.v_bias is not None:
            shift = torch.from_numpy(folded.v_bias).double()[:, :, None]
            values = values + shift @ shift.mT
    return LayerMoments(queries=queries, keys=keys, pairs=pairs, outputs=_output_moments(weights), values=values)


class MomentSums:
    """Collects the moments of one layer from the texts that pass it; ``moments()`` gives the means."""

    def __init__(self, weights: LayerWeights) -> None:
        self.weights, ref = weights, weights.ref
        self.texts = 0
        self._q, self._k = torch.from_numpy(weights.q.copy()), torch.from_numpy(weights.k.copy())
        self._v = None if weights.v is None else torch.from_numpy(weights.v.copy())
        self._biases = [
            None if bias is None else torch.from_numpy(bias.copy())
            for bias in (weights.q_bias, weights.k_bias, weights.v_bias)
        ]
        G, R, V = ref.kv_heads, ref.rank, ref.value_rank
        pairs = 0 if ref.rope is None else len(ref.rope.frequencies)
        self._queries, self._keys = torch.zeros(G, R, R).double(), torch.zeros(G, R, R).double()
        self._pairs, self._values = torch.zeros(G, pairs, pairs).double(), torch.zeros(G, V, V).double()

    def add(self, call: AttentionCall) -> None:
        """The texts of one call."""
        ref = self.weights.ref
        q = _heads(call.inputs, self._q, self._biases[0])
        k = _heads(call.context, self._k, self._biases[1])
        texts, tokens, keys = len(q), q.shape[1], k.shape[1]
        self.texts += texts
        grouped = q.double().unflatten(2, (ref.kv_heads, ref.group))
        self._queries += torch.einsum("tngsa,tngsb->gab", grouped, grouped) / tokens
        centred = (k - k.mean(1, keepdim=True)).double()
        self._keys += torch.einsum("tmga,tmgb->gab", centred, centred) / keys
        if ref.rope is not None:
            self._pairs += _pair_moments(q, k, ref.rope, call.visible)
        if self._v is not None:
            v = _heads(call.context, self._v, self._biases[2]).transpose(1, 2).repeat_interleave(ref.group, 1)
            mixed = (call.probabilities @ v).double().unflatten(1, (ref.kv_heads, ref.group))
            self._values += torch.einsum("tgsna,tgsnb->gab", mixed, mixed) / (tokens * ref.group)

    def moments(self) -> LayerMoments:
        """Means over the texts seen so far."""
        has_values = self._v is not None
        return LayerMoments(
            queries=self._queries / self.texts,
            keys=self._keys / self.texts,
            pairs=None if self.weights.ref.rope is None else self._pairs / self.texts,
            outputs=_output_moments(self.weights),
            values=self._values / self.texts if has_values else None,
        )


def rotated(x: Float[Tensor, "T N h R"], rope: Rope) -> Float[Tensor, "T N h R"]:
    """Queries or keys at positions 0, 1, 2, ..., turned as the model turns them."""
    angles = torch.arange(x.shape[1])[:, None, None] * torch.from_numpy(rope.frequencies).float()
    cos, sin = angles.cos() * rope.amplitude, angles.sin() * rope.amplitude
    before, turning = x[..., : rope.start], x[..., rope.start : rope.start + rope.dims]
    turned = rotate(turning, cos, sin, rope.interleaved)
    return torch.cat((before, turned, x[..., rope.start + rope.dims :]), dim=-1)


def logits_from_weights(weights: LayerWeights, call: AttentionCall) -> Float[Tensor, "T H N M"]:
    """The scores that the weights predict for the block's inputs: scale <q, k>, before soft-capping, bias and mask."""
    sums, ref = MomentSums(weights), weights.ref
    q = _heads(call.inputs, sums._q, sums._biases[0])
    k = _heads(call.context, sums._k, sums._biases[1])
    if ref.rope is not None:
        q, k = rotated(q, ref.rope), rotated(k, ref.rope)
    return torch.einsum("tnhr,tmhr->thnm", q, k.repeat_interleave(ref.group, 2)) * ref.scale


def _heads(
    tokens: Float[Tensor, "T N E"], weight: Float[Tensor, "h r E"], bias: Float[Tensor, "h r"] | None
) -> Float[Tensor, "T N h r"]:
    projected = torch.einsum("tne,hre->tnhr", tokens, weight)
    return projected if bias is None else projected + bias


def _pair_moments(
    q: Float[Tensor, "T N H R"], k: Float[Tensor, "T M G R"], rope: Rope, visible: Bool[Tensor, "..."] | None
) -> Float64[Tensor, "G P P"]:
    """Summed over texts and query heads, mean over visible (query, key), every row centred over the keys it sees."""
    places = torch.tensor(rope.pairs())
    turned_q, turned_k = rotated(q, rope)[..., places], rotated(k, rope)[..., places]  # [T, N, heads, P, 2]
    texts, tokens, heads, pairs, _ = turned_q.shape
    keys, group = k.shape[1], heads // k.shape[2]
    seen = torch.ones(tokens, keys) if visible is None else visible.expand(texts, heads, tokens, keys)[0, 0].float()
    counts = seen.sum(-1).clamp(min=1)
    total = torch.zeros(k.shape[2], pairs, pairs, dtype=torch.float64)
    rows_at_once = max(1, _ENTRIES_AT_ONCE // (pairs * keys))
    for text in range(texts):
        for head in range(heads):
            right = turned_k[text, :, head // group].permute(1, 2, 0)  # [P, 2, M]
            for rows in torch.arange(tokens).split(rows_at_once):
                added = turned_q[text, rows, head].transpose(0, 1) @ right * seen[rows]  # [P, rows, M]
                added = (added - added.sum(-1, keepdim=True) / counts[rows, None]) * seen[rows]
                flat = added.flatten(1)
                total[head // group] += (flat @ flat.mT).double()
    return total / float(seen.sum())


def _output_moments(weights: LayerWeights) -> Float64[Tensor, "G V V"] | None:
    if weights.o is None:
        return None
    ref = weights.ref
    o = torch.from_numpy(weights.o.copy()).double().unflatten(0, (ref.kv_heads, ref.group))
    return (o @ o.mT).sum(1)
