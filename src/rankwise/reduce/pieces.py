"""Texts as a model reads them: pieces of one length cut from a stream, or whole records, padded and masked.

Legend: T pieces, N tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from rankwise.errors import InvalidInputError
from rankwise.foreign_file import plain_name, read_regular
from rankwise.models import RunningModel

TOKENS_A_PASS = 1024
"""Enough to keep a CPU busy; the gradients of a pass must fit into memory."""
_MAX_RECORDS_BYTES = 64 * 2**20
_LONGEST_TOKEN = 256
"""Characters; a record is tokenised only as far as its first tokens can reach."""


@dataclass(frozen=True)
class MaskedPieces:
    """Token ids; ``real`` is False at padding, None where there is none."""

    tokens: Int64[Tensor, "T N"]
    source: tuple[str, ...]
    real: Bool[Tensor, "T N"] | None = None
    used: float = 1.0
    """The share of the given texts that the pieces hold, before some of them are picked."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, which: slice) -> MaskedPieces:
        real = None if self.real is None else self.real[which]
        return replace(self, tokens=self.tokens[which], real=real)

    def pick(self, which: Sequence[int]) -> MaskedPieces:
        """Some of the pieces, by number."""
        rows = torch.tensor(which, dtype=torch.int64)
        return replace(self, tokens=self.tokens[rows], real=None if self.real is None else self.real[rows])

    @property
    def mask(self) -> Bool[Tensor, "T N"]:
        """True at tokens, False at padding."""
        return torch.ones_like(self.tokens, dtype=torch.bool) if self.real is None else self.real

    def passes(self) -> Iterator[MaskedPieces]:
        """The pieces in groups that are run together."""
        together = max(1, TOKENS_A_PASS // self.tokens.shape[1])
        for start in range(0, len(self), together):
            yield self[start : start + together]


def read_records(file: Path, running: RunningModel, *, length: int, limit: int) -> MaskedPieces:
    """One record per line, special tokens added; cut where longer, padded on the right where shorter.

    - ``length``: where records are cut, at the latest where the model's positions end.
    """
    tokenizer = running.tokenizer
    if tokenizer is None:
        raise InvalidInputError("--records: expected a model directory with a tokenizer, got none")
    try:
        content = read_regular(file, "a text file, one record per line", limit=_MAX_RECORDS_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file}: expected UTF-8 text, one record per line, got: {error}") from None
    lines = [stripped for line in content.splitlines() if (stripped := line.strip())]
    most = length if running.longest is None else min(length, running.longest)
    rows, used = [], 0.0
    for line in lines[:limit]:
        start = line[: most * _LONGEST_TOKEN]
        row = tokenizer(start)["input_ids"]
        if len(row) > 1:
            rows.append(row[:most])
            used += len(start) * min(1.0, most / len(row))
    if len(rows) < 2:
        raise InvalidInputError(f"{file}: expected at least two records of two tokens, got {len(rows)}")
    width = max(map(len, rows))
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    tokens = torch.full((len(rows), width), padding, dtype=torch.int64)
    real = torch.zeros(len(rows), width, dtype=torch.bool)
    for at, row in enumerate(rows):
        tokens[at, : len(row)] = torch.tensor(row)
        real[at, : len(row)] = True
    return MaskedPieces(tokens, (plain_name(file.name),), real, used / sum(map(len, lines)))


def run(running: RunningModel, pieces: MaskedPieces, tokens: Int64[Tensor, "T N"] | None = None) -> Tensor:
    """The model's output for every token: logits, or the last hidden state of an encoder.

    - ``tokens``: shown instead of those of ``pieces``, for masked models.
    """
    shown = pieces.tokens if tokens is None else tokens
    options: dict[str, Tensor | bool] = {"attention_mask": pieces.mask.long()}
    if running.config.is_encoder_decoder:
        options["decoder_input_ids"] = shown
    if running.objective == "causal":
        options["use_cache"] = False
    output = running.model(input_ids=shown, **options)
    return output.last_hidden_state if running.objective == "embedding" else output.logits
