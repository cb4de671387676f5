"""The page on related work: our numbers in it are those of the stored measurements, and its tables stay readable."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "related-work.md").read_text()


def row(start):
    """The cells of the one row that starts like this."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        ("MiniLM-L6, head dimension", "audit-minilm.json"),
        ("SmolLM2-135M-Instruct, head dimension", "audit-smollm2.json"),
    ],
)
def test_our_spectra_are_the_measured_ones(start, kept):
    audit = json.loads((ROOT / "results" / kept).read_text())
    scores = [
        head["mean"]["centred_logits_energy_90"] for layer in audit["attention"]["layers"] for head in layer["heads"]
    ]
    weights = [head["qk"]["energy_90"] for layer in audit["layers"] for head in layer["head_reports"]]
    measured = [f"{min(scores):.1f}", f"{max(scores):.1f}", str(min(weights)), str(max(weights))]
    assert row(start)[1:] == measured


def test_tables_have_at_most_five_columns():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert rows
    assert [line for line in rows if len(line.strip("|").split("|")) > 5] == []


def test_every_arxiv_number_links_to_its_own_paper():
    links = re.findall(r"\[(?:arXiv )?(\d{4}\.\d{5})\]\(https://arxiv\.org/abs/(\d{4}\.\d{5})\)", PAGE)
    assert len(links) > 15
    assert [pair for pair in links if len(set(pair)) != 1] == []
    assert len(re.findall(r"\d{4}\.\d{5}", PAGE)) == 2 * len(links)
