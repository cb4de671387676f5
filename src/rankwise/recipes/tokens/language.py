"""Language: bits per byte and attention rank against the head dimension, at fixed heads.

    rankwise reproduce language --preset laptop
    rankwise reproduce language --preset full --data enwik8

Next-byte prediction on the Python standard library's source (every tenth file held out) or any text file (its last
tenth held out). The claim to test: performance and attention rank stop growing at the same head dimension. The causal
baseline of random hardmax heads is (n + 1) / 2n; tables of single bytes and of pairs are the levels to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankwise.recipes.cells import chosen_seeds
from rankwise.recipes.registry import Reproduced, pick_preset
from rankwise.recipes.rows import ResultRow
from rankwise.recipes.tokens.families import Family, present_families
from rankwise.recipes.tokens.runs import Budget, text_task, token_rows
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import SweepSpec

KEYS = ("task", "data", "attention", "kv_lora_rank")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One model at several head dimensions."""

    context: int
    dim: int
    layers: int
    heads: int
    ranks: tuple[int, ...]
    budget: Budget
    seeds: int = 3

    def family(self, data: str | None) -> Family:
        """The runs, the text read."""
        task = text_task(self.context, data)
        shape = {"dim": self.dim, "layers": self.layers, "heads": self.heads}
        return Family(task=task, sizes=self.ranks, budget=self.budget, **shape)


PRESETS: dict[str, Settings] = {
    "smoke": Settings(
        context=16,
        dim=16,
        layers=1,
        heads=2,
        ranks=(1, 4),
        budget=Budget(steps=40, batch=16, held_out=64),
        seeds=1,
    ),
    "laptop": Settings(
        context=64, dim=64, layers=2, heads=4, ranks=(1, 2, 4, 8, 16, 32, 64), budget=Budget(steps=2000, batch=32)
    ),
    "full": Settings(
        context=256,
        dim=256,
        layers=4,
        heads=8,
        ranks=(1, 2, 4, 8, 16, 32, 64, 128),
        budget=Budget(steps=50_000, batch=64, lr=1e-3, held_out=4096),
    ),
}


def sweep(preset: str = "laptop", *, seeds: int | None = None, data: str | None = None) -> SweepSpec:
    """The runs of the figure; the text is read and checked now."""
    settings = pick_preset(PRESETS, preset)
    runs = settings.family(data).runs(chosen_seeds(seeds, settings.seeds))
    return SweepSpec(name=f"language ({preset})", runs=tuple(runs))


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run."""
    return token_rows("language", runs)


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    return present_families("language", preset, rows, stem)
