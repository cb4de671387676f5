"""The site, built as ``make docs`` builds it: every link leads somewhere, nothing is fetched from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
ARGUMENTS = ("--quiet", "--fail-on-warning", "--keep-going")


class Page(HTMLParser):
    """What a page points to, what it loads, and where it can be pointed at."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.ids |= {of[key] for key in ("id", "name") if of.get(key)}
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])
        elif tag == "link" and of.get("rel") not in ("canonical", "search", "index", "next", "prev", "author"):
            self.loads.append(of["href"])
        elif of.get("src"):
            self.loads.append(of["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="needs the extra docs")
    out = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "sphinx", *ARGUMENTS, "-d", out / "trees", ROOT / "docs", out / "html")
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    return {path: Page(path.read_text()) for path in sorted((out / "html").rglob("*.html"))}


@pytest.mark.slow
def test_every_link_leads_somewhere(site):
    broken = []
    for path, page in site.items():
        for link in page.links:
            to = urlsplit(link)
            if to.scheme or link == "#":
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            if not target.exists() or (to.fragment and target in site and unquote(to.fragment) not in site[target].ids):
                broken.append(f"{path.name}: {link}")
    assert broken == []


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site):
    loads = {load for page in site.values() for load in page.loads}
    assert {load for load in loads if urlsplit(load).scheme not in ("", "data") or load.startswith("//")} == set()
    styles = [path.read_text() for path in next(iter(site)).parent.rglob("*.css")]
    assert styles
    outside = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")
    assert [outside.findall(style) for style in styles if outside.search(style)] == []


@pytest.mark.slow
def test_the_reference_has_the_public_names_and_no_others(site):
    import rankwise.nn

    (page,) = (page for path, page in site.items() if path.parent.name == "api" and path.name == "nn.html")
    described = {
        name.rsplit(".", 1)[1] for name in page.ids if name.startswith("rankwise.nn.") and name.count(".") == 3
    }
    assert {f"rankwise.nn.{name}" for name in rankwise.nn.__all__} <= page.ids
    assert not any(name.startswith("_") for name in described)


def test_make_docs_builds_with_the_same_arguments():
    makefile = (ROOT / "Makefile").read_text()
    assert f"sphinx-build {' '.join(ARGUMENTS)} " in makefile


def test_every_page_is_in_the_contents():
    """Each Markdown file of docs stands in a table of contents, so that a newcomer can find it."""
    index = (ROOT / "docs" / "index.md").read_text() + (ROOT / "docs" / "api" / "index.md").read_text()
    listed = set(re.findall(r"^(?:.* <)?([\w/-]+)>?$", index, flags=re.MULTILINE))
    pages = [path for folder in (".", "api") for path in (ROOT / "docs" / folder).glob("*.md") if path.stem != "index"]
    names = {
        path.stem if path.parent.name == "api" else str(path.relative_to(ROOT / "docs").with_suffix(""))
        for path in pages
    }
    assert names - listed == set()
