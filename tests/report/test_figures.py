"""The look of figures: files come in pairs, are reproducible, and need the extra only when something is drawn."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rankwise.errors import MissingExtraError
from rankwise.report import figures


def test_a_figure_is_saved_as_png_and_svg_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    written = []
    for turn in ("one", "two"):
        with figures.house_style():
            figure = figures.new_figure(3, 2)
            axes = figure.subplots()
            axes.plot([1, 2], [0.4, 0.6], color=figures.COLOURS[0], marker=figures.MARKERS[0], label="line")
            figures.label_level(axes, 0.632, "barrier")
            axes.legend()
        png, svg = figures.save_figure(figure, tmp_path / turn / "some.figure")
        assert (png.name, svg.name) == ("some.figure.png", "some.figure.svg")
        written.append((png.read_bytes(), svg.read_bytes()))
    assert written[0] == written[1]
    assert written[0][0].startswith(b"\x89PNG")
    words = "".join(ElementTree.fromstring(written[0][1]).itertext())
    assert "barrier" in words  # text stays text, to be searched and read aloud


def test_the_style_ends_with_its_block() -> None:
    import matplotlib

    before = matplotlib.rcParams["font.size"], matplotlib.rcParams["axes.grid"]
    with figures.house_style():
        assert matplotlib.rcParams["axes.grid"]
    assert (matplotlib.rcParams["font.size"], matplotlib.rcParams["axes.grid"]) == before


@pytest.mark.parametrize("count", [1, 2, 6])
def test_a_ramp_goes_from_light_to_dark(count: int) -> None:
    colours = figures.ramp(count)
    assert len(set(colours)) == count
    light = [sum(int(colour[at : at + 2], 16) for at in (1, 3, 5)) for colour in colours]
    assert light == sorted(light, reverse=True)


def test_without_matplotlib_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankwise\[report\]'"):
        figures.new_figure(3, 2)
    with pytest.raises(MissingExtraError, match="drawing a figure"), figures.house_style():
        pass
