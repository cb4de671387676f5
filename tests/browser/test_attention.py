"""The ranks of probed runs on the page, and labels that stay apart."""

import csv
import io
from dataclasses import replace

import browsing
import pytest

from rankwise.report.html import PageContent, write_page
from rankwise.report.store_data import read_store_data
from report_stores import theorem_runs, trade_off_runs, write_store

LABELS = "return [...document.querySelectorAll('#attention-body svg text')].map(e => e.textContent)"


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    runs = [replace(run, probe=8) for run in trade_off_runs(seeds=1, layers=(1, 2))]
    runs = [replace(run, model=replace(run.model, causal=run.model.layers == 2)) for run in runs]
    directory = tmp_path_factory.mktemp("probed") / "store"
    write_store(directory, [*theorem_runs(), *runs])
    levels = {"mean of points": 0.5, "best linear": 0.458}
    return write_page(
        PageContent(store=read_store_data(directory, lambda spec: levels)), directory.parent / "page.html"
    )


@pytest.fixture
def opened(driver, probed):
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, probed)
    yield driver
    assert browsing.console(driver) == []


def select(driver, name, value):
    driver.execute_script(
        """const box = document.getElementById(arguments[0]); box.value = arguments[1];
        box.dispatchEvent(new Event("change"))""",
        name,
        value,
    )


def table(driver):
    driver.execute_script("""window.taken = [];
        URL.createObjectURL = (blob) => { blob.text().then((text) => window.taken.push(text)); return "#taken"; };
        document.querySelector('#attention-body [data-get="csv"]').click()""")
    wait = "const done = arguments[0]; setTimeout(() => done(window.taken[0]), 200);"
    return list(csv.DictReader(io.StringIO(driver.execute_async_script(wait))))


def heights(driver):
    return driver.execute_script(
        "return [...document.querySelectorAll('#attention-body .panel .mark')].map(e => e.getBoundingClientRect().y)"
    )


def test_ranks_are_drawn_beside_random_attention_of_the_same_mask(opened):
    assert "random attention: 10.3" in opened.execute_script(LABELS)  # 16 (1 - (15/16)^16)
    select(opened, "attention-group", "1")  # two layers, causal
    assert "random attention: 8.5" in opened.execute_script(LABELS)
    select(opened, "attention-measure", "effective")
    assert not any("random" in text for text in opened.execute_script(LABELS))


def test_layers_and_measures_change_the_lines(opened):
    select(opened, "attention-group", "1")
    everything = heights(opened)
    select(opened, "attention-layer", "1")
    deeper = heights(opened)
    assert len(deeper) == len(everything) == 5 * 9
    assert all(one < other for one, other in zip(deeper, everything, strict=True)), "the second layer has higher ranks"
    assert "Hardmax rank, mean over the heads of layer 2" in opened.execute_script(LABELS)


def test_the_table_has_mean_and_extreme_heads(opened):
    select(opened, "attention-group", "1")
    rows = table(opened)
    assert len(rows) == 9 * 5 * 2  # cells, snapshots, layers
    for row in rows:
        at, layer, heads = int(row["step"]) // 50, int(row["layer"]) - 1, int(row["heads"])
        least, most = 2 + at + layer, 2 + at + layer + (heads - 1) / 4
        assert float(row["hardmax least head"]) == least
        assert float(row["hardmax most head"]) == most
        assert float(row["hardmax"]) == pytest.approx((least + most) / 2)
        assert float(row["effective"]) == pytest.approx((least + most) / 4)


def test_the_page_opens_on_the_setting_of_its_headline(opened):
    chosen = "return document.querySelector('#curves-body input[name=setting]:checked').value"
    assert opened.execute_script(chosen) == "1"  # the theorem's setting comes first in the store
    assert opened.title.startswith("Half rank errs at least")


@pytest.mark.parametrize("width", [390, 1280])
def test_names_of_levels_stay_apart(driver, probed, width):
    browsing.resize(driver, width, 900)
    browsing.open_page(driver, probed)
    driver.execute_script("document.querySelector('#curves-body input[name=setting]').click()")
    boxes = driver.execute_script("""return [...document.querySelectorAll('#curves-body svg.chart')].map(chart =>
        [...chart.querySelectorAll('.levels text, .axes text.label')].map(e => {
            const box = e.getBoundingClientRect();
            return [box.left, box.top, box.right, box.bottom, e.textContent]; }))""")
    for chart in boxes:
        assert {"mean of points", "best linear"} <= {name for *_, name in chart}
        for at, one in enumerate(chart):
            for other in chart[at + 1 :]:
                apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] + 3 or other[3] <= one[1] + 3
                assert apart, (one[4], other[4])


def test_titles_fit_a_phone(driver, probed):
    browsing.resize(driver, 340, 900)
    browsing.open_page(driver, probed)
    select(driver, "attention-measure", "hardmax")
    select(driver, "attention-group", "1")
    select(driver, "attention-layer", "1")
    shown, whole, right, edge = driver.execute_script("""
        const title = document.querySelector('#attention-body .title'), box = title.getBoundingClientRect();
        const panel = title.closest('.panel').getBoundingClientRect();
        return [title.firstChild.textContent, title.querySelector('title')?.textContent, box.right, panel.right]""")
    assert whole == "Hardmax rank, mean over the heads of layer 2"
    assert shown.endswith("…")
    assert right <= edge


@pytest.mark.parametrize("early", [0, 1])
def test_seeds_that_stop_early_are_averaged_step_by_step(driver, tmp_path, monkeypatch, early):
    """The other seed has ranks of 2 at steps 0 to 200; the early one has 4 and stops at step 120."""

    def attention_of(run):
        steps, rank = ([0, 50, 100, 120], 4.0) if run.seed == early else ([0, 50, 100, 150, 200], 2.0)
        return {"tokens": 16, "steps": steps, "hardmax": [[[rank]]] * len(steps)}

    monkeypatch.setattr("report_stores.attention_of", attention_of)
    runs = [replace(run, probe=8) for run in trade_off_runs(seeds=2, layers=(1,))[:2]]
    store = read_store_data(write_store(tmp_path / "store", runs))
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, write_page(PageContent(store=store), tmp_path / "page.html"))
    assert read_points(driver, 6) == [(0, 3, 2), (50, 3, 2), (100, 3, 2), (120, 4, 1), (150, 2, 1), (200, 2, 1)]
    notes = driver.execute_script("return document.querySelector('#attention-body .note').textContent")
    assert "stopped early" in notes
    assert browsing.console(driver) == []


def read_points(driver, count):
    """Step, mean and number of seeds of the first points, as the arrow key reads them."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    chart = driver.find_element(By.CSS_SELECTOR, "#attention-body svg.chart")
    driver.execute_script("arguments[0].focus()", chart)
    found = []
    for _ in range(count):
        chart.send_keys(Keys.ARROW_RIGHT)
        words = driver.find_element(By.ID, "live").get_attribute("textContent").split(", ")
        found.append(tuple(float(words[words.index(name) + 1]) for name in ("step", "mean", "seeds")))
    return found
