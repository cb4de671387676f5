"""``make docs-pictures``: the pictures of the tutorial, by following it, and of pages of the models in results.

Every command of the page is run in a temporary directory; what it draws is made small and kept in docs/pictures. Pages
are photographed by chromium; without one, the old pictures stay.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.tools.commands import Python, Reader, blocks_of
from PIL import Image

DOCS = Path(__file__).parents[1]
DRAWN = {
    "barrier": "figures/barrier-smoke.png",
    "theorem": "figures/theorem-smoke.png",
    "need": "need.png",
    "report": "report.png",
}
PAGES = {
    "page-audit-minilm": ("--audit", "audit-minilm.json"),
    "page-audit-smollm2": ("--audit", "audit-smollm2.json"),
    "page-need-minilm": ("--need", "need-minilm.json"),
    "page-reduce-minilm": ("--reduce", "reduce-minilm.json"),
    "page-reduce-smollm2": ("--reduce", "reduce-smollm2.json"),
    "page-advice": (
        *("--audit", "audit-minilm.json", "--need", "need-minilm.json"),
        *("--reduce", "reduce-minilm.json"),
    ),
    "page-advice-smollm2": ("--audit", "audit-smollm2.json", "--reduce", "reduce-smollm2.json"),
}
"""What ``rankwise report`` is given, files of results."""
WIDTH = 1400  # pixels: sharp at twice the width of a page's column
COLOURS = 128  # lines keep the colours of their legend; a third of the bytes
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--hide-scrollbars"),
    *("--run-all-compositor-stages-before-draw", "--disable-checker-imaging"),  # else tiles may be missing
)


def main() -> None:
    """Follow, photograph, keep."""
    with tempfile.TemporaryDirectory(prefix="rankwise-tutorial-") as scratch:
        directory = Path(scratch)
        reader = Reader(directory)
        for block in blocks_of(DOCS / "tutorial.md"):
            if isinstance(block, Python):
                reader.execute(block)
            else:
                print(f"$ {block.text}", flush=True)
                reader.run(block)
        photograph(directory / "report.html", directory / "report.png")
        for name, drawn in DRAWN.items():
            if (directory / drawn).exists():
                keep(directory / drawn, DOCS / "pictures" / f"{name}.png")
    draw_pages()


def draw_pages() -> None:
    """The tops of the pages of the models in results."""
    for name, options in PAGES.items():
        with tempfile.TemporaryDirectory(prefix="rankwise-page-") as scratch:
            page, picture = Path(scratch) / "page.html", Path(scratch) / "page.png"
            command = [sys.executable, "-m", "rankwise", "report", *options, "-o", str(page)]
            subprocess.run(command, check=True, capture_output=True, cwd=DOCS.parent / "results")
            photograph(page, picture, height=1300)
            if picture.exists():
                keep(picture, DOCS / "pictures" / f"{name}.png")


def photograph(page: Path, picture: Path, *, height: int = 1500) -> None:
    """The top of ``page``, as a fresh browser shows it."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("no chromium: the picture of the report stays as it is")
        return
    profile = picture.with_suffix(".profile")
    flags = (
        *_FLAGS,
        f"--window-size=1280,{height}",
        f"--user-data-dir={profile}",
        f"--screenshot={picture}",
        "--virtual-time-budget=10000",
    )
    subprocess.run([browser, *flags, page.resolve().as_uri()], check=True, capture_output=True, timeout=120)


def keep(drawn: Path, kept: Path) -> None:
    """A small copy: at most ``WIDTH`` wide, few colours."""
    with Image.open(drawn) as image:
        scale = min(1.0, WIDTH / image.width)
        size = round(image.width * scale), round(image.height * scale)
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
        flat.resize(size, Image.Resampling.LANCZOS).quantize(COLOURS, dither=Image.Dither.NONE).save(
            kept, optimize=True
        )
    print(f"{kept.relative_to(DOCS.parent)}: {kept.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
