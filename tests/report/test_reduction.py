"""The picture of a reduction shows every measured point."""

import pytest

from rankwise.report.reduction import draw_reduction


def document(**changes):
    curve = [
        {"method": method, "rank": rank, "lost_scores": 0.1, "cost": cost}
        for method, costs in (("activations", (0.0, 0.1, 0.4)), ("weights", (0.0, 0.3, 0.9)))
        for rank, cost in zip((8, 4, 2), costs, strict=True)
    ]
    alone = [{"layer": f"decoder {layer}", "cost": 0.1 * layer} for layer in range(3)]
    return {"model": "tiny", "rank": 4, "original_rank": 8, "tolerance": 0.2, "cost_unit": "nats", "curve": curve,
            "sensitivity": alone} | changes  # fmt: skip


def test_both_ways_of_cutting_and_every_layer_are_drawn():
    left, right = draw_reduction(document()).axes
    lines = {line.get_label(): list(map(tuple, line.get_xydata())) for line in left.get_lines()}
    assert lines["by activations"] == [(2, 0.4), (4, 0.1), (8, 0.0)]
    assert lines["by weights alone"] == [(2, 0.9), (4, 0.3), (8, 0.0)]
    assert [bar.get_width() for bar in right.patches] == pytest.approx([0, 0.1, 0.2])
    assert "nats" in left.get_ylabel()


def test_without_sensitivity_there_is_one_panel():
    assert len(draw_reduction(document(sensitivity=[], tolerance=None)).axes) == 1
