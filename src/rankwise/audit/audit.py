"""The audit of a model's weights: every head's QK and OV forms, one layer in memory at a time, no model code run."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from rankwise.audit.baseline import Side, baseline, ov_sides, qk_sides
from rankwise.audit.chance_overlap import chance_behind_gains
from rankwise.audit.identifiable import near_equal
from rankwise.audit.joint import joint_of_weights
from rankwise.audit.overlap import overlaps
from rankwise.audit.report import (
    LATENT_NOTE,
    AtDistance,
    AuditReport,
    Baseline,
    GroupReport,
    HeadReport,
    LayerReport,
    NotAudited,
)
from rankwise.audit.spectra import Forms, ov_forms, qk_forms, ranks_of, with_amplitude
from rankwise.models import LayerRef, LayerWeights, Placement, TensorSource, as_source, load_layer, place
from rankwise.progress import Progress, silent
from rankwise.shapes import LatentShape, context_length

_DISTANCES = (1, 16, 256, 4096)
"""How far back the keys of a rotary head are looked at, besides 0."""


def audit_weights(
    model: TensorSource | nn.Module,
    placement: Placement | None = None,
    *,
    progress: Progress = silent,
) -> AuditReport:
    """Measure every head of every attention layer of a model.

    Scores of head h are ``scale * x^T QK_h y`` for normalised inputs x and y: gains of norms are folded in, what was
    folded is told for each layer. OV_h is what the head writes for what it reads. ``progress`` counts layers.
    """
    source = as_source(model)
    placement = place(source) if placement is None else placement
    layers = placement.layers
    heads = sum(layer.heads for layer in layers)
    pairs = sum(layer.heads * (layer.heads - 1) // 2 for layer in layers)
    reports = []
    for done, ref in enumerate(layers):
        progress("audit layers", done, len(layers))
        reports.append(_audit_layer(load_layer(source, ref), heads_of_model=heads, pairs_of_model=pairs))
    names = [name for ref in layers for name in ref.tensors]
    return AuditReport(
        model=source.name,
        architecture=placement.architecture,
        file_format=source.format,
        storage=source.storage(list(dict.fromkeys(names))),
        layers=tuple(reports),
        not_audited=tuple(NotAudited(item.what, item.reason) for item in placement.unsupported),
        notes=placement.notes,
        context_length=context_length(source.config),
        placement=placement.proof,
    )


def report_without_weights(source: TensorSource, reason: str) -> AuditReport:
    """The report of a model that can be run, but whose weights cannot be placed for ``reason``."""
    return AuditReport(
        model=source.name,
        architecture=str(source.config.get("model_type", ""))[:200],
        file_format=source.format,
        storage={},
        layers=(),
        not_audited=(NotAudited("weights", reason[:1000]),),
        notes=(),
    )


def _audit_layer(stored: LayerWeights, *, heads_of_model: int, pairs_of_model: int) -> LayerReport:
    """Measure one layer; the two counts widen the intervals so that they hold for the whole model."""
    ref = stored.ref
    qk_random, ov_random = qk_sides(stored), ov_sides(stored)
    joint = joint_of_weights(stored)
    weights = stored.folded()
    del stored
    qk = qk_forms(weights)
    rotary_key = 0 if ref.latent is None else ref.latent.rope
    chance = chance_behind_gains(qk_random, ref.group)
    qk_overlaps = overlaps(qk, "QK", pairs_of_model=pairs_of_model, in_common=rotary_key, chance=chance)
    qk_reports = _qk_reports(weights, qk)
    groups = _groups(ref, qk)
    del qk
    ov = ov_forms(weights)
    chance = chance_behind_gains(ov_random, ref.group)
    ov_overlaps = () if ov is None else overlaps(ov, "OV", pairs_of_model=pairs_of_model, chance=chance)
    values = None if ov is None else ov.singular_values
    ov_ranks = [None] * ref.heads if ov is None else ranks_of(ov.singular_values, max(ov.sizes))
    ov_near_equal = [()] * ref.heads if ov is None else near_equal(ov.singular_values)
    return LayerReport(
        part=ref.part,
        layer=ref.layer,
        dim=ref.dim,
        context_dim=ref.context_dim,
        heads=ref.heads,
        kv_heads=ref.kv_heads,
        rank=ref.rank,
        value_rank=ref.value_rank,
        scale=ref.scale,
        mask=ref.mask,
        window=ref.window,
        rotary=ref.rope is not None,
        qk_norm=ref.q_head_norm is not None,
        folded_in=weights.folded_in,
        notes=ref.notes + _notes(ref),
        qk_baseline=baseline(qk_random, heads_of_model),
        ov_baseline=None if ov is None else baseline(ov_random, heads_of_model),
        qk_without_gains=_without_gains(qk_random, heads_of_model),
        ov_without_gains=None if ov is None else _without_gains(ov_random, heads_of_model),
        head_reports=tuple(
            replace(
                report,
                ov=ov_ranks[head],
                ov_norm=None if values is None else float(values[head].norm()),
                ov_singular_values=None if values is None else tuple(values[head].tolist()),
                ov_near_equal=ov_near_equal[head],
            )
            for head, report in enumerate(qk_reports)
        ),
        groups=groups,
        pairs=ref.heads * (ref.heads - 1) // 2,
        overlaps=qk_overlaps + ov_overlaps,
        latent=_latent_shape(ref),
        joint=joint,
    )


def _without_gains(sides: tuple[Side, Side], heads: int) -> Baseline | None:
    """The baseline of weights without the layer's gains; None where it has none."""
    if not any(side.has_gains for side in sides):
        return None
    left, right = sides
    return baseline((left.plain(), right.plain()), heads)


def _latent_shape(ref: LayerRef) -> LatentShape | None:
    if ref.latent is None:
        return None
    return LatentShape(keyvalue=ref.latent.key_size, rope=ref.latent.rope, query=ref.latent.query_size)


def _qk_reports(weights: LayerWeights, qk: Forms) -> list[HeadReport]:
    """Each head's report, its OV part still open."""
    ref, size = weights.ref, max(qk.sizes)
    biased, alike = _biased(weights, qk), near_equal(qk.singular_values)
    with_bias = [None] * ref.heads if biased is None else ranks_of(biased, size + 1)
    distances = []
    for distance in _DISTANCES if ref.rope is not None else ():
        if ref.window is None or distance < ref.window:
            assert ref.rope is not None
            distances.append((distance, ranks_of(qk.rotated(ref.rope, distance), size)))
    return [
        HeadReport(
            head=head,
            kv_head=head // ref.group,
            qk=ranks,
            qk_with_bias=with_bias[head],
            ov=None,
            qk_norm=ref.scale * float(qk.singular_values[head].norm()),
            ov_norm=None,
            at_distance=tuple(
                AtDistance(distance, found[head].effective, found[head].energy_90) for distance, found in distances
            ),
            qk_singular_values=tuple(qk.singular_values[head].tolist()),
            ov_singular_values=None,
            qk_near_equal=alike[head],
        )
        for head, ranks in enumerate(ranks_of(qk.singular_values, size))
    ]


def _biased(weights: LayerWeights, qk: Forms) -> Tensor | None:
    """With the query's bias, and the key's where positions turn it; otherwise that one shifts all scores of a query."""
    rope = weights.ref.rope
    q_bias, k_bias = weights.q_bias, weights.k_bias if rope is not None else None
    if q_bias is None and k_bias is None:
        return None
    k_bias = None if k_bias is None else with_amplitude(k_bias, rope)
    left, right = (None if bias is None else torch.from_numpy(bias).to(torch.float64) for bias in (q_bias, k_bias))
    return qk.with_bias(left, right)


def _groups(ref: LayerRef, qk: Forms) -> tuple[GroupReport, ...]:
    if ref.group == 1:
        return ()
    ranks = ranks_of(qk.of_groups(), max(qk.sizes))
    return tuple(
        GroupReport(kv_head, tuple(range(kv_head * ref.group, (kv_head + 1) * ref.group)), found)
        for kv_head, found in enumerate(ranks)
    )


def _notes(ref: LayerRef) -> tuple[str, ...]:
    notes = []
    if ref.q_head_norm is not None:
        notes.append("QK-norm: queries and keys are normalised, the weights only bound the rank of the scores")
    if ref.latent is not None:
        notes.append(f"{LATENT_NOTE}: the latent's norm is replaced by its typical size for inputs of unit size")
    if ref.score_bias is not None:
        notes.append(f"{ref.score_bias} bias: scores also have a term of the distance, not measured here")
    if ref.mask == "full" and ref.window is not None:
        notes.append(f"a query sees {ref.window - 1} keys on either side and itself")
    if ref.softcap is not None:
        notes.append("scores are soft-capped after QK")
    return tuple(notes)
