"""Commands that end with a page print its path last; without the extra they say so and do their work."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from rankwise.cli import main
from rankwise.spec import VectorFile
from report_stores import trade_off_runs, write_store


def write_vectors(path):
    np.save(path, np.random.default_rng(0).standard_normal((400, 4)))
    return str(path)


def test_need_ends_with_its_page(tmp_path, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = tmp_path / "pages" / "need.html"
    vectors = write_vectors(tmp_path / "keys.npy")
    assert main(["need", vectors, "--steps", "0", "--page", str(page), "--open"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(page)
    assert "The rank this data needs" in page.read_text()
    assert opened == [page.as_uri()]
    page.unlink()
    assert main(["need", vectors, "--steps", "0", "--page", str(page), "--json"]) == 0
    assert not page.exists()


def test_without_the_extra_the_answer_is_there_and_the_page_is_not(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    page = tmp_path / "need.html"
    assert main(["need", write_vectors(tmp_path / "keys.npy"), "--steps", "0", "--page", str(page)]) == 0
    answer = capsys.readouterr()
    assert "It means" in answer.out
    assert "pip install 'rankwise[report]'" in answer.err
    assert not page.exists()


def test_a_store_whose_vectors_lie_elsewhere_is_a_page_without_their_levels(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path / "keys.npy")
    run = trade_off_runs(dim=4, seeds=1)[0]
    rows = replace(run.task, distribution="rows", vectors_from=VectorFile.of(Path("keys.npy")))
    store = write_store(tmp_path / "store", [run, replace(run, task=rows)])
    elsewhere, page = tmp_path / "elsewhere", tmp_path / "page.html"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["report", str(store), "-o", str(page)]) == 0, capsys.readouterr().err
    data = page.read_text().split('id="data-store">')[1].split("</script>")[0]
    assert [len(setting["levels"]) for setting in json.loads(data)["settings"]] == [3, 0]
