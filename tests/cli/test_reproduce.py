"""``rankwise reproduce``: files written, strict JSON, a table, exit code 2 for what does not exist."""

import json

import pytest

from rankwise.cli import main

FIGURES = ("bound", "exponent", "features", "representation")


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_computed_and_drawn(figure, tmp_path, capsys):
    assert main(["reproduce", figure, "--preset", "smoke", "--out", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert answer["figure"] == figure
    assert answer["rows"]
    assert answer["reading"].endswith(".")
    png, svg, numbers = (tmp_path / f"{figure}.{kind}" for kind in ("png", "svg", "json"))
    assert answer["files"] == [str(path) for path in (png, svg, numbers)]
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 20_000
    assert "</svg>" in svg.read_text()
    assert json.loads(numbers.read_text(), parse_constant=pytest.fail)


def test_the_table_for_people(tmp_path, capsys):
    assert main(["reproduce", "representation", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    seen = capsys.readouterr()
    assert "root mean square of u" in seen.out
    assert "0.7205" in seen.out
    assert "dim 4, degree 1: 200000 heads" in seen.err


def test_mistakes_exit_with_2(tmp_path, capsys):
    assert main(["reproduce", "bounds", "--out", str(tmp_path)]) == 2
    assert "did you mean 'bound'" in capsys.readouterr().err
    assert main(["reproduce", "bound", "--preset", "huge", "--out", str(tmp_path)]) == 2
    assert "preset: expected one of smoke, laptop, got 'huge'" in capsys.readouterr().err
