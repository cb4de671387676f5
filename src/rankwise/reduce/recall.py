"""Does a reduced model still retrieve? Perplexity hardly shows it, copying does.

Random tokens fill the first half of the context, and the same tokens the second half: every token of the second half
can be found by looking up what followed the one before it. Accuracy is the share that the model gets right.

Legend: N tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rankwise.models import RunningModel
from rankwise.progress import Progress, silent
from rankwise.reduce.document import Change, RecallReport

LENGTHS = (256, 1024, 2048)


def copy_accuracy(model: Any, vocabulary: int, length: int, *, seed: int = 0) -> float:
    """Share of the second half of ``length`` tokens that ``model`` predicts right."""
    half = length // 2
    draw = torch.randint(0, vocabulary, (1, half), generator=torch.Generator().manual_seed(seed))
    tokens = torch.cat([draw, draw], 1)
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits[0, half:-1]
    return float((logits.argmax(-1) == tokens[0, half + 1 :]).double().mean())


def recall_lengths(running: RunningModel) -> list[int]:
    """The lengths that the model has positions for."""
    return [length for length in LENGTHS if running.longest is None or length <= running.longest]


def copy_accuracies(running: RunningModel, progress: Progress = silent) -> list[tuple[int, float]]:
    """``(length, accuracy)`` at every length that the model has positions for."""
    lengths = recall_lengths(running)
    found = []
    for at, length in enumerate(lengths):
        progress("recall", at, len(lengths))
        found.append((length, copy_accuracy(running.model, running.vocabulary, length)))
    return found


def recall_reports(before: Sequence[tuple[int, float]], after: Sequence[tuple[int, float]]) -> tuple[RecallReport, ...]:
    """Both models' accuracies beside each other."""
    return tuple(
        RecallReport(context=length, accuracy=Change(before=was, after=now))
        for (length, was), (_, now) in zip(before, after, strict=True)
    )
