"""One browser and one page for all tests here; skipped, with the reason, where there is no chromium."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import browsing

from rankwise.report.html import PageContent, write_page
from rankwise.report.store_data import read_store_data
from report_stores import HOSTILE, theorem_runs, trade_off_runs, write_store

MISSING = "needs chromium and chromium-driver (apt-get install chromium chromium-driver) and selenium"


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    pytest.importorskip("selenium", reason=MISSING)
    if browsing.CHROMIUM is None or browsing.DRIVER is None:
        pytest.skip(MISSING)
    with browsing.browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Two settings, two protocols, hostile names, failures."""
    runs = trade_off_runs(protocols=("capacity", "custom"))
    odd = [replace(runs[0], seed=90 + at, tags=(name,)) for at, name in enumerate(HOSTILE) if name.isprintable()]
    failed = [(replace(runs[1], seed=70 + at), name) for at, name in enumerate(HOSTILE)]
    diverged = [(replace(runs[2], seed=60), "diverged at step 3: the loss is inf")]
    directory = tmp_path_factory.mktemp("browser") / "store"
    return write_store(directory, [*runs, *odd, *theorem_runs()], failed=failed, diverged=diverged)


@pytest.fixture(scope="session")
def page(store):
    content = PageContent(store=read_store_data(store, lambda spec: {"zero": 1.0, "mean of points": 0.9}))
    return write_page(content, store.parent / "page.html")


@pytest.fixture
def opened(driver, page):
    """The page, freshly opened on a wide screen."""
    browsing.resize(driver, 1280, 900)
    browsing.open_page(driver, page)
    yield driver
    assert browsing.console(driver) == []
