"""A thousand runs with long training curves: a page that mail still carries and a browser still opens."""

import browsing

from rankwise.report.html import PageContent, write_page
from rankwise.report.store_data import read_store_data
from report_stores import trade_off_runs, write_store


def test_a_thousand_runs(driver, tmp_path):
    runs = trade_off_runs(dim=16, seeds=28, layers=(1, 2, 3, 5))[:1000]
    assert len(runs) == 1000
    store = read_store_data(write_store(tmp_path / "store", runs, epochs=1000))
    page = write_page(PageContent(store=store), tmp_path / "page.html")
    assert page.stat().st_size < 20 * 2**20
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, page)
    assert browsing.console(driver) == []
    count = "return document.querySelectorAll('#runs-body tbody tr').length"
    assert driver.execute_script(count) == 200  # the first; a button shows the others
    driver.execute_script("[...document.querySelectorAll('#runs-body button.quiet')].at(-1).click()")
    assert driver.execute_script(count) == 1000
