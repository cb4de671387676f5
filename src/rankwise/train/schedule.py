"""The learning rate as a function of the step: no state, so nothing to resume."""

from __future__ import annotations

import math

from rankwise.spec import OptimSpec


def lr_factor(optim: OptimSpec, step: int) -> float:
    """What multiplies ``optim.lr`` at ``step`` (from 0).

    Warm-up: ``(step + 1) / warmup``, so no step is wasted at 0 and the last warm-up step has the full rate. Then with
    p from 0 to 1 over the remaining steps: "cosine" ``(1 + cos(pi p)) / 2``, "scales" 1 for p < .3 and then
    ``1000^-((p - .3)/.7)``, so that every scale of the rate gets as many steps.

    "paper": the same cosine counted in epochs, ``e / warm-up epochs`` before it: constant within an epoch, and 0 in
    all of epoch 0 when there is a warm-up.
    """
    if optim.schedule == "paper":
        epoch, warmup = step // optim.epoch_steps, optim.warmup // optim.epoch_steps
        if epoch < warmup:
            return epoch / warmup
        return _cosine((epoch - warmup) / max(1, optim.steps // optim.epoch_steps - warmup))
    if step < optim.warmup:
        return (step + 1) / optim.warmup
    progress = (step - optim.warmup) / max(1, optim.steps - optim.warmup)
    if optim.schedule == "cosine":
        return _cosine(progress)
    return float(1000.0 ** -max(0.0, (progress - 0.3) / 0.7))


def _cosine(progress: float) -> float:
    return (1 + math.cos(math.pi * progress)) / 2
