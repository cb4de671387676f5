"""Ranks planted in tiny models of the architectures of ``transformers`` are found, each head on its own key head."""

import numpy as np
import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from architectures import ARCHITECTURES, REFUSED, cut_heads, tiny_architecture
from rankwise.audit.spectra import ov_forms, qk_forms, ranks_of
from rankwise.errors import InvalidInputError
from rankwise.models.files.source import open_model
from rankwise.models.layouts import load_layer, place
from rankwise.models.tensor_source import as_source

QUICK = ("gpt2", "gemma2", "qwen3_next", "bloom", "codegen", "deberta", "olmo2", "bart", "clip", "swin", "albert",
         "jamba", "zamba2", "gpt_oss")  # fmt: skip
ON_DISK = ("vit", "qwen2_vl", "mpt")
# towers and kinds of attention that the twin cannot be run on
PARTLY = {"gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "mllama", "paligemma", "siglip", "longt5", "swin"}
UNPROVED = {"wavlm"}


def plant(rows, rng):
    """Zero some rows; the others' numbers."""
    keep = rng.random(len(rows)) < rng.uniform(0.3, 0.9)
    rows[torch.from_numpy(~keep)] = 0
    return set(np.flatnonzero(keep).tolist())


def planted(blocks):
    """The ranks of QK and OV that are left in every head when rows are zeroed at random."""
    rng = np.random.default_rng(1)
    left = {}
    for tensor, block in blocks.items():
        kept = {part: [plant(rows, rng) for rows in getattr(block, part)] for part in "qkvo"}
        group = len(block.q) // len(block.k)
        left[tensor] = (
            [len(kept["q"][h] & kept["k"][h // group]) for h in range(len(block.q))],
            [len(kept["o"][h] & kept["v"][h // group]) for h in range(len(block.q))],
        )
    return left


def measured(source):
    found = {}
    placement = place(source)
    for ref in placement.layers:
        weights = load_layer(source, ref).folded()
        forms = (qk_forms(weights), ov_forms(weights))
        ranks = tuple([r.numerical for r in ranks_of(form.singular_values, max(form.sizes))] for form in forms)
        found[ref.q.tensor] = ranks
    return found, placement


def check(name, folder=None):
    model = tiny_architecture(name)
    expected = planted(cut_heads(name, model))
    if folder is None:
        source = as_source(model)
    else:
        model.save_pretrained(folder)
        source = open_model(folder)
    found, placement = measured(source)
    parts = {tensor: ranks for tensor, ranks in found.items() if not tensor.endswith("in_proj_weight")}  # torch's own
    if folder is None:
        assert parts == expected
    else:  # names on disk may be older ones
        assert sorted(parts.values()) == sorted(expected.values())
    return placement


@pytest.mark.parametrize("name", QUICK)
def test_planted_ranks_are_found(name):
    placement = check(name)
    assert (placement.proof == "verified") == (name not in PARTLY)


@pytest.mark.parametrize("name", ON_DISK)
def test_planted_ranks_are_found_in_files(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - set(REFUSED)))
def test_planted_ranks_are_found_in_every_architecture(name, tmp_path):
    proof = check(name).proof
    if name in UNPROVED:
        assert proof == "by names alone"
    else:
        assert (proof == "verified") == (name not in PARTLY)
    check(name, tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_placed_is_refused_for_the_true_reason(name):
    with pytest.raises(InvalidInputError, match=REFUSED[name]):
        place(tiny_architecture(name))


def test_the_list_is_of_transformers_own():
    assert set(ARCHITECTURES) <= set(CONFIG_MAPPING_NAMES)
    assert len(ARCHITECTURES) - len(REFUSED) >= 95
