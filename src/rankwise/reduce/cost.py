"""What a smaller model costs: its loss on held-out texts, or how far its embeddings moved.

Language models: mean negative log-likelihood a token in nats, of the next token (causal) or of 15 % hidden tokens
(masked), on the same texts and hidden places for every rank. Sentence encoders: 1 - cosine between a text's embedding
and what the original model gives it, and how often its nearest other text, by cosine, is still the same.

Legend: T texts, N tokens, D dim.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import normalize

from rankwise.errors import InvalidInputError
from rankwise.models.running.losses import hidden_places, require_mask_token, token_loss
from rankwise.models.running.model import RunningModel
from rankwise.models.running.texts import texts_a_pass
from rankwise.spec.strict_json import read_json_object


class CostMeter(Protocol):
    """Measures a model against the original; ``cost`` is what a tolerance bounds, 0 for the original itself."""

    @property
    def unit(self) -> str: ...

    def measure(self, running: RunningModel) -> Mapping[str, float]:
        """``cost`` and the numbers it comes from."""
        ...


@dataclass
class LanguageLoss:
    """Loss above the original's, in nats a token."""

    tokens: Int64[Tensor, "T N"]
    hidden: Bool[Tensor, "T N"] | None
    unit: str = "nats a token above the original's loss"
    original: float | None = None

    def measure(self, running: RunningModel) -> Mapping[str, float]:
        """``loss`` and ``cost``; the first model measured is the original."""
        loss = token_loss(running, self.tokens, self.hidden)
        self.original = loss if self.original is None else self.original
        return {"cost": loss - self.original, "loss": loss}


@dataclass
class EmbeddingAgreement:
    """1 - mean cosine to the original embeddings."""

    tokens: Int64[Tensor, "T N"]
    pooling: Literal["mean", "first"]
    unit: str = "1 - mean cosine to the original embedding"
    original: Float[Tensor, "T D"] | None = field(default=None, repr=False)

    def measure(self, running: RunningModel) -> Mapping[str, float]:
        """``cost``, ``cosine``, its least, and ``retrieval``; the first model measured is the original."""
        embeddings = torch.cat(
            [
                pooled(running(tokens).last_hidden_state, self.pooling)
                for tokens in self.tokens.split(texts_a_pass(self.tokens.shape[1]))
            ]
        ).double()
        embeddings = normalize(embeddings, dim=-1)
        if self.original is None:
            self.original = embeddings
        cosine = (embeddings * self.original).sum(-1).clamp(max=1)
        same = _nearest(embeddings) == _nearest(self.original)
        return {
            "cost": max(0.0, 1 - float(cosine.mean())),
            "cosine": float(cosine.mean()),
            "least_cosine": float(cosine.min()),
            "retrieval": float(same.double().mean()),
        }


def cost_meter(running: RunningModel, tokens: Int64[Tensor, "T N"], *, seed: int = 0) -> CostMeter:
    """The measure that fits what the model was trained for; the original model is measured first, to compare with."""
    meter: CostMeter
    if running.objective == "embedding":
        if len(tokens) < 3:
            raise InvalidInputError(
                f"texts: expected at least three to compare embeddings on, got {len(tokens)}; give more text or a "
                f"smaller --length"
            )
        meter = EmbeddingAgreement(tokens, pooling_of(running))
    elif running.objective == "causal":
        meter = LanguageLoss(tokens, None)
    else:
        require_mask_token(running)
        meter = LanguageLoss(tokens, hidden_places(tokens, seed=seed))
    meter.measure(running)
    return meter


def pooling_of(running: RunningModel) -> Literal["mean", "first"]:
    """How a text's vector is made of its tokens': as ``1_Pooling/config.json`` says, the mean where nothing does."""
    stated = running.path / "1_Pooling" / "config.json"
    if not stated.is_file():
        return "mean"
    config: dict[str, Any] = read_json_object(stated)
    if config.get("pooling_mode_mean_tokens") is True or config.get("pooling_mode") == "mean":
        return "mean"
    if config.get("pooling_mode_cls_token") is True or config.get("pooling_mode") == "cls":
        return "first"
    switched_on = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    found = config.get("pooling_mode") or switched_on or "none"
    raise InvalidInputError(
        f"{stated}: expected pooling by the mean or by the first token, got {reprlib.repr(found)}; without "
        f"texts heads are cut by their weights alone, and no embeddings are compared"
    )


def pooled(hidden: Float[Tensor, "T N D"], pooling: Literal["mean", "first"]) -> Float[Tensor, "T D"]:
    """One vector a text."""
    return hidden.mean(1) if pooling == "mean" else hidden[:, 0]


def _nearest(embeddings: Float[Tensor, "T D"]) -> Int64[Tensor, "T"]:
    similar = embeddings @ embeddings.mT
    return similar.fill_diagonal_(-torch.inf).argmax(-1)
