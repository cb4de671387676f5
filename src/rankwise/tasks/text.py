"""Byte-level language modelling: bits per byte on text that training never saw.

B windows, N context, V = 256 byte values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn.functional import cross_entropy

from rankwise.errors import InvalidInputError, ShapeError, require_int
from rankwise.spec import TextSpec
from rankwise.tasks.batch import TokenBatch
from rankwise.tasks.data_files import Corpus, read_corpus, require_same_data


@dataclass(frozen=True)
class Text:
    """Windows of N + 1 bytes: predict bytes 2 .. N + 1, each from those before it in the window.

    The error is the mean over all N positions, so the first bytes of a window, which have little context, count too;
    ``later_half`` is the mean over the second half of the positions alone.
    """

    spec: TextSpec

    def __post_init__(self) -> None:
        where = self.spec.path or "the standard library"
        require_same_data("task.sha256", self.spec.sha256, self.corpus.sha256, where)
        needed = self.spec.context + 1
        for name, part in (("training", self.corpus.training), ("held-out", self.corpus.held_out)):
            if len(part) < needed:
                raise InvalidInputError(
                    f"{where}: expected at least {needed} bytes of {name} text for context = {self.spec.context}, "
                    f"got {len(part)} (a tenth of the file is held out); give a longer text or a shorter context"
                )

    @property
    def corpus(self) -> Corpus:
        """The text."""
        return read_corpus(self.spec.path)

    @cached_property
    def _training(self) -> UInt8[Tensor, " T"]:
        return torch.frombuffer(bytearray(self.corpus.training), dtype=torch.uint8)

    @cached_property
    def _held_out(self) -> UInt8[Tensor, " T"]:
        return torch.frombuffer(bytearray(self.corpus.held_out), dtype=torch.uint8)

    def training_batch(self, size: int, generator: torch.Generator, *, step: int, dtype: torch.dtype) -> TokenBatch:
        """Windows from anywhere in the training text."""
        require_int("size", size, minimum=1)
        starts = torch.randint(len(self._training) - self.spec.context, (size,), generator=generator)
        return self._windows(self._training, starts)

    def held_out(self, batches: int, size: int, generator: torch.Generator, *, dtype: torch.dtype) -> list[TokenBatch]:
        """Windows at equal distances over the held-out text, the same for every run; none overlap."""
        fit = (len(self._held_out) - 1) // self.spec.context
        count = min(batches * size, fit)
        starts = torch.linspace(0, len(self._held_out) - 1 - self.spec.context, count, dtype=torch.float64).long()
        return [self._windows(self._held_out, part) for part in starts.split(size)]

    def loss(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """The error itself."""
        return self.error(prediction, batch)

    def error(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """Bits per byte: mean over positions of -log2 p(byte)."""
        return self._bits(prediction, batch).mean(dim=1)

    def details(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> dict[str, Float[Tensor, "B"]]:
        """Bits per byte where there is context."""
        return {"later_half": self._bits(prediction, batch)[:, self.spec.context // 2 :].mean(dim=1)}

    def levels(self, examples: int) -> dict[str, float]:
        """Tables of single bytes and of pairs."""
        shown = self.held_out(1, examples, torch.Generator(), dtype=torch.float32)
        return {"unigram": unigram_bits(self, shown), "bigram": bigram_bits(self, shown)}

    def _bits(self, prediction: Tensor, batch: TokenBatch) -> Float[Tensor, "B N"]:
        if prediction.shape != (*batch.targets.shape, 256):
            raise ShapeError(
                f"prediction: expected logits [batch, context, 256] = {[*batch.targets.shape, 256]}, "
                f"got {list(prediction.shape)}"
            )
        nats = cross_entropy(prediction.flatten(0, 1), batch.targets.flatten(), reduction="none")
        return nats.view(batch.targets.shape) / math.log(2)

    def _windows(self, text: UInt8[Tensor, " T"], starts: Tensor) -> TokenBatch:
        window = text[starts[:, None] + torch.arange(self.spec.context + 1)].long()
        return TokenBatch(window[:, :-1], window[:, 1:])


def unigram_bits(task: Text, batches: Sequence[TokenBatch]) -> float:
    """Bits per byte of a table of how often each byte occurs in the training text (one added to every count)."""
    counts = torch.bincount(task._training.long(), minlength=256).double() + 1
    bits = -(counts / counts.sum()).log2()
    return float(torch.cat([bits[batch.targets].flatten() for batch in batches]).mean())


def bigram_bits(task: Text, batches: Sequence[TokenBatch]) -> float:
    """Bits per byte of a table of which byte follows which; unseen pairs share the weight of one, as bytes occur."""
    text = task._training.long()
    unigram = torch.bincount(text, minlength=256).double() + 1
    unigram /= unigram.sum()
    pairs = torch.bincount(256 * text[:-1] + text[1:], minlength=256 * 256).double().view(256, 256)
    bits = -((pairs + unigram) / (pairs.sum(dim=1, keepdim=True) + 1)).log2()
    return float(torch.cat([bits[batch.tokens, batch.targets].flatten() for batch in batches]).mean())
