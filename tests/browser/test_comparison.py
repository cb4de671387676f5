"""Two models compared, in the browser."""

import browsing
from test_audit import pick
from test_page import click

from rankwise.report import PageContent, write_page
from report_documents import comparison


def test_every_head_is_a_cell_of_what_moved(driver, tmp_path):
    write_page(PageContent(comparison=comparison()), tmp_path / "page.html")
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, tmp_path / "page.html")

    def cells():
        script = "return [...document.querySelectorAll('#comparison-body .cell')].map(e => +e.dataset.value)"
        return driver.execute_script(script)

    assert cells() == [0, 0.1, 0.2, 0.3, 0, 0.1, 0.2, 0.3]
    pick(driver, "#comparison-measure", "directions")
    assert cells() == [0, 1, 2, 3, 0, 1, 2, 3]
    click(driver, '#comparison-body input[name="comparison-form"][value="ov"]')
    assert cells() == [0, 0, 0, 0]  # of the second layer nothing is known
    assert "6 of 8 heads moved" in driver.execute_script("return document.querySelector('h1').textContent")
    assert browsing.console(driver) == []
