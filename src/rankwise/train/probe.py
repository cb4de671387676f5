"""Attention ranks while a run trains.

Legend: B examples, N tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from rankwise.measure import attention_ranks
from rankwise.tasks import Batch, TokenBatch

Snapshot = dict[str, list[list[float]]]
"""By name of the rank, one list per layer with one mean per head."""


def probe_steps(steps: int) -> frozenset[int]:
    """After each quarter of ``steps`` steps; the start and the end are probed in any case."""
    return frozenset(round(steps * quarter / 4) for quarter in (1, 2, 3))


@torch.no_grad()
def snapshot(model: nn.Module, batch: Batch | TokenBatch) -> Snapshot:
    """The ranks of every head of every layer, means over the examples of ``batch``."""
    _, weights = model(*batch.inputs, return_weights=True)
    layers = [attention_ranks(layer.float()) for layer in weights]
    return {name: [layer[name].tolist() for layer in layers] for name in layers[0]}


def attention_table(tokens: int, steps: Sequence[int], snapshots: Sequence[Snapshot]) -> Mapping[str, Any]:
    """What a result keeps: ``tokens`` n, ``steps`` of the snapshots, and by name a list [snapshot][layer][head]."""
    names = snapshots[0] if snapshots else {}
    return {"tokens": tokens, "steps": list(steps), **{name: [one[name] for one in snapshots] for name in names}}
