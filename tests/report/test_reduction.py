"""The picture of a reduction shows every measured point."""

from dataclasses import replace

import pytest

from rankwise.reduce.document import Reduction
from rankwise.report.reduction import draw_frontier, frontier_rows, what_to_do
from rankwise.spec.fields import build
from report_documents import reduction_document


def report():
    return build(Reduction, {key: value for key, value in reduction_document().items() if key != "format"}, "")


def test_every_method_and_share_is_drawn_against_cache_and_parameters():
    shares, sizes = draw_frontier(report()).axes
    drawn = {container.get_label(): container.lines[0].get_xydata().tolist() for container in shares.containers}
    assert [x for x, _ in drawn["fisher"]] == [25, 50, 75]
    assert [round(y, 6) for _, y in drawn["weights"]] == [0.225, 0.15, 0.075]
    assert "nats per token" in shares.get_ylabel()
    assert len(sizes.containers) == 2
    assert len(frontier_rows(report())) == 6


@pytest.mark.parametrize(
    ("judgement", "begins"),
    [("worth trying", "Try the smaller"), ("a trade", "Use the smaller model only"), ("not worth it", "Leave this")],
)
def test_every_judgement_says_what_to_do(judgement, begins):
    said = what_to_do(replace(report(), judgement=judgement))
    assert said.startswith(begins)
    assert "held-out pieces" in said
    assert "Measured" not in what_to_do(replace(report(), judgement="not measured", texts=None))
