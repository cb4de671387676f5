"""Images: accuracy and attention rank against the head dimension, at fixed heads and without a mask.

    rankwise reproduce images --preset laptop
    rankwise reproduce images --preset full --data DIRECTORY_OF_MNIST

Patches of scikit-learn's digits (every fifth image held out), or of MNIST. The baseline of random hardmax heads is
1 - (1 - 1/n)^n, about 0.632; logistic regression on the same pixels is the level to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankwise.recipes.cells import chosen_seeds
from rankwise.recipes.registry import Reproduced, pick_preset
from rankwise.recipes.rows import ResultRow
from rankwise.recipes.tokens.families import Family, present_families
from rankwise.recipes.tokens.runs import Budget, images_task, token_rows
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import SweepSpec

KEYS = ("task", "data", "attention", "kv_lora_rank")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One model at several head dimensions; ``data`` of MNIST always has patches of ``mnist_patch``."""

    source: str
    patch: int
    shift: int
    dim: int
    layers: int
    heads: int
    ranks: tuple[int, ...]
    budget: Budget
    seeds: int = 3
    mnist_patch: int = 4

    def family(self, data: str | None) -> Family:
        """The runs, the images read."""
        patch = self.mnist_patch if data is not None or self.source == "mnist" else self.patch
        task = images_task(self.source, patch, self.shift, data)
        shape = {"dim": self.dim, "layers": self.layers, "heads": self.heads}
        return Family(task=task, sizes=self.ranks, budget=self.budget, **shape)


PRESETS: dict[str, Settings] = {
    "smoke": Settings(
        source="digits",
        patch=2,
        shift=0,
        dim=16,
        layers=1,
        heads=2,
        ranks=(1, 4),
        budget=Budget(steps=60, batch=32, held_out=128),
        seeds=1,
    ),
    "laptop": Settings(
        source="digits",
        patch=2,
        shift=1,
        dim=32,
        layers=2,
        heads=4,
        ranks=(1, 2, 4, 8, 16, 32),
        budget=Budget(steps=3000, batch=64),
    ),
    "full": Settings(
        source="mnist",
        patch=4,
        shift=2,
        dim=64,
        layers=4,
        heads=4,
        ranks=(1, 2, 4, 8, 16, 32, 64),
        budget=Budget(steps=20_000, batch=128, lr=1e-3, held_out=10_000),
    ),
}


def sweep(preset: str = "laptop", *, seeds: int | None = None, data: str | None = None) -> SweepSpec:
    """The runs of the figure; the images are read and checked now."""
    settings = pick_preset(PRESETS, preset)
    runs = settings.family(data).runs(chosen_seeds(seeds, settings.seeds))
    return SweepSpec(name=f"images ({preset})", runs=tuple(runs))


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run."""
    return token_rows("images", runs)


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    return present_families("images", preset, rows, stem)
