"""A watched training in the browser: every reading is drawn, alarms are listed."""

import browsing
import pytest
import torch

from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.nn import MultiheadAttention
from rankwise.watch import Watch, read_watch


def watched(path):
    """Two looks at a layer; before the second, head 1 is made to see one direction alone."""
    torch.manual_seed(0)
    layer = MultiheadAttention(16, 2, 8, causal=True)
    with Watch(layer, every=1) as watch:
        for _ in range(2):
            with torch.no_grad():
                layer(torch.randn(2, 40, 16))
            watch.step()
            layer.q_weight.data[1, 1:] = 0.0
            layer.q_weight.data[1] *= 1e4
        return watch.write(path), watch.report


def test_a_watched_training_is_a_document(tmp_path):
    path, report = watched(tmp_path / "watch.json")
    read = read_watch(path)
    assert read.to_json() == report.to_json()
    assert [seen.step for seen in read.observations] == [0, 1]
    assert read.alarms
    assert read.headline() == "MultiheadAttention at step 1: 1 of 2 heads give an alarm"
    with Watch(MultiheadAttention(8, 1, 8)) as unused, pytest.raises(InvalidInputError, match="at least one look"):
        unused.write(tmp_path / "none.json")


def test_readings_are_drawn_by_step(driver, tmp_path):
    path, report = watched(tmp_path / "watch.json")
    assert main(["report", "--watch", str(path), "-o", str(tmp_path / "page.html")]) == 0
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, tmp_path / "page.html")
    titles = driver.execute_script(
        "return [...document.querySelectorAll('#watch-body .title')].map(e => e.textContent)"
    )
    assert titles == [
        "Attention rank as a share of random attention",
        "Entropy of attention as a share of uniform rows",
        "Effective rank of QK as a share of Gaussian weights",
    ]
    assert driver.execute_script("return document.querySelector('h1').textContent") == report.headline()
    alarms = driver.execute_script("return [...document.querySelectorAll('#watch li')].map(e => e.textContent)")
    assert alarms == [str(alarm) for alarm in report.alarms]
    assert browsing.console(driver) == []
