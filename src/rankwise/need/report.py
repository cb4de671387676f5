"""From measurements, which hold tensors' results, to the plain report of ``document``."""

from __future__ import annotations

from collections.abc import Sequence

from rankwise import __version__
from rankwise.need.curves import CurvePoint
from rankwise.need.document import (
    IntrinsicDimensions,
    NeedAsked,
    NeedMeasurement,
    NeedPoint,
    NeedReport,
    NeedSource,
)
from rankwise.need.measurement import Need
from rankwise.need.retrieval import BOOTSTRAP, CONFIDENCE


def need_report(needs: Sequence[Need], source: NeedSource) -> NeedReport:
    """All ``needs``, which were measured with one setting."""
    asked = needs[0].settings
    return NeedReport(
        rankwise=__version__,
        source=source,
        settings=NeedAsked(
            target=asked.target,
            candidates=needs[0].candidates,
            similarity=asked.similarity,
            heads=asked.heads,
            steps=asked.steps,
            seed=asked.seed,
            bootstrap=BOOTSTRAP,
            confidence=CONFIDENCE,
        ),
        measurements=tuple(_measurement(need) for need in needs),
    )


def _measurement(need: Need) -> NeedMeasurement:
    return NeedMeasurement(
        name="".join(character if character.isprintable() else "\ufffd" for character in need.name),
        dim=need.dim,
        keys=need.keys,
        queries=need.queries,
        own_queries=need.own_queries,
        candidates=need.candidates,
        need=int(need.need.value),
        need_low=int(need.need.low),
        need_high=int(need.need.high),
        need_svd=need.need_svd,
        need_pca=need.need_pca,
        need_random=need.need_random,
        need_isotropic=need.need_isotropic,
        participation_ratio=IntrinsicDimensions(keys=need.key_dimension, queries=need.query_dimension),
        by_candidates=tuple(need.by_candidates),
        curves={kind: tuple(map(_point, points)) for kind, points in need.curves.items()},
        isotropic=tuple(need.isotropic),
        notes=tuple(need.notes),
        heads=need.heads,
    )


def _point(point: CurvePoint) -> NeedPoint:
    error, recall = point.error, point.recall
    return NeedPoint(
        rank=point.rank,
        form=point.form,
        error=error.value,
        error_low=error.low,
        error_high=error.high,
        recall=recall.value,
        recall_low=recall.low,
        recall_high=recall.high,
    )
