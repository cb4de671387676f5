"""``rankwise reproduce``: a table, the files, JSON, and mistakes that exit with 2."""

import json
import sys
from pathlib import Path

import pytest

from rankwise.cli import main
from rankwise.recipes.closed_form import laws
from rankwise.recipes.registry import FIGURES


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        laws.FIGURE.presets, "smoke", laws.Settings(lengths=(64, 256), simulated_lengths=(64,), tokens=640)
    )


def test_prints_a_table_and_ends_with_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "laws", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    seen = capsys.readouterr()
    assert "laws (smoke)" in seen.out
    assert "needed" in seen.out
    files = seen.out.splitlines()[-4:]
    assert files == [str(tmp_path / f"laws-smoke.{kind}") for kind in ("png", "svg", "csv", "md")]
    assert all(Path(name).stat().st_size > 0 for name in files)


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "laws", "--preset", "smoke", "--out", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["figure"], answer["preset"]) == ("laws", "smoke")
    assert answer["rows"][0]["needed"] == 32
    assert [Path(name).suffix for name in answer["files"]] == [".png", ".svg", ".csv", ".md"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lawz",), "did you mean 'laws'"),
        (("laws", "--preset", "night"), "preset: expected one of smoke, laptop"),
        ((), "vote"),
    ],
)
def test_mistakes_exit_with_2(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    seen = capsys.readouterr()
    assert message in seen.err
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_install_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["reproduce", "laws", "--preset", "smoke", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "pip install 'rankwise[report]'" in error
    assert not list(tmp_path.iterdir())


def test_help_names_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--help"]) == 0
    text = "".join(capsys.readouterr().out.split())
    assert all(name in text for name in FIGURES)
