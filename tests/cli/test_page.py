"""Commands that end with a page print its path last; without the extra they say so and do their work."""

import sys

import numpy as np

from rankwise.cli import main


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
