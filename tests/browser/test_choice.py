"""A choice of shapes in the browser."""

import browsing

from rankwise.cli import main
from report_documents import choice


def test_loss_against_rank_is_drawn_for_every_budget(driver, tmp_path):
    choice().write(tmp_path / "choice.json")
    assert main(["report", "--choose", str(tmp_path / "choice.json"), "-o", str(tmp_path / "page.html")]) == 0
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, tmp_path / "page.html")
    titles = driver.execute_script(
        "return [...document.querySelectorAll('#choice-body .title')].map(e => e.textContent)"
    )
    assert titles == [
        "Loss against rank at 32,768 attention weights",
        "Loss against rank at 512 B of cache per token",
    ]
    assert "32 heads of rank 2" in driver.execute_script("return document.querySelector('h1').textContent")
    assert "does not prove" in driver.execute_script("return document.querySelector('#choice .lede').textContent")
    assert browsing.console(driver) == []
