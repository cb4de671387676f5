"""The need of a model's own attention inputs, block by block, while the model runs.

Keys and queries are the hidden states that enter an attention block, after the norm that feeds it: what W_Q and W_K are
applied to (in cross-attention the keys come from the other sequence). A block is measured while the model waits in it,
so one block's inputs are in memory at a time.

What is asked of them is nearest-neighbour search among token states, the task of the theory, and not what the model's
own heads look for: that is asked of each head by ``per_head``.

Legend: T texts, N tokens, D dim.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from rankwise.errors import InvalidInputError
from rankwise.models import AttentionCall, RunningModel
from rankwise.need.document import NeedMeasurement
from rankwise.need.measurement import STAGES, NeedSettings, measure_need
from rankwise.need.per_head import head_needs
from rankwise.need.vectors import LARGEST_DIM
from rankwise.nn import one_thread
from rankwise.progress import Progress, silent


def measure_model_need(
    running: RunningModel,
    tokens: Int64[Tensor, "T N"],
    *,
    settings: NeedSettings | None = None,
    blocks: Collection[int] | None = None,
    progress: Progress = silent,
) -> list[NeedMeasurement]:
    """Measure the attention inputs of ``blocks`` (default: all, counted from 0 in the order they run)."""
    names = running.attention_names()
    for block in blocks or ():
        if not 0 <= block < len(names):
            raise InvalidInputError(f"layers: expected numbers from 0 to {len(names) - 1}, got {block}")
    found: list[NeedMeasurement] = []

    def visit(call: AttentionCall) -> None:
        if blocks is not None and call.index not in blocks:
            return
        if call.inputs.shape[-1] > LARGEST_DIM:
            raise InvalidInputError(
                f"{call.name}: expected at most {LARGEST_DIM} dimensions, got {call.inputs.shape[-1]}"
            )
        # the model runs in inference mode, whose tensors cannot take part in training
        with torch.inference_mode(False), torch.enable_grad():
            inputs = call.inputs.clone().flatten(0, 1)
            context = call.context.clone().flatten(0, 1) if call.crosses else None
            name = f"layer {call.index} ({call.name})"
            before, total = STAGES * len(found), STAGES * len(names if blocks is None else set(blocks))
            keys, queries = (inputs, None) if context is None else (context, inputs)
            need = measure_need(
                keys,
                queries,
                settings=settings,
                name=name,
                progress=lambda what, done, _: progress(what, before + done, total),
            )
            with one_thread():  # a head's matrices are small
                found.append(replace(need, heads=head_needs(call)))

    running.watch(tokens, visit)
    return found
