"""The page in a real browser: quiet, self-contained, and what it shows is what the store holds."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import browsing
import pytest

from rankwise.report.html import PageContent, write_page
from rankwise.report.store_data import read_store_data
from rankwise.sweep.store import read_store
from report_stores import HOSTILE, trade_off_runs, write_store

TAKE_DOWNLOADS = """
window.taken = [];
URL.createObjectURL = (blob) => { blob.text().then((text) => window.taken.push(text)); return "#taken"; };
"""


def done_rows(store):
    with read_store(store) as reader:
        return list(reader.rows("done"))


def click(driver, selector):
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def choose(driver, name, value):
    click(driver, f'#curves-body input[name="{name}"][value="{value}"]')


def downloaded(driver, selector):
    """What the download button would have saved, as text."""
    driver.execute_script(TAKE_DOWNLOADS)
    click(driver, selector)
    wait = "const done = arguments[0]; setTimeout(() => done(window.taken), 200);"
    return driver.execute_async_script(wait)


def titles(driver):
    return driver.execute_script("return [...document.querySelectorAll('#curves-body .title')].map(e => e.textContent)")


def marks(driver, panel=0):
    script = "return document.querySelectorAll('#curves-body .panel')[arguments[0]].querySelectorAll('.mark').length"
    return driver.execute_script(script, panel)


def heights(driver):
    script = "return [...document.querySelectorAll('#curves-body .panel .mark')].map(e => e.getBoundingClientRect().y)"
    return driver.execute_script(script)


def test_it_opens_without_complaints_or_requests(driver, page):
    browsing.open_page(driver, page)
    assert browsing.console(driver) == []
    assert browsing.requests(driver) == [page.resolve().as_uri()]
    assert driver.title.startswith("Half rank errs at least")


def test_the_policy_stops_foreign_scripts_and_requests(driver, page):
    browsing.open_page(driver, page)
    driver.execute_script("""
        const script = document.createElement("script"); script.textContent = "window.foreign = 1";
        document.body.append(script);
        const image = new Image(); image.src = "http://127.0.0.1:9/x.png"; document.body.append(image);""")
    assert driver.execute_script("return window.foreign") is None
    complaints = browsing.console(driver)
    assert sum("Content Security Policy" in line for line in complaints) == 2


def test_the_curves_are_the_stores_means(opened, store):
    (text,) = downloaded(opened, '#curves-body [data-get="csv"]')
    rows = list(csv.DictReader(io.StringIO(text)))
    errors = {row.run_id: row.result["error"] for row in done_rows(store)}
    assert len(rows) == 36
    for row in rows:
        own = [errors[run_id] for run_id in row["run ids"].split()]
        assert float(row["error"]) == pytest.approx(sum(own) / len(own), rel=1e-14)
        assert int(row["seeds"]) == len(own)


def test_every_number_of_every_run_is_in_the_csv(opened, store):
    (text,) = downloaded(opened, '#runs-body [data-get="csv"]')
    rows = {row["run_id"]: row for row in csv.DictReader(io.StringIO(text))}
    for row in done_rows(store):
        assert float(rows[row.run_id]["result.error"]) == row.result["error"]
        assert int(rows[row.run_id]["model.rank"]) == row.spec["model"]["rank"]
    formulas = [row["tags"] for row in rows.values() if "cmd()" in row["tags"]]
    assert formulas == ['["=cmd()"]']  # a list as JSON: no spreadsheet takes it for a formula
    assert any(row["reason"] == "'=cmd()" for row in rows.values())


def test_toggles_change_what_they_should(opened):
    assert titles(opened) == ["1 layer", "3 layers"]
    everything = marks(opened)
    choose(opened, "depth", "3 layers")
    assert titles(opened) == ["1 layer"]
    choose(opened, "protocol", "custom")
    assert marks(opened) == everything / 2
    choose(opened, "budget", "8")
    assert marks(opened) == everything / 3
    log = heights(opened)
    choose(opened, "error-scale", "linear")
    assert heights(opened) != log
    label = "return document.querySelector('#curves-body .axes .label').textContent"
    assert opened.execute_script(label) == "rank of a head"
    choose(opened, "axis", "heads")
    assert opened.execute_script(label) == "number of heads"


def test_training_curves_are_named_by_what_they_are(opened):
    label = "return [...document.querySelectorAll('#training-body .axes .label')].at(-1).textContent"
    assert opened.execute_script(label) == "↑ squared error per query"
    click(opened, '#training-body input[name="training-curve"][value="train"]')
    assert opened.execute_script(label) == "↑ training loss"  # some tasks train on another loss than their error


def test_the_bound_is_drawn_in_the_theorems_setting_only(opened):
    legend = "return document.querySelector('#curves-body .legend').textContent"
    assert "lower bound" not in opened.execute_script(legend)
    choose(opened, "setting", "1")
    assert titles(opened) == ["softmax heads"]
    assert "lower bound" in opened.execute_script(legend)


def test_the_keyboard_reads_points_and_opens_their_provenance(opened, store):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    chart = opened.find_element(By.CSS_SELECTOR, "#curves-body svg.chart")
    opened.execute_script("arguments[0].focus()", chart)
    chart.send_keys(Keys.ARROW_RIGHT)
    spoken = opened.find_element(By.ID, "live").get_attribute("textContent")
    for word in ("Rank", "error", "seeds", "parameters", "steps", "training time"):
        assert word in spoken
    chart.send_keys(Keys.ENTER)
    text = opened.find_element(By.ID, "provenance").text
    first = next(row for row in done_rows(store) if row.run_id in text)
    assert str(first.result["error"]) in text  # at full precision
    for word in ("model.rank", "seed", "torch", "2.13.0", "<b>cpu</b>", "optim.lr"):
        assert word in text
    click(opened, "#provenance .close")
    assert not opened.execute_script("return document.querySelector('#provenance').open")


def test_a_pointer_shows_the_point_under_it(opened):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    mark = opened.find_element(By.CSS_SELECTOR, "#curves-body .panel .mark")
    opened.execute_script("arguments[0].closest('svg').scrollIntoView({block: 'center', behavior: 'instant'})", mark)
    ActionChains(opened).move_to_element(mark).perform()
    WebDriverWait(opened, 20).until(lambda driver: driver.find_element(By.ID, "tip").text)
    tip = opened.find_element(By.ID, "tip").text
    for word in ("error", "seeds", "parameters", "steps", "training time", "protocol"):
        assert word in tip


def test_hostile_names_stay_text(opened):
    assert "owned" not in opened.title
    assert opened.execute_script("return document.querySelectorAll('main img').length") == 0
    failures = opened.execute_script("return document.querySelector('#failures-body').textContent")
    assert HOSTILE[0] in failures
    assert HOSTILE[1] in failures
    assert "\x1b" not in failures
    assert "the loss is inf" in failures
    runs = opened.execute_script("return document.querySelector('#runs-body').textContent")
    assert HOSTILE[0] in runs


def test_failures_are_listed_apart_and_averaged_nowhere(opened):
    rows = opened.execute_script("return document.querySelectorAll('#failures-body tbody tr').length")
    assert rows == 5
    data = json.loads(opened.execute_script("return document.querySelector('#data-store').textContent"))
    averaged = {index for setting in data["settings"] for cell in setting["cells"] for index in cell["runs"]}
    assert {data["runs"][index]["status"] for index in averaged} == {"done"}


def test_tables_sort_and_filter(opened):
    head = "[...document.querySelectorAll('#runs-body thead th')].find(h => h.textContent === 'rank')"
    cells = f"row => row.children[{head}.cellIndex].textContent"
    column = f"return [...document.querySelectorAll('#runs-body tbody tr')].map({cells})"
    opened.execute_script(f"{head}.querySelector('button').click()")
    ranks = [int(text) for text in opened.execute_script(column)]
    assert ranks == sorted(ranks)
    assert opened.execute_script(f"return {head}.getAttribute('aria-sort')") == "ascending"
    opened.execute_script(f"{head}.querySelector('button').click()")
    assert [int(text) for text in opened.execute_script(column)] == sorted(ranks, reverse=True)
    opened.execute_script("""const box = document.querySelector('#run-filter'); box.value = 'rank 4 , seed 1';
        box.dispatchEvent(new Event('input'))""")
    assert set(opened.execute_script(column)) == {"4"}


def test_the_filter_takes_numbers_whole_and_words_from_their_beginning(driver, tmp_path):
    base = trade_off_runs(dim=128, seeds=1, layers=(1,))[0]
    shapes = [(1, 8, 1), (16, 8, 10), (1, 80, 10), (1024, 2, 1)]
    runs = [replace(base, model=replace(base.model, heads=heads, rank=rank), seed=seed) for heads, rank, seed in shapes]
    store = read_store_data(write_store(tmp_path / "store", runs))
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, write_page(PageContent(store=store), tmp_path / "page.html"))

    def found(query):
        shown = driver.execute_script(
            """const box = document.querySelector('#run-filter'); box.value = arguments[0];
            box.dispatchEvent(new Event('input'));
            return [...document.querySelectorAll('#runs-body tbody th')].map(e => e.textContent)""",
            query,
        )
        return [at for at, run in enumerate(runs) if run.id[:8] in shown]

    assert found("rank 8") == [0, 1]
    assert found("rank 80") == [2]
    assert found("seed 1") == [0, 3]
    assert found("rank 8, seed 1") == [0]
    assert found("heads 1") == [0, 2]
    assert found("heads 1024") == found("heads 1,024") == found("seed 1,heads 1,024") == [3]
    assert found("ran; don") == [0, 1, 2, 3]
    assert found(runs[1].id[:6]) == [1]
    assert found("rank 3") == []
    assert browsing.console(driver) == []


def test_figures_leave_as_svg_with_their_legend(opened):
    texts = downloaded(opened, '#curves-body [data-get="svg"]')
    assert len(texts) == 2
    for text in texts:
        root = ElementTree.fromstring(text)
        words = "".join(root.itertext())
        assert "rank of a head" in words
        assert "d^2 parameters" in words
        assert "var(" not in text  # colours are resolved
        assert "light-dark" not in text


def test_tables_stand_behind_every_chart(opened):
    script = """return [...document.querySelectorAll('svg.chart')].map(chart => [
        chart.getAttribute('aria-label').length > 20, chart.tabIndex,
        chart.closest('section').querySelector('.tools + details summary') !== null])"""
    found = opened.execute_script(script)
    assert len(found) >= 4
    assert all(labelled and focusable == 0 and behind for labelled, focusable, behind in found)
    opened.execute_script("document.querySelectorAll('.tools + details').forEach(d => { d.open = true })")
    wait = "const done = arguments[0]; setTimeout(() => done(document.querySelectorAll('.behind table').length), 200)"
    assert opened.execute_async_script(wait) >= 3


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(driver, page, width):
    browsing.resize(driver, width, 800)
    browsing.open_page(driver, page)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system_and_the_button(opened):
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = opened.execute_script(paper)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    dark = opened.execute_script(paper)
    assert dark != light
    click(opened, "#theme")  # auto -> light
    assert opened.execute_script(paper) == light
    click(opened, "#theme")
    assert opened.execute_script(paper) == dark
    click(opened, "#theme")
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme | {"value": "light"}]})
