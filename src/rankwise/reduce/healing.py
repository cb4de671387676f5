"""Healing: the new factors, and nothing else, trained until the reduced model says what the original says.

The loss is the divergence of the reduced model's predictions from the original's, ``KL(original || reduced)`` per
token, or 1 - cosine of their embeddings. Texts are those of calibration, never those of evaluation. Adam with a step
in proportion to each tensor's own size, warmed up over 20 steps and falling to zero with the time that is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
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
"""Of a tensor's root mean square, per step of Adam."""
_WARM_UP, _SAVE_EVERY, _TOLD = 20, 50, 10


@dataclass(frozen=True)
class Healed:
    """How much healing was done."""

    steps: int
    tokens: int
    seconds: float


def heal(
    running: RunningModel,
    installed: Installed,
    pieces: MaskedPieces,
    minutes: float,
    *,
    folder: Path | None = None,
    progress: Progress = silent,
) -> Healed:
    """Train the modules ``installed`` in ``running`` for ``minutes``.

    - ``folder``: where the state is kept, so that the same call continues after an interruption; None: nowhere.
    """
    tensors = new_tensors(installed.modules)
    sizes = [float(value.detach().square().mean().sqrt()) for value in tensors.values()]
    groups = [{"params": [value], "size": size} for value, size in zip(tensors.values(), sizes, strict=True)]
    for value in tensors.values():
        value.requires_grad_(True)
    adam = torch.optim.Adam(groups, lr=0.0, betas=(0.9, 0.95))
    state = None if folder is None else folder / "healing.safetensors"
    steps, tokens, spent = _restored(adam, tensors, state)
    passes = list(pieces.passes())
    recent: list[float] = []
    started = time.monotonic() - spent
    try:
        while (seconds := time.monotonic() - started) < 60 * minutes:
            generator = torch.Generator().manual_seed(steps // len(passes))
            part = passes[int(torch.randperm(len(passes), generator=generator)[steps % len(passes)])]
            loss = _distance(running, installed, part)
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(tensors.values()), 1.0)
            rate = STEP * min(1.0, (steps + 1) / _WARM_UP) * (1 - seconds / (60 * minutes))
            for group in adam.param_groups:
                group["lr"] = rate * group["size"]
            adam.step()
            steps, tokens = steps + 1, tokens + int(part.mask.sum())
            recent = [*recent[1 - _TOLD :], loss.item()]
            progress(f"heal: {sum(recent) / len(recent):.4f} from the original", round(seconds), round(60 * minutes))
            if state is not None and steps % _SAVE_EVERY == 0:
                _save(adam, tensors, state, (steps, tokens, time.monotonic() - started))
    finally:
        for value in tensors.values():
            value.requires_grad_(False)
    return Healed(steps, tokens, time.monotonic() - started)


def _distance(running: RunningModel, installed: Installed, pieces: MaskedPieces) -> Tensor:
    replaced(running.model, installed.originals)
    try:
        with torch.no_grad():
            wanted = embed(running, pieces) if running.objective == "embedding" else run(running, pieces)[pieces.mask]
    finally:
        replaced(running.model, installed.modules)
    if running.objective == "embedding":
        return (1 - (embed(running, pieces) * wanted).sum(-1)).mean()
    told, known = log_softmax(run(running, pieces)[pieces.mask], -1), log_softmax(wanted, -1)
    return (known.exp() * (known - told)).sum(-1).mean()


def _save(adam: torch.optim.Adam, tensors: Mapping[str, Tensor], file: Path, counts: tuple[int, int, float]) -> None:
    kept = {f"value.{name}": value.detach() for name, value in tensors.items()}
    for name, value in tensors.items():
        for key in ("step", "exp_avg", "exp_avg_sq"):
            if value in adam.state:
                kept[f"{key}.{name}"] = adam.state[value][key]
    kept["counts"] = torch.tensor(counts, dtype=torch.float64)
    draft = file.with_suffix(".new")
    save_file(kept, draft)
    draft.replace(file)


def _restored(adam: torch.optim.Adam, tensors: Mapping[str, Tensor], file: Path | None) -> tuple[int, int, float]:
    if file is None or not file.is_file():
        return 0, 0, 0.0
    kept = load_file(file)
    with torch.no_grad():
        for name, value in tensors.items():
            value.copy_(kept[f"value.{name}"])
            if f"step.{name}" in kept:
                adam.state[value] = {key: kept[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
    steps, tokens, spent = kept["counts"].tolist()
    return int(steps), int(tokens), spent
