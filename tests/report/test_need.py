import json
from pathlib import Path

import pytest

from rankwise.need.document import read_need
from rankwise.report.need import draw_need

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", ["need-glove.json", "need-minilm.json"])
def test_the_kept_results_draw(name):
    left, right = draw_need(read_need(RESULTS / name)).axes
    document = json.loads((RESULTS / name).read_text())
    drawn = {line.get_label(): line for line in left.get_lines()}
    first = document["measurements"][0]
    isotropic = [point["error"] for point in first["isotropic"]]
    assert list(drawn["isotropic data, best form"].get_ydata()) == isotropic
    if len(document["measurements"]) == 1:
        best = [point["error"] for point in first["curves"]["best"]]
        assert list(drawn["best form found"].get_ydata()) == best
        assert right.get_title() == "Recall of the nearest key"
    else:
        blocks = [str(block) for block in range(6)]
        assert set(blocks) <= set(drawn)
        assert [label.get_text() for label in right.get_xticklabels()] == blocks
