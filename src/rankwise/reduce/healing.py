"""Healing: the new factors, and nothing else, trained until the reduced model says what the original says.

The loss is the divergence of the reduced model's predictions from the original's, ``KL(original || reduced)`` per
token, or 1 - cosine of their embeddings. Texts are those that teach, never those of evaluation. Adam with a step in
proportion to each tensor's own size, warmed up over 20 steps and falling to zero with the tokens that are left: the
result depends on texts, tokens and processor, not on the clock. Matrices are multiplied in bfloat16 where the
processor does that itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import log_softmax

from rankwise.models import RunningModel
from rankwise.progress import Progress, silent
from rankwise.reduce.cost import embed
from rankwise.reduce.cutting import Installed, new_tensors
from rankwise.reduce.linear_modules import replaced
from rankwise.reduce.pieces import MaskedPieces, run

STEP = 3e-3
"""Of a tensor's root mean square, per step of Adam. On validation text, half the cache of SmolLM2 and 40 steps of 1024
tokens: .0102 nats before, .0077, .0038 and .0297 after, with 1e-3, 3e-3 and 1e-2."""
_WARM_UP, _SAVE_EVERY, _TOLD = 20, 10, 10
_BETAS = (0.9, 0.95)
_ROWS = 16


@dataclass(frozen=True)
class Healed:
    """How much healing was done."""

    steps: int
    tokens: int
    seconds: float


def native_bfloat16() -> bool:
    """Whether this processor multiplies in bfloat16 itself."""
    known = torch.cpu.get_capabilities()
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))


def tokens_within(running: RunningModel, installed: Installed, pieces: MaskedPieces, minutes: float) -> int:
    """How many tokens ``heal`` trains on in ``minutes`` here, from the time of one step."""
    part = next(pieces.passes())
    with _trainable(running, installed) as tensors:
        for _ in range(2):  # the first is slower
            start = time.monotonic()
            _distance(running, installed, part).backward()
            seconds = time.monotonic() - start
        for value in tensors.values():
            value.grad = None
    return max(1, round(60 * minutes / seconds * int(part.mask.sum())))


def heal(
    running: RunningModel,
    installed: Installed,
    pieces: MaskedPieces,
    tokens: int,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> Healed:
    """Train the modules ``installed`` in ``running`` on ``tokens`` tokens of ``pieces``, in random order.

    - ``folder``: where the state is kept, so that the same call continues after an interruption, to the same result;
      None: nowhere.
    """
    passes = list(pieces.passes())
    with _trainable(running, installed) as tensors:
        sizes = [float(value.detach().square().mean().sqrt()) for value in tensors.values()]
        adam = torch.optim.Adam(
            [{"params": [value], "size": size} for value, size in zip(tensors.values(), sizes, strict=True)],
            lr=0.0,
            betas=_BETAS,
        )
        state = None if folder is None else folder / f"healing-{tokens}.safetensors"
        done = _restored(adam, tensors, state)
        recent: list[float] = []
        while done.tokens < tokens:
            start = time.monotonic()
            part = passes[_order(len(passes), done.steps)]
            loss = _distance(running, installed, part)
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(tensors.values()), 1.0)
            rate = STEP * min(1.0, (done.steps + 1) / _WARM_UP) * (1 - done.tokens / tokens)
            for group in adam.param_groups:
                group["lr"] = rate * group["size"]
            adam.step()
            counted = done.tokens + int(part.mask.sum())
            done = Healed(done.steps + 1, counted, done.seconds + time.monotonic() - start)
            recent = [*recent[1 - _TOLD :], loss.item()]
            progress(f"heal: {sum(recent) / len(recent):.4f} from the original", min(counted, tokens), tokens)
            if state is not None and done.steps % _SAVE_EVERY == 0:
                _save(adam, tensors, state, done)
    return done


@contextmanager
def _trainable(running: RunningModel, installed: Installed) -> Iterator[dict[str, Tensor]]:
    """The new tensors, for a while the only ones that gradients are taken by."""
    tensors = new_tensors(installed.modules)
    running.model.requires_grad_(False)
    for value in tensors.values():
        value.requires_grad_(True)
    try:
        with torch.enable_grad():
            yield tensors
    finally:
        for value in tensors.values():
            value.requires_grad_(False)


def _order(passes: int, step: int) -> int:
    """Which pass is read at ``step``: all of them in random order, then all of them in another."""
    generator = torch.Generator().manual_seed(step // passes)
    return int(torch.randperm(passes, generator=generator)[step % passes])


def _distance(running: RunningModel, installed: Installed, pieces: MaskedPieces) -> Tensor:
    """How far the reduced model is from the original, over the texts of ``pieces``."""
    replaced(running.model, installed.originals)
    try:
        with torch.no_grad():
            wanted = _told(running, pieces)
    finally:
        replaced(running.model, installed.modules)
    if running.objective == "embedding":
        return (1 - (_told(running, pieces) * wanted).sum(-1)).mean()
    found: Tensor = Divergence.apply(_told(running, pieces), wanted)
    return found


class Divergence(torch.autograd.Function):
    """``KL(wanted || told)`` in nats per row of logits, and its gradient ``softmax(told) - softmax(wanted)``.

    A few rows at a time: tables of all rows times the vocabulary would take longer to write than to compute.
    """

    @staticmethod
    def forward(ctx: Any, told: Float[Tensor, "T W"], wanted: Float[Tensor, "T W"]) -> Tensor:
        slope = torch.empty_like(told)
        total = torch.zeros(())
        for ours, theirs, kept in zip(told.split(_ROWS), wanted.split(_ROWS), slope.split(_ROWS), strict=True):
            log_q, log_p = log_softmax(ours.float(), -1), log_softmax(theirs.float(), -1)
            p = log_p.exp()
            total += (p * log_p.sub_(log_q)).sum()
            kept.copy_(log_q.exp_().sub_(p).div_(len(told)))
        ctx.save_for_backward(slope)
        return total / len(told)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return slope * upstream[0], None


def _told(running: RunningModel, pieces: MaskedPieces) -> Tensor:
    """Embeddings, or logits of every token."""
    with torch.autocast("cpu", torch.bfloat16, enabled=native_bfloat16()):
        if running.objective == "embedding":
            return embed(running, pieces).float()
        logits = run(running, pieces)
    return logits.flatten(0, 1) if pieces.real is None else logits[pieces.real]


def _save(adam: torch.optim.Adam, tensors: Mapping[str, Tensor], file: Path, done: Healed) -> None:
    kept = {f"value.{name}": value.detach() for name, value in tensors.items()}
    for name, value in tensors.items():
        for key in ("step", "exp_avg", "exp_avg_sq"):
            kept[f"{key}.{name}"] = adam.state[value][key]
    kept["done"] = torch.tensor([done.steps, done.tokens, done.seconds], dtype=torch.float64)
    draft = file.with_suffix(".new")
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(kept, draft)
    draft.replace(file)


def _restored(adam: torch.optim.Adam, tensors: Mapping[str, Tensor], file: Path | None) -> Healed:
    if file is None or not file.is_file():
        return Healed(0, 0, 0.0)
    kept = load_file(file)
    with torch.no_grad():
        for name, value in tensors.items():
            value.copy_(kept[f"value.{name}"])
            adam.state[value] = {key: kept[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
    steps, tokens, seconds = kept["done"].tolist()
    return Healed(int(steps), int(tokens), seconds)
