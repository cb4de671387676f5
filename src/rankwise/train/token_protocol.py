"""How runs on token tasks are trained: one training for all of them.

Pre-norm blocks with RMSNorm, ReLU feed-forward of four times the width, learned positions, Muon for the matrices and
AdamW for the rest, gradients clipped at 1, a short warm-up and a cosine to 0. Only what a figure varies differs between
its runs, and Match2 ends early.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.spec import ModelSpec, OptimSpec, RunSpec, TaskSpec

_PROBE = 8


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long a run is trained (with ``patience``, at most: it ends after so many eighths without improvement), and
    what it is judged on."""

    steps: int
    batch: int
    lr: float = 3e-3
    held_out: int = 512
    weight_decay: float = 0.01
    patience: int | None = None


def token_run(task: TaskSpec, budget: Budget, *, dim: int, layers: int, heads: int, rank: int) -> RunSpec:
    """A run on ``task`` with heads of dimension ``rank``; always probed, so that figures share equal runs."""
    assert task.interface is not None
    return RunSpec(
        task=task,
        probe=_PROBE,
        model=ModelSpec(
            dim=dim,
            layers=layers,
            heads=heads,
            rank=rank,
            causal=task.interface.causal,
            feedforward=4 * dim,
            norm_place="pre",
            positions="additive",
            max_points=task.tokens,
        ),
        optim=OptimSpec(
            optimizer="muon",
            lr=budget.lr,
            weight_decay=budget.weight_decay,
            clip=1.0,
            steps=budget.steps,
            batch=budget.batch,
            warmup=min(100, budget.steps // 10),
            patience=budget.patience,
            epoch_steps=max(1, budget.steps // 8),
            validation_batches=-(-budget.held_out // 64),
            validation_batch=min(64, budget.held_out),
        ),
    )
