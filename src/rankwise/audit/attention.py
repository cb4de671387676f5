"""What a model's attention matrices are like on real texts: their ranks, beside what random attention would have.

The exact rank of a softmax matrix says nothing (it is n), so every head is measured by several definitions at once
(``measure.rank``), and always beside the closed-form baseline of its layer's mask: a causal layer compares with 0.5 n,
a full one with 0.632 n. Many heads send what they do not need to the first token (an attention sink), so ranks are
also given without the first column, and without rows that see nothing else.

**Fixed or content.** Over texts t of one length, with U the uniform matrix of the mask,
``mean_t |A_t - U|^2 = |mean A - U|^2 + mean_t |A_t - mean A|^2``: the first part is a pattern of positions, the second
depends on the text. The share of the first, ``F/(F + S)``, is reported, with the bias of T texts removed (the mean of T
matrices still holds 1/T of their variance): ``F = max(0, |mean A - U|^2 - S/T)`` with
``S = sum_t |A_t - mean A|^2 / (T - 1)``.

Texts are run a few at a time (eight, fewer where matrices are large): F and S are taken within each pass, F before it
is cut at 0, and averaged over passes by their numbers of texts and of degrees of freedom. Passes of one text take no
part. One text, and uniform attention, have no such share. A measurement, not a theorem.

Legend: T texts, H heads, N queries, M keys.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from rankwise.audit.joint import JointSamples
from rankwise.audit.mask_baseline import SeenMask, barrier, random_head_rank, seen_mask
from rankwise.audit.report import (
    AttentionBaseline,
    AttentionOfHead,
    AttentionOfLayer,
    AttentionReport,
    JointSpectrum,
)
from rankwise.measure import effective_rank, energy_rank, hardmax_rank, numerical_rank, stable_rank
from rankwise.models import AttentionCall, RunningModel, RunSanity, texts_a_pass
from rankwise.nn import FactoredMatrix, one_thread, one_thread_each
from rankwise.progress import Progress, silent

_ROUNDING = 1e-12  # of squared probabilities in float32: uniform attention deviates from itself by less


@dataclass(frozen=True)
class _Pattern:
    """Of ``texts`` run together: unbiased |mean A - U|^2 and variance over texts, for every head."""

    texts: int
    fixed: list[float]
    content: list[float]


@dataclass(kw_only=True)
class LayerAttention:
    """All heads of one attention block."""

    index: int
    """Counts blocks in the order in which they run."""
    name: str
    """The module's path."""
    mask: SeenMask
    """Which keys its queries see."""
    queries: int
    """Queries per text."""
    keys: int
    """Keys per text."""
    head_dim: int | None
    """None where the model does not show its queries."""
    key_heads: int | None
    """None where the model does not show its keys."""
    barrier: float
    """Mean hardmax rank of rows that pick a visible key at random."""
    barrier_without_sink: float
    """The same without the first key, and without rows that see nothing else."""
    uniform_entropy: float
    """Mean entropy, in nats, of rows that are uniform over what they see."""
    crosses: bool
    """Whether keys come from another sequence."""
    remark: str | None
    """What the numbers do not show."""
    measures: dict[str, list[list[float]]] = field(default_factory=dict)
    """By name, values [texts][heads]."""
    patterns: list[_Pattern] = field(default_factory=list)
    """One per pass of two or more texts."""
    joint: JointSpectrum | None = None
    """Keys and values as one vector; None where they are not known."""

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return len(self.measures["hardmax_rank"][0])

    @property
    def random_rank(self) -> float | None:
        """What random queries and keys of this head dimension reach, always below the barrier."""
        if self.head_dim is None or self.queries != self.keys:
            return None
        return random_head_rank(self.keys, self.head_dim, self.mask)

    def mean(self, measure: str, head: int) -> float:
        """Of one head, over texts."""
        return statistics.fmean(row[head] for row in self.measures[measure])

    def spread(self, measure: str, head: int) -> float | None:
        """Standard deviation of one head over texts; None for one text."""
        values = [row[head] for row in self.measures[measure]]
        return statistics.stdev(values) if len(values) > 1 else None

    def fixed_share(self, head: int) -> float | None:
        """How much of the head's deviation from uniform attention is the same in every text; None for one text."""
        if not self.patterns:
            return None
        texts = [chunk.texts for chunk in self.patterns]
        fixed = max(0.0, statistics.fmean([chunk.fixed[head] for chunk in self.patterns], weights=texts))
        freedom = [count - 1 for count in texts]
        content = statistics.fmean([chunk.content[head] for chunk in self.patterns], weights=freedom)
        return fixed / (fixed + content) if fixed + content > _ROUNDING else None


def measure_attention(
    running: RunningModel,
    tokens: Int64[Tensor, "T N"],
    *,
    progress: Progress = silent,
) -> list[LayerAttention]:
    """Every block's heads on every text; ``progress`` counts blocks."""
    layers: list[LayerAttention] = []
    samples = JointSamples(running)
    chunks = tokens.split(_texts_together(running, tokens))
    blocks = len(running.attention_names())
    for number, chunk in enumerate(chunks):

        def visit(call: AttentionCall, before: int = number * blocks) -> None:
            if call.index == len(layers):
                layers.append(_described(call))
            _measure(layers[call.index], call)
            samples.add(call)
            progress("run on texts", before + call.index + 1, blocks * len(chunks))

        running.watch(chunk, visit)
    for layer in layers:
        layer.joint = samples.spectrum(layer.index)
    return layers


def _texts_together(running: RunningModel, tokens: Int64[Tensor, "T N"]) -> int:
    """As many as one layer's matrices leave room for; two at least, to separate pattern from content."""
    heads: list[int] = []
    running.watch(tokens[:1, :2], lambda call: heads.append(call.probabilities.shape[1]))
    return texts_a_pass(max(heads) * tokens.shape[1] ** 2, least=2)


def _described(call: AttentionCall) -> LayerAttention:
    probabilities = call.probabilities
    queries, keys = probabilities.shape[2:]
    visible = None if call.visible is None else call.visible.expand(*probabilities.shape[:2], queries, keys)[0, 0]
    kept = _rows_beyond_the_sink(visible, queries)
    rest = None if visible is None else visible[kept, 1:]
    counts = torch.full((queries,), float(keys)) if visible is None else visible.sum(-1).double()
    remark = None
    if call.queries is None:
        remark = f"{type(call.module).__name__} does not show queries and keys: no ranks of logits"
    elif call.softcap is not None:
        remark = f"logits are soft-capped at {call.softcap:g} after the product whose rank is given"
    return LayerAttention(
        index=call.index,
        name=call.name,
        mask=seen_mask(visible),
        queries=queries,
        keys=keys,
        head_dim=None if call.queries is None else call.queries.shape[-1],
        key_heads=None if call.keys is None else call.keys.shape[1],
        barrier=barrier(queries, keys, visible),
        barrier_without_sink=barrier(int(kept.sum()), keys - 1, rest),
        uniform_entropy=float(counts.clamp(min=1).log().mean()),
        crosses=call.crosses,
        remark=remark,
    )


def _rows_beyond_the_sink(visible: Bool[Tensor, "N M"] | None, queries: int) -> Bool[Tensor, "N"]:
    if visible is None:
        return torch.ones(queries, dtype=torch.bool)
    return visible[:, 1:].any(-1).cpu()


def _measure(layer: LayerAttention, call: AttentionCall) -> None:
    shape = call.probabilities.shape
    visible = None if call.visible is None else call.visible.expand(shape)[0, 0]
    rows = _rows_beyond_the_sink(visible, shape[2])

    def of_head(head: int) -> dict[str, Tensor]:
        # each in double precision by itself: all at once would be several times what the model itself needs
        return _head_measures(call.probabilities[:, head : head + 1].double(), rows)

    heads = one_thread_each(of_head, range(shape[1]))
    found = {name: torch.cat([head[name] for head in heads], dim=1) for name in heads[0]}
    if call.queries is not None and call.keys is not None:
        with one_thread():
            found |= _logit_measures(call.queries, call.keys)
    for name, values in found.items():
        layer.measures.setdefault(name, []).extend(values.double().tolist())
    if shape[0] > 1:
        parts = [_pattern_and_content(call.probabilities[:, head].double(), visible) for head in range(shape[1])]
        layer.patterns.append(_Pattern(shape[0], [fixed for fixed, _ in parts], [content for _, content in parts]))


def _head_measures(A: Float[Tensor, "T 1 N M"], rows: Bool[Tensor, "N"]) -> dict[str, Tensor]:
    found = _matrix_measures(A) | {
        f"{name}_without_sink": value for name, value in _matrix_measures(_without_sink(A, rows)).items()
    }
    found["sink_share"] = A[:, :, rows, 0].mean(-1)
    found["max_probability"] = A.amax(-1).mean(-1)
    return found


def _matrix_measures(A: Float[Tensor, "T H N M"]) -> dict[str, Tensor]:
    s = torch.linalg.svdvals(A)
    mass = A.sum(-1, keepdim=True)
    # a row whose probabilities are all zero (everything went to the sink) picks nothing
    picks = torch.where(mass > 0, A, -torch.inf)
    entropy = torch.special.entr(A / mass.clamp(min=torch.finfo(A.dtype).tiny)).sum(-1)
    seeing = (mass[..., 0] > 0).double()
    return {
        "hardmax_rank": hardmax_rank(picks),
        "effective_rank": effective_rank(singular_values=s),
        "stable_rank": stable_rank(singular_values=s),
        "rank_above_0.1": numerical_rank(rtol=0.1, singular_values=s),
        "rank_above_0.01": numerical_rank(rtol=0.01, singular_values=s),
        "rank_above_0.001": numerical_rank(rtol=0.001, singular_values=s),
        "energy_90": energy_rank(fraction=0.9, singular_values=s),
        "energy_99": energy_rank(fraction=0.99, singular_values=s),
        "entropy": (entropy * seeing).sum(-1) / seeing.sum(-1).clamp(min=1),
    }


def _without_sink(A: Float[Tensor, "T H N M"], rows: Bool[Tensor, "N"]) -> Float[Tensor, "T H n m"]:
    """As it is, not renormalised: a row that gives .99 to the sink stays small."""
    return A[:, :, rows, 1:]


def _logit_measures(queries: Float[Tensor, "T H N R"], keys: Float[Tensor, "T G M R"]) -> dict[str, Tensor]:
    """Energy ranks of q k^T before mask and softmax, as it is and with the mean over keys removed from each row.

    What is common to all logits of a row changes no probability, so the centred ones are what attention can use.
    """
    queries, keys = queries.double(), keys.double()
    keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)
    plain = FactoredMatrix(queries, keys.mT).singular_values()
    centred = FactoredMatrix(queries, (keys - keys.mean(2, keepdim=True)).mT).singular_values()
    return {
        f"{name}_energy_{round(100 * fraction)}": energy_rank(fraction=fraction, singular_values=s)
        for name, s in (("logits", plain), ("centred_logits", centred))
        for fraction in (0.9, 0.99)
    }


def _pattern_and_content(A: Float[Tensor, "T N M"], visible: Bool[Tensor, "N M"] | None) -> tuple[float, float]:
    """Unbiased |mean A - U|^2 and variance over texts, of one head."""
    texts = len(A)
    uniform = A.new_ones(A.shape[1:]) if visible is None else visible.to(A.dtype)
    uniform = uniform / uniform.sum(-1, keepdim=True).clamp(min=1)
    mean = A.mean(0)
    content = float((A - mean).square().sum()) / (texts - 1)
    return float((mean - uniform).square().sum()) - content / texts, content


def attention_report(
    layers: Sequence[LayerAttention], *, texts: int, source: Sequence[str], sanity: RunSanity | None = None
) -> AttentionReport:
    """What was measured as plain numbers, the part ``attention`` of an audit."""
    tokens = layers[0].queries if layers else 0
    return AttentionReport(
        texts=texts, tokens=tokens, source=tuple(source), layers=tuple(map(_of_layer, layers)), sanity=sanity
    )


def _of_layer(layer: LayerAttention) -> AttentionOfLayer:
    group = None if layer.key_heads is None else layer.heads // layer.key_heads
    return AttentionOfLayer(
        index=layer.index,
        name=layer.name,
        mask=layer.mask.kind,
        window=layer.mask.window,
        cross_attention=layer.crosses,
        queries=layer.queries,
        keys=layer.keys,
        head_dim=layer.head_dim,
        baseline=AttentionBaseline(
            barrier=layer.barrier,
            barrier_without_sink=layer.barrier_without_sink,
            random_head=layer.random_rank,
            uniform_entropy=layer.uniform_entropy,
        ),
        remark=layer.remark,
        joint=layer.joint,
        heads=tuple(
            AttentionOfHead(
                head=head,
                key_head=None if group is None else head // group,
                fixed_share=layer.fixed_share(head),
                mean={name: layer.mean(name, head) for name in layer.measures},
                spread={name: layer.spread(name, head) for name in layer.measures},
            )
            for head in range(layer.heads)
        ),
    )
