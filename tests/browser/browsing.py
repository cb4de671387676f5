"""A real browser for tests: Debian's chromium, headless, without a profile or a network of its own."""

import json
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars"),
)


@contextmanager
def browser(profile: Path, *, width: int = 1280, height: int = 900, dark: bool = False):
    """A fresh browser whose console and requests are kept."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM
    for flag in (*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(profile / "downloads")})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield driver
    finally:
        driver.quit()


def resize(driver, width: int, height: int) -> None:
    """The page's own size, also below the smallest window."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def open_page(driver, path: Path) -> float:
    """Open a file and wait until it is drawn; how many seconds that took, as the page itself saw it."""
    driver.get("about:blank")
    driver.get_log("performance")  # the browser's own first page is not ours
    driver.get(path.resolve().as_uri())
    until = time.monotonic() + 60
    while driver.execute_script("return document.documentElement.dataset.ready") != "yes":
        assert time.monotonic() < until, f"the page was not drawn: {console(driver)}"
        time.sleep(0.02)
    return driver.execute_script(
        "return new Promise(done => requestAnimationFrame(() => done(performance.now() / 1000)))"
    )


def console(driver) -> list[str]:
    """What the browser complained about since last asked."""
    return [f"{entry['level']}: {entry['message']}" for entry in driver.get_log("browser")]


def requests(driver) -> list[str]:
    """The addresses asked for since last asked."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def screenshot(driver, path: Path) -> Path:
    """The whole page, not only what fits the window."""
    import base64

    answer = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png"})
    path.write_bytes(base64.b64decode(answer["data"]))
    return path
