"""What is measured of the runs on token tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from rankwise.recipes.points import Value
from rankwise.recipes.trained_figure import S, TrainedFigure
from rankwise.spec import RunSpec, TaskSpec
from rankwise.sweep import TrainedRun, forward_flops
from rankwise.tasks import build_task

TIMES = ("start", "quarter", "half", "three_quarters", "end")
RANKS = ("hardmax", "effective", "stable", "above_0.1", "above_0.01", "above_0.001")


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
