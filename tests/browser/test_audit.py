"""Audit, need, reduction and advice in the browser."""

import csv
import io
import json
from dataclasses import replace

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


def test_directions_that_mean_nothing_one_by_one_are_named_with_the_rule(audited):
    text = audited.execute_script("return document.querySelector('#audit-body').textContent")
    assert "neighbours lie within 1 % and a change of the weights by that much turns them into each other" in text
    assert "QK 2 to 3, 6 to 8." in text


def test_keys_and_values_as_one_vector_by_weights_and_on_texts(audited):
    script = (
        "return [...document.querySelectorAll('#audit-body table')]"
        ".filter(table => /weights|texts/.test(table.caption.textContent))"
        ".map(table => [table.caption.textContent, [...table.tBodies[0].rows[0].cells].map(cell => cell.textContent)])"
    )
    tables = dict(audited.execute_script(script))
    assert tables["By weights"] == ["decoder 0", "64", "7", "13", "51.5"]
    assert tables["On the texts"] == ["block 0", "64", "7", "13", "32"]


def test_names_stay_text_and_advice_is_there(audited):
    text = audited.execute_script("return document.querySelector('main').textContent")
    assert "Audit of <i>model</i>" in text
    assert "<u>other</u>.npy" in text
    assert "In the next training" in text
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


def test_what_to_do_comes_first_in_two_kinds(audited):
    text = audited.execute_script("return document.body.innerText")
    assert text.index("What to do") < text.index("Audit of")
    first = audited.execute_script("return document.querySelector('nav a').getAttribute('href')")
    assert first == "#advice"
    headings = audited.execute_script("return [...document.querySelectorAll('#advice h3')].map(e => e.textContent)")
    assert headings[:2] == ["With this trained model", "In the next training"]
    lede = audited.execute_script("return document.querySelector('header .lede').textContent")
    assert lede.startswith("With this trained model, ")


def test_the_explorer_and_the_spectrum_begin_with_the_model(audited):
    numbers = audited.execute_script(
        "return ['dim', 'rank', 'heads', 'kv-heads', 'layers'].map(n => +document.getElementById(`n-${n}`).value)"
    )
    assert numbers == [32, 8, 4, 4, 3]


def test_the_most_unusual_head_is_shown_first(driver, tmp_path):
    audit_report().write(tmp_path / "audit.json")  # effective ranks 1 to 6, random weights have 7
    assert main(["report", "--audit", str(tmp_path / "audit.json"), "-o", str(tmp_path / "page.html")]) == 0
    browsing.open_page(driver, tmp_path / "page.html")
    chosen = driver.execute_script("return ['layer', 'head'].map(n => +document.getElementById(`spectrum-${n}`).value)")
    assert chosen == [0, 0]
    report = audit_report()
    layers = list(report.layers)
    odd = replace(layers[2].head_reports[1], qk=replace(layers[2].head_reports[1].qk, effective=0.1))
    layers[2] = replace(layers[2], head_reports=(layers[2].head_reports[0], odd, *layers[2].head_reports[2:]))
    replace(report, layers=tuple(layers)).write(tmp_path / "audit.json")
    assert main(["report", "--audit", str(tmp_path / "audit.json"), "-o", str(tmp_path / "page.html")]) == 0
    browsing.open_page(driver, tmp_path / "page.html")
    assert driver.execute_script(
        "return ['layer', 'head'].map(n => +document.getElementById(`spectrum-${n}`).value)"
    ) == [2, 1]
    assert browsing.console(driver) == []
