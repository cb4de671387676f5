"""Audit, need, reduction and advice in the browser."""

import csv
import io
import json

import browsing
import pytest
from test_page import click, downloaded

from rankwise.cli import main
from report_documents import audit_report, need_document, reduction_document


@pytest.fixture(scope="module")
def audited(driver, tmp_path_factory):
    """A page without a store."""
    folder = tmp_path_factory.mktemp("audit")
    audit_report().write(folder / "audit.json")
    (folder / "need.json").write_text(json.dumps(need_document()))
    (folder / "reduce.json").write_text(json.dumps(reduction_document()))
    files = [word for kind in ("audit", "need", "reduce") for word in (f"--{kind}", str(folder / f"{kind}.json"))]
    assert main(["report", *files, "-o", str(folder / "page.html")]) == 0
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, folder / "page.html")
    assert len(browsing.requests(driver)) == 1
    yield driver
    assert browsing.console(driver) == []


def cells(driver):
    script = "return [...document.querySelectorAll('#audit-body .cell')].map(e => [+e.dataset.value, e.style.fill])"
    return driver.execute_script(script)


def pick(driver, selector, value):
    driver.execute_script(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))",
        selector,
        value,
    )


def test_the_heat_map_has_a_cell_for_every_head_coloured_against_its_baseline(audited):
    found = cells(audited)
    assert [value for value, _ in found] == [layer + head + 1 for layer in range(3) for head in range(4)]
    colour = dict(found)
    assert "--c1" in colour[1]  # far below the baseline of 6
    pale = int(colour[6].split("%")[0].rsplit(" ", 1)[1])
    strong = int(colour[1].split("%")[0].rsplit(" ", 1)[1])
    assert pale < 10 < strong


def test_measures_and_forms_change_the_map(audited):
    pick(audited, "#audit-measure", "stable")
    assert cells(audited)[0][0] == 0.5
    click(audited, '#audit-body input[name="audit-form"][value="attention"]')
    assert [value for value, _ in cells(audited)][:4] == [3, 4, 5, 6]
    options = audited.execute_script("return [...document.querySelectorAll('#audit-measure option')].map(o => o.value)")
    assert options == ["hardmax_rank", "effective_rank", "sink_share", "fixed_share"]  # those that were measured
    click(audited, '#audit-body input[name="audit-form"][value="qk"]')


def test_the_maps_numbers_leave_as_csv(audited):
    (text,) = downloaded(audited, '#audit-body [data-get="csv"]')
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 13
    assert rows[1][:4] == ["decoder 0", "0", "1", "6"]


def test_a_cell_leads_to_its_spectrum(audited):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    heat = audited.find_element(By.CSS_SELECTOR, "#audit-body svg.heat")
    audited.execute_script("arguments[0].focus()", heat)
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ENTER):
        heat.send_keys(key)
    titles = "return [...document.querySelectorAll('#audit-body .title')].map(e => e.textContent)"
    assert audited.execute_script(titles)[1] == "decoder 1, head 1"


def test_names_stay_text_and_advice_is_there(audited):
    text = audited.execute_script("return document.querySelector('main').textContent")
    assert "Audit of <i>model</i>" in text
    assert "<u>other</u>.npy" in text
    assert "Need, plateau, and what to try" in text
    assert "It does not prove" in text
    assert audited.execute_script("return document.querySelectorAll('main u, main h2 i').length") == 0


def test_need_shows_the_most_demanding_first(audited):
    value = "return document.querySelector('#need-body .answer output').textContent"
    assert audited.execute_script(value) == "12"
    pick(audited, "#need-of", "0")
    assert audited.execute_script(value) == "9"
    (text,) = downloaded(audited, '#need-body [data-get="csv"]')
    best = [row for row in csv.DictReader(io.StringIO(text)) if row["form"] == "best"]
    assert [float(row["error"]) for row in best] == [
        point["error"] for point in need_document()["measurements"][0]["curves"]["best"]
    ]


def test_reduction_shows_verdict_frontier_and_layers(audited):
    text = audited.execute_script("return document.querySelector('#reduction').textContent")
    for word in ("worth trying", "cached numbers per token", "nats per token", "directions by weights"):
        assert word in text
    (rows,) = downloaded(audited, '#reduction-body [data-get="csv"]')
    assert len(list(csv.DictReader(io.StringIO(rows)))) == 6
