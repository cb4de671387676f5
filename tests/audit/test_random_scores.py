"""Heads with random weights: their inputs, their logits and their ranks."""

import pytest
import torch

from rankwise.audit import random_scores
from rankwise.errors import InvalidInputError
from rankwise.theory.occupancy import hardmax_rank_mean


@pytest.mark.parametrize("law", random_scores.INPUTS)
def test_random_inputs_have_the_geometry_they_are_named_for(law: str) -> None:
    inputs = random_scores.random_inputs(law, 64, 512, torch.Generator().manual_seed(0))
    gram = (inputs @ inputs.T) / 512
    off = gram - gram.diagonal().diag()
    cosine = {"orthonormal": 0.0, "gaussian": 0.0, "shared direction": 0.5}[law]
    assert gram.diagonal().mean().item() == pytest.approx(1, abs=0.05)
    assert (off.sum() / (64 * 63)).item() == pytest.approx(cosine, abs=0.03)
    assert (off.abs().max().item() < 1e-4) == (law == "orthonormal")


def test_more_tokens_than_dimensions_cannot_be_orthonormal() -> None:
    with pytest.raises(InvalidInputError, match=r"^tokens: at most dim = 8"):
        random_scores.random_inputs("orthonormal", 9, 8, torch.Generator())
    with pytest.raises(InvalidInputError, match=r"^law: "):
        random_scores.random_inputs("text", 4, 8, torch.Generator())


def test_one_head_has_no_standard_error() -> None:
    with pytest.raises(InvalidInputError, match=r"^weights: expected at least 2 heads"):
        random_scores.ranks_of_scores(torch.zeros(1, 4, 4))


def test_plain_scores_have_unit_logits_and_the_first_layer_is_like_plain_heads() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = random_scores.random_inputs("gaussian", 200, 256, generator)
    scores = random_scores.plain_scores(inputs, 32, 4, generator)
    assert scores.std().item() == pytest.approx(1, abs=0.05)
    first = random_scores.layer_weights(200, 256, 8, 1, "pre", generator)[0]
    logits = first.log() - first.log().mean(-1, keepdim=True)
    assert logits.std().item() == pytest.approx(1, abs=0.05)
    plain, layer = random_scores.ranks_of_scores(scores), random_scores.ranks_of_weights(first)
    assert layer.hardmax == pytest.approx(plain.hardmax, abs=0.05)


def test_latent_heads_have_unit_logits_and_are_causal() -> None:
    weights = random_scores.latent_weights(40, 2, torch.Generator().manual_seed(0))
    assert weights.shape == (2, 40, 40)
    assert not weights.triu(1).any()
    logits = weights[:, -1].log()
    assert logits.std().item() == pytest.approx(1, abs=0.3)
    assert random_scores.ranks_of_weights(weights).hardmax == pytest.approx(
        hardmax_rank_mean(40, "causal") / 40, abs=0.15
    )
