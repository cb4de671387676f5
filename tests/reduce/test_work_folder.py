"""What an interrupted reduction goes on from is used for the same reduction alone."""

import json
from dataclasses import replace

import pytest
import torch

from rankwise.models.running.model import load_running
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.work_folder import work_folder
from saved_models import saved, tiny_language_model, tokens

TEACH, MEASURE = MaskedPieces(tokens(8, 16), ("a",)), MaskedPieces(tokens(4, 16, seed=1), ("b",))
TEXTS = {"calibration": TEACH, "selection": None, "evaluation": MEASURE, "healing": None}
PADDED = torch.ones(8, 16, dtype=torch.bool)
PADDED[3, 9:] = False
OTHER_TEXTS = {
    "other tokens": {"calibration": MaskedPieces(tokens(8, 16, seed=7), ("a",))},
    "other pieces of the same stream": {"calibration": replace(TEACH, tokens=TEACH.tokens.view(16, 8))},
    "fewer pieces": {"calibration": TEACH[:7]},
    "padding": {"calibration": replace(TEACH, real=PADDED)},
    "another use of the same texts": {"calibration": MEASURE, "evaluation": TEACH},
    "healing on the texts that measure": {"healing": MEASURE},
    "choosing on the texts that measure": {"selection": MEASURE},
    "measuring on others": {"evaluation": MEASURE[:3]},
}
OTHER_OPTIONS = {
    "keep": 0.25, "method": "activations", "allocation": "uniform", "heal_tokens": 11, "heal": 1.0, "form": "mla",
    "frontier": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tiny_language_model("llama"), tmp_path_factory.mktemp("model") / "tiny")


def name_of(folder, options=None, texts=TEXTS):
    with work_folder(
        folder.with_name("out"), load_running(folder), options or ReductionOptions(keep=0.5), texts
    ) as work:
        assert work.parent == folder.parent
        return work.name


def test_the_same_reduction_has_the_same_folder(folder):
    same = {name: None if one is None else replace(one, tokens=one.tokens.clone()) for name, one in TEXTS.items()}
    assert name_of(folder) == name_of(folder, ReductionOptions(keep=0.5), same)


@pytest.mark.parametrize("what", OTHER_TEXTS)
def test_other_texts_have_another(folder, what):
    assert name_of(folder, texts=TEXTS | OTHER_TEXTS[what]) != name_of(folder)


@pytest.mark.parametrize("option", OTHER_OPTIONS)
def test_other_options_have_another(folder, option):
    asked = ReductionOptions(**{"keep": 0.5} | {option: OTHER_OPTIONS[option]})
    assert name_of(folder, asked) != name_of(folder)
    assert (
        len({name_of(folder, ReductionOptions(**rank)) for rank in ({"rank": 3}, {"tolerance": 3.0}, {"rank": 4})}) == 3
    )


def test_another_model_has_another(folder):
    """Also where only a file in a folder of it differs, such as how an encoder pools."""
    before = name_of(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": "cls"}))
    assert name_of(folder) != before


def test_nothing_is_kept_of_a_model_in_memory(folder):
    running = replace(load_running(folder), origin=torch.nn.Linear(1, 1))
    with work_folder(folder.with_name("out"), running, ReductionOptions(keep=0.5), TEXTS) as work:
        assert work is None
