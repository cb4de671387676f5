"""``rankwise reproduce`` for the figures of the bound: files written, numbers that are numbers."""

import csv
import json
import sys

import pytest

from rankwise.cli import main
from rankwise.recipes.registry import computed_recipe

FIGURES = ("bound", "exponent", "features", "representation")


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_computed_and_drawn(figure, tmp_path, capsys):
    assert main(["reproduce", figure, "--preset", "smoke", "--out", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert answer["figure"] == figure
    assert answer["rows"]
    assert all(line.endswith(".") for line in answer["reading"])
    png, svg, numbers, page = (tmp_path / f"{figure}-smoke.{kind}" for kind in ("png", "svg", "csv", "md"))
    assert answer["files"] == [str(path) for path in (png, svg, numbers, page)]
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 20_000
    assert "</svg>" in svg.read_text()
    rows = list(csv.DictReader(numbers.read_text().splitlines()))
    assert rows
    assert not {"nan", "inf"} & {cell for row in rows for cell in row.values()}


@pytest.mark.parametrize("figure", FIGURES)
def test_a_missing_extra_is_named_before_the_work(figure, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(computed_recipe(figure), "compute", lambda *_: pytest.fail("computed what cannot be drawn"))
    assert main(["reproduce", figure, "--preset", "smoke", "--out", str(tmp_path)]) == 2
    assert "pip install 'rankwise[report]'" in capsys.readouterr().err
