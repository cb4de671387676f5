"""What commands print fits a terminal of 80 columns: words wrap, columns are left out, nothing is cut."""

from pathlib import Path

import pytest
from rich.console import Console

from rankwise.advise import advise, situation
from rankwise.audit import read_report
from rankwise.cli import main
from rankwise.cli.advise import print_advice
from rankwise.cli.audit_table import print_report
from rankwise.cli.need import print_need
from rankwise.cli.reduce_table import print_reduction
from rankwise.need import read_need
from rankwise.reduce import read_reduction
from saved_models import saved_byte_model

RESULTS = Path(__file__).parents[2] / "results"
SHOWN = {
    "audit": lambda: print_report(read_report(RESULTS / "audit-minilm.json")),
    "audit of shared keys": lambda: print_report(read_report(RESULTS / "audit-smollm2.json")),
    "need of vectors": lambda: print_need(read_need(RESULTS / "need-glove.json")),
    "need of blocks": lambda: print_need(read_need(RESULTS / "need-minilm.json")),
    "reduction": lambda: print_reduction(read_reduction(RESULTS / "reduce-minilm.json"), None),
    "advice": lambda: print_advice(
        advise(situation(dim=384, heads=12, layers=6, need=read_need(RESULTS / "need-minilm.json")))
    ),
}


@pytest.fixture
def narrow(monkeypatch):
    def terminal(**_):
        return Console(force_terminal=True, width=80, no_color=True, color_system=None, highlight=False)

    for module in ("output", "advise", "attention_table", "audit_table", "need", "reduce_table"):
        monkeypatch.setattr(f"rankwise.cli.{module}.console", terminal)


@pytest.mark.parametrize("name", SHOWN)
def test_nothing_is_cut_at_80_columns(name, narrow, capsys):
    SHOWN[name]()
    require_narrow(capsys.readouterr().out)


def test_attention_on_texts_is_not_cut_either(narrow, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    saved_byte_model(tmp_path / "model")
    Path("text.txt").write_text("How much rank does an attention head need, and how many heads? " * 40)
    assert main(["audit", "model", "--text", "text.txt", "--length", "64"]) == 0
    shown = capsys.readouterr().out
    assert "sink" in shown
    assert " ".join(shown.split()).endswith("measure it: rankwise advise --model model --text text.txt audit.html")
    require_narrow(shown)


def require_narrow(shown):
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
