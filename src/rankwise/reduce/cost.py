"""What a smaller model costs, paired by piece with the original.

Language models: negative log-likelihood per token in nats, of the next token (causal) or of 15 % hidden tokens
(masked). Encoders: 1 - cosine between a text's embedding and the original's, and the share of texts whose nearest
other text is the same.

Legend: T pieces, N tokens, D dim.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from rankwise.errors import InvalidInputError
from rankwise.estimate import Estimate
from rankwise.models import RunningModel, require_mask_token
from rankwise.progress import Progress, silent
from rankwise.reduce.pieces import MaskedPieces, run
from rankwise.spec import read_json_object

HIDDEN_SHARE = 0.15


@dataclass(frozen=True)
class ModelReading:
    """What one model makes of the pieces."""

    losses: Float[Tensor, " T"] | None
    """Nats per token of each piece; None for encoders."""
    embeddings: Float[Tensor, "T D"] | None
    """Of length 1; None for language models."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a model costs against the original."""

    cost: float
    """Nats per token above the original, or 1 - mean cosine to its embeddings."""
    standard_error: float
    """Over pieces, paired with the original."""
    loss: float | None = None
    """Nats per token; None for encoders."""
    perplexity_percent: float | None = None
    """How much larger the perplexity is, in percent; None for encoders."""
    neighbours_kept: float | None = None
    """Share of texts whose nearest other text is the same; None for language models."""


def measure_pieces(
    running: RunningModel, pieces: MaskedPieces, *, progress: Progress = silent, what: str = "measure"
) -> ModelReading:
    """Losses or embeddings of ``pieces``."""
    found, done = [], 0
    progress(what, 0, len(pieces))
    with torch.no_grad():
        for part in pieces.passes():
            found.append(embed(running, part) if running.objective == "embedding" else _losses(running, part, done))
            done += len(part)
            progress(what, done, len(pieces))
    together = torch.cat(found).double()
    return ModelReading(None, together) if running.objective == "embedding" else ModelReading(together, None)


def cost_of(reading: ModelReading, original: ModelReading) -> Cost:
    """The cost of one model against the original, on the same pieces."""
    if reading.losses is not None and original.losses is not None:
        extra = Estimate.over((reading.losses - original.losses).tolist())
        return Cost(
            cost=extra.mean,
            standard_error=extra.standard_error,
            loss=float(reading.losses.mean()),
            perplexity_percent=100 * math.expm1(extra.mean),
        )
    assert reading.embeddings is not None
    assert original.embeddings is not None
    lost = Estimate.over((1 - (reading.embeddings * original.embeddings).sum(1).clamp(max=1)).tolist())
    kept = _nearest(reading.embeddings) == _nearest(original.embeddings)
    return Cost(cost=lost.mean, standard_error=lost.standard_error, neighbours_kept=float(kept.double().mean()))


def hidden_tokens(
    running: RunningModel, pieces: MaskedPieces, start: int
) -> tuple[Int64[Tensor, "T N"], Bool[Tensor, "T N"]]:
    """What a masked model is shown and which tokens are hidden; the same for every model, piece by piece."""
    mask_token = require_mask_token(running)
    rows = [
        torch.rand(pieces.tokens.shape[1], generator=torch.Generator().manual_seed(start + at)) < HIDDEN_SHARE
        for at in range(len(pieces))
    ]
    hidden = torch.stack(rows) & pieces.mask
    hidden[:, 0] = False  # a special token
    hidden[:, 1] = True  # at least one in every text
    return pieces.tokens.masked_fill(hidden, mask_token), hidden


def embed(running: RunningModel, pieces: MaskedPieces) -> Float[Tensor, "T D"]:
    """One vector of length 1 per piece, pooled as the model wants it."""
    states, mask = run(running, pieces), pieces.mask[..., None]
    vector = states[:, 0] if pooling_of(running) == "first" else (states * mask).sum(1) / mask.sum(1)
    return normalize(vector, dim=-1)


def token_losses(
    logits: Float[Tensor, "T N W"], pieces: MaskedPieces
) -> tuple[Float[Tensor, "T M"], Bool[Tensor, "T M"]]:
    """Nats of every token but the first given those before it, and which of them count."""
    losses = cross_entropy(logits[:, :-1].flatten(0, 1), pieces.tokens[:, 1:].flatten(), reduction="none")
    return losses.view(len(pieces), -1), pieces.mask[:, 1:]


def _losses(running: RunningModel, pieces: MaskedPieces, start: int) -> Float[Tensor, " T"]:
    if running.objective == "causal":
        losses, counted = token_losses(run(running, pieces), pieces)
    else:
        shown, counted = hidden_tokens(running, pieces, start)
        logits = run(running, pieces, shown)
        losses = cross_entropy(logits.flatten(0, 1), pieces.tokens.flatten(), reduction="none").view(counted.shape)
    return (losses * counted).sum(1) / counted.sum(1)


def pooling_of(running: RunningModel) -> Literal["mean", "first"]:
    """How a text's vector is made of its tokens': as ``1_Pooling/config.json`` says, the mean where nothing does."""
    stated = None if running.path is None else running.path / "1_Pooling" / "config.json"
    if stated is None or not stated.is_file():
        return "mean"
    config: dict[str, Any] = read_json_object(stated)
    if config.get("pooling_mode_mean_tokens") is True or config.get("pooling_mode") == "mean":
        return "mean"
    if config.get("pooling_mode_cls_token") is True or config.get("pooling_mode") == "cls":
        return "first"
    switched_on = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    found = config.get("pooling_mode") or switched_on or "none"
    raise InvalidInputError(
        f"{stated}: expected pooling by the mean or by the first token, got {reprlib.repr(found)}; without texts "
        f"(--method weights) no embeddings are compared"
    )


def _nearest(embeddings: Float[Tensor, "T D"]) -> Int64[Tensor, " T"]:
    similar = embeddings @ embeddings.mT
    return similar.fill_diagonal_(-torch.inf).argmax(-1)
