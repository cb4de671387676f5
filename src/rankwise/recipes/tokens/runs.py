"""The runs on token tasks, and what is measured of them.

All runs share one training: pre-norm blocks with RMSNorm, ReLU feed-forward of four times the width, learned positions,
Muon for the matrices and AdamW for the rest, gradients clipped at 1, a short warm-up and a cosine to 0. Only what a
figure varies differs between its runs, and Match2 ends early.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from rankwise.recipes.marks import Value
from rankwise.recipes.rows import Point
from rankwise.recipes.trained_figure import S, TrainedFigure
from rankwise.spec import ModelSpec, OptimSpec, RunSpec, TaskSpec
from rankwise.sweep.run_time import forward_flops
from rankwise.sweep.trained import TrainedRun
from rankwise.tasks import build_task

_PROBE = 8
TIMES = ("start", "quarter", "half", "three_quarters", "end")
RANKS = ("hardmax", "effective", "stable", "above_0.1", "above_0.01", "above_0.001")


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


def token_run(
    task: TaskSpec, budget: Budget, *, dim: int, layers: int, heads: int, rank: int, kv_lora_rank: int | None = None
) -> RunSpec:
    """A run on ``task``; always probed, so that figures with the same model share its run.

    - ``rank``: the head dimension.
    - ``kv_lora_rank``: if set, the attention is latent (MLA).
    """
    assert task.interface is not None
    return RunSpec(
        task=task,
        probe=_PROBE,
        model=ModelSpec(
            dim=dim,
            layers=layers,
            heads=heads,
            rank=rank,
            kv_lora_rank=kv_lora_rank,
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


class TokenFigure(TrainedFigure[S]):
    """A figure whose runs are probed: their rows have the ranks of their heads."""

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The task, its mask and data, the attention, and the operations of a forward pass."""
        latent = run.model.kv_lora_rank
        return {
            "task": run.task.name,
            "mask": "causal" if run.model.causal else "full",
            "data": run.task.data,
            "attention": "ordinary" if latent is None else "latent",
            "kv_lora_rank": latent or 0,
            "forward_flops": forward_flops(run),
        }

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """``performance`` (see the task's spec), the task's own numbers, what predictors without attention reach, and
        the ranks over n: ``RANK_TIME``, mean over all heads, and ``RANK_lLhH`` of every head after training."""
        task, optim, error = trained.run.task, trained.run.optim, float(trained.result["error"])
        details = trained.result.get("details", {})
        yield {
            "performance": error if task.lower_is_better else 1 - error,
            **{name: value for name, value in details.items() if isinstance(value, float)},
            **_performance_levels(task, optim.validation_batches * optim.validation_batch),
            **_rank_columns(trained.result["attention"]),
        }


def split_data(data: str | None) -> tuple[str | None, str | None]:
    """``data`` of a figure that has both: a directory is images, anything else a text."""
    return (None, data) if data is not None and Path(data).expanduser().is_dir() else (data, None)


def verdict(one: Point, other: Point, better: str, worse: str) -> str:
    """Whether the errors of ``one`` are ``better`` or ``worse`` than those of ``other``."""
    apart = abs(one.error - other.error) > 2 * math.hypot(one.spread(), other.spread())
    found = "That is no clear difference" if not apart else better if one.error < other.error else worse
    return f"{found} (two standard errors decide)."


@lru_cache(maxsize=16)
def _performance_levels(task: TaskSpec, examples: int) -> dict[str, float]:
    """What is reached without attention on the same held-out examples: byte tables, logistic regression on pixels."""
    levels = build_task(task).levels(examples)
    return levels if task.lower_is_better else {name: 1 - error for name, error in levels.items()}


def _rank_columns(attention: Mapping[str, Any]) -> dict[str, Value]:
    """The ranks of a probed run over n: means over heads at every time, and each head after training."""
    columns: dict[str, Value] = {}
    ranks = {name: torch.tensor(attention[name], dtype=torch.float64) / attention["tokens"] for name in RANKS}
    for name, snapshots in ranks.items():  # [time, layer, head]
        means = zip(TIMES, snapshots.mean(dim=(1, 2)).tolist(), strict=True)
        columns |= {f"{name}_{time}": mean for time, mean in means}
    for name in ("hardmax", "effective", "above_0.01"):
        for layer, heads in enumerate(ranks[name][-1].tolist()):
            columns |= {f"{name}_l{layer}h{head}": value for head, value in enumerate(heads)}
    return columns
