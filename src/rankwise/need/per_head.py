"""What each head of a model needs for its own choice: the smallest rank at which what it attends to survives.

A head's scores on texts are ``scale q.k``, after rotary positions. They are cut to rank r by the SVD form of its own
queries and keys (``forms``), fitted on half of the texts; on the others its choice is compared with the whole head's:

- ``top``: the share of queries whose most attended key is another one;
- ``several``: the share of the ``SEVERAL`` most attended keys that are others;
- ``attention``: the total variation ``1/2 sum_j |p_j - p'_j|`` of the attention rows, mean over queries.

The need is the smallest rank at which the share or distance is at most ``TARGET``. The first key is set apart: many
heads send there what they do not need (an attention sink), and a choice between it and the rest would hide the choice
among the rest. Position biases that are added to scores are left out on both sides. A measurement.

Legend: T texts, N queries, M keys, H heads, R rank of a head.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from rankwise.models import AttentionCall
from rankwise.need.document import HeadNeed
from rankwise.need.forms import Form, balanced_form, moments

TARGET = 0.1
SEVERAL = 4
LEAST_TEXTS = 2
_MOST_TEXTS = 8  # to fit on, and as many to measure on
_MOST_QUERIES = 64  # of a text, spread evenly


def head_needs(call: AttentionCall) -> tuple[HeadNeed, ...]:
    """The needs of every head of a block; none where it does not show its queries and keys or attends elsewhere."""
    if call.queries is None or call.keys is None or call.scale is None or call.crosses:
        return ()
    queries, texts = call.queries, call.queries.shape[0]
    if texts < LEAST_TEXTS or call.keys.shape[2] < SEVERAL + 2:
        return ()
    keys = call.keys.repeat_interleave(queries.shape[1] // call.keys.shape[1], dim=1)
    half = min(_MOST_TEXTS, texts // 2)
    rows = _asking(call, half)
    found = []
    for head in range(queries.shape[1]):
        fit_q, fit_k = (one[:half, head].flatten(0, 1).clone() for one in (queries, keys))
        form = balanced_form(moments(fit_q, fit_k))
        asked = queries[-half:, head][:, rows.queries].clone(), keys[-half:, head, 1:].clone()
        errors = list(_errors(asked, form, call.scale, rows.sees))
        found.append(HeadNeed(head=head, rank=queries.shape[-1], **_smallest(errors, queries.shape[-1])))
    return tuple(found)


class _Rows:
    """The queries that are asked, and which keys (without the first) each of them sees."""

    def __init__(self, queries: Int64[Tensor, " N"], sees: Bool[Tensor, "N M"]) -> None:
        self.queries, self.sees = queries, sees


def _asking(call: AttentionCall, half: int) -> _Rows:
    """Queries that see more keys than are compared, spread evenly."""
    count, keys = call.probabilities.shape[-2:]
    sees = torch.ones(count, keys, dtype=torch.bool)
    if call.visible is not None:
        sees = call.visible.expand(call.probabilities.shape)[-half:].all(dim=(0, 1)).clone()
    sees = sees[:, 1:]
    enough = (sees.sum(1) > SEVERAL).nonzero().squeeze(1)
    step = max(1, len(enough) // _MOST_QUERIES)
    chosen = enough[::step]
    return _Rows(chosen, sees[chosen])


def _errors(
    asked: tuple[Float[Tensor, "T N R"], Float[Tensor, "T M R"]], form: Form, scale: float, sees: Bool[Tensor, "N M"]
) -> Iterator[tuple[float, float, float]]:
    """``top``, ``several`` and ``attention`` at every rank from 1."""
    queries, keys = asked
    hidden = torch.zeros(sees.shape).masked_fill(~sees, -torch.inf)
    whole = (scale * queries @ keys.mT + hidden).softmax(-1)
    top, several = whole.argmax(-1), whole.topk(SEVERAL, dim=-1).indices
    left, right = queries @ form.left, keys @ form.right
    scores = hidden.expand(whole.shape).clone()
    for rank in range(form.rank):
        scores += scale * left[..., rank, None] * right[..., None, :, rank]
        cut = scores.softmax(-1)
        best = cut.topk(SEVERAL, dim=-1).indices
        shared = (several.unsqueeze(-1) == best.unsqueeze(-2)).any(-1).double().mean()
        yield (
            float((cut.argmax(-1) != top).double().mean()),
            1 - float(shared),
            float((cut - whole).abs().sum(-1).mean()) / 2,
        )


def _smallest(errors: list[tuple[float, float, float]], full: int) -> dict[str, int]:
    names = ("top", "several", "attention")
    return {
        name: next((rank for rank, error in enumerate(errors, 1) if error[at] <= TARGET), full)
        for at, name in enumerate(names)
    }
