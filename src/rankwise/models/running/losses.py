"""Losses of a running language model, and of guesses that see no context.

Legend: T texts, N tokens.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy

from rankwise.errors import InvalidInputError
from rankwise.models.running.model import RunningModel
from rankwise.models.running.sanity import RunSanity
from rankwise.models.running.texts import Pieces, texts_a_pass

_HIDDEN_SHARE = 0.15
_MOST_PIECES = 8


def hidden_places(tokens: Int64[Tensor, "T N"], *, seed: int = 0) -> Bool[Tensor, "T N"]:
    """Where a masked language model is asked: 15 % of the tokens, one in every text at least, never the ends."""
    draw = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(seed))
    hidden = draw < _HIDDEN_SHARE
    hidden[:, [0, -1]] = False  # special tokens
    hidden[:, tokens.shape[1] // 2] = True
    return hidden


def token_loss(running: RunningModel, tokens: Int64[Tensor, "T N"], hidden: Bool[Tensor, "T N"] | None) -> float:
    """Mean negative log-likelihood in nats, of the next token (``hidden`` None) or of the hidden ones."""
    total, count = 0.0, 0
    together = texts_a_pass(tokens.shape[1] * running.vocabulary)
    for part in range(0, len(tokens), together):
        shown = tokens[part : part + together]
        if hidden is None:
            logits, wanted = running(shown).logits[:, :-1].flatten(0, 1), shown[:, 1:].flatten()
        else:
            places = hidden[part : part + together]
            masked = shown.masked_fill(places, require_mask_token(running))
            logits, wanted = running(masked).logits[places], shown[places]
        total += float(cross_entropy(logits, wanted, reduction="none").double().sum())
        count += len(wanted)
    return total / count


def require_mask_token(running: RunningModel) -> int:
    """The model's mask token."""
    if running.mask_token is None:
        raise InvalidInputError(
            f"{running.where}: expected the mask token, which a masked language model is measured with, got no fitting "
            f"tokenizer that has one and no mask_token_id in config.json"
        )
    return running.mask_token


def unigram_loss(tokens: Int64[Tensor, "..."], vocabulary: int) -> float:
    """Mean loss in nats of guessing each token by how often it occurs elsewhere in ``tokens``.

    Leave-one-out: ``p(x) = (c(x) - 1 + a / V) / (n - 1 + a)`` with counts c over n tokens and a vocabulary of V; the
    weight ``a`` of the uniform part is the best of a few.
    """
    flat = tokens.flatten()
    n = len(flat)
    others = torch.bincount(flat, minlength=vocabulary)[flat].double() - 1
    losses = [
        float(-((others + weight / vocabulary) / (n - 1 + weight)).log().mean())
        for weight in (n * 2.0**power for power in range(-6, 7))
    ]
    return min(losses)


def run_sanity(running: RunningModel, pieces: Pieces) -> RunSanity:
    """What the run of ``running`` on ``pieces`` is like; the loss is of the first eight pieces."""
    tokens = pieces.tokens
    measured = tokens[:_MOST_PIECES]
    masked = running.objective == "masked"
    has_loss = running.objective == "causal" or (masked and running.mask_token is not None)
    loss = token_loss(running, measured, hidden_places(measured) if masked else None) if has_loss else None
    return sanity_of_loss(running, tokens, torch.ones_like(tokens, dtype=torch.bool), pieces.used, loss, len(measured))


def sanity_of_loss(
    running: RunningModel,
    tokens: Int64[Tensor, "T N"],
    real: Bool[Tensor, "T N"],
    used: float,
    loss: float | None,
    loss_pieces: int,
) -> RunSanity:
    """What a run is like whose loss is known.

    - ``real``: False at padding.
    - ``used``: the share of the given texts that ``tokens`` hold.
    - ``loss_pieces``: how many of the texts ``loss`` is of.
    """
    unknown = getattr(running.tokenizer, "unk_token_id", None)
    read = tokens[real]
    return RunSanity(
        pieces=len(tokens),
        tokens_each=tokens.shape[1],
        text_used=used,
        unknown_share=None if unknown is None else float((read == unknown).double().mean()),
        objective=running.objective,
        loss=loss,
        loss_pieces=0 if loss is None else loss_pieces,
        uniform_loss=math.log(running.vocabulary),
        unigram_loss=unigram_loss(read, running.vocabulary),
    )
