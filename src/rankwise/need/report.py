"""The report of one or more measurements that were made with one setting."""

from __future__ import annotations

from collections.abc import Sequence

from rankwise import __version__
from rankwise.need.document import NeedAsked, NeedMeasurement, NeedReport, NeedSource
from rankwise.need.measurement import NeedSettings
from rankwise.need.retrieval import BOOTSTRAP, CONFIDENCE


def need_report(measurements: Sequence[NeedMeasurement], settings: NeedSettings, source: NeedSource) -> NeedReport:
    """What was found, what was asked, and where the vectors came from.

    - ``measurements``: at least one, all made with ``settings``.
    """
    return NeedReport(
        rankwise=__version__,
        source=source,
        settings=NeedAsked(
            target=settings.target,
            candidates=measurements[0].candidates,
            similarity=settings.similarity,
            heads=settings.heads,
            steps=settings.steps,
            seed=settings.seed,
            bootstrap=BOOTSTRAP,
            confidence=CONFIDENCE,
        ),
        measurements=tuple(measurements),
    )
