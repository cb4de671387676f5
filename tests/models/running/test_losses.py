"""Losses of models and of guesses, and what they warn of."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from rankwise.models.running.losses import run_sanity, token_loss, unigram_loss
from rankwise.models.running.model import running_from
from rankwise.models.running.texts import Pieces
from rankwise.spec.fields import build
from saved_models import tiny_language_model, tokens


def test_the_loss_is_that_of_the_next_token():
    running = running_from(tiny_language_model("llama"), objective="causal")
    ids = tokens(texts=5)
    with torch.no_grad():
        expected = cross_entropy(running.model(ids).logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert token_loss(running, ids, None) == pytest.approx(float(expected), rel=1e-5)


def test_guessing_by_frequency_costs_the_entropy_where_tokens_abound():
    weights = torch.tensor([0.5, 0.25, 0.125, 0.125])
    drawn = torch.multinomial(weights, 100_000, replacement=True, generator=torch.Generator().manual_seed(0))
    assert unigram_loss(drawn, 4) == pytest.approx(1.75 * math.log(2), rel=0.005)


def test_guessing_by_frequency_costs_as_much_as_a_uniform_guess_where_every_token_is_new():
    assert unigram_loss(torch.arange(50), 50) == pytest.approx(math.log(50), rel=0.02)


def test_a_model_that_reads_worse_than_guessing_is_warned_of():
    running = running_from(tiny_language_model("llama"), objective="causal")
    ids = tokens(texts=12, vocabulary=6)  # three tokens alone, which an untrained model cannot know
    sanity = run_sanity(running, Pieces(tokens=ids, sources=("ids",), used=1.0))
    assert sanity.loss > sanity.uniform_loss > sanity.unigram_loss == pytest.approx(math.log(3), rel=0.05)
    assert (sanity.loss_pieces, sanity.pieces, sanity.unknown_share) == (8, 12, None)
    (warning,) = sanity.warnings()
    assert "above the" in warning
    assert "guessing by frequency" in warning
    assert replace(sanity, loss=1.0).warnings() == ()


def test_sanity_is_read_back_from_plain_values():
    running = running_from(tiny_language_model("gpt2"), objective="causal")
    sanity = run_sanity(running, Pieces(tokens=tokens(), sources=("ids",), used=0.5))
    assert build(type(sanity), vars(sanity), "") == sanity


def test_encoders_have_no_loss():
    running = running_from(tiny_language_model("llama").model, objective="embedding")
    sanity = run_sanity(running, Pieces(tokens=tokens(), sources=("ids",), used=0.5))
    assert (sanity.loss, sanity.loss_pieces, sanity.warnings()) == (None, 0, ())
    assert "loss" not in sanity.sentence()
