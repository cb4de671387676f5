"""How large the small models are, how long they train, and how the search narrows.

The training is that of the token tasks: pre-norm blocks with RMSNorm, feed-forward of four times the width, learned
positions, Muon and AdamW, a cosine to 0. It is the same for every shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rankwise.choose.shapes import HeadShape
from rankwise.errors import InvalidInputError
from rankwise.spec import ModelSpec, OptimSpec, RunSpec, TextSpec

_LEARNING_RATE = 3e-3


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of the search: ``keep`` shapes of every rank (all if None) are trained ``steps`` steps."""

    steps: int
    keep: int | None
    seeds: int


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The small models."""

    dim: int
    layers: int
    context: int
    """Bytes of text that a model sees."""
    batch: int
    held_out: int
    """Pieces of held-out text that a model is judged on."""
    rounds: tuple[Round, ...]

    def with_seeds(self, seeds: int | None) -> Preset:
        """The last round with that many seeds."""
        if seeds is None:
            return self
        return replace(self, rounds=(*self.rounds[:-1], replace(self.rounds[-1], seeds=seeds)))

    def run(self, text: TextSpec, shape: HeadShape, steps: int, seed: int) -> RunSpec:
        """One training."""
        return RunSpec(
            task=text,
            seed=seed,
            model=ModelSpec(
                dim=self.dim,
                layers=self.layers,
                heads=shape.heads,
                rank=shape.rank,
                value_rank=shape.value_rank,
                kv_heads=shape.kv_heads,
                causal=True,
                feedforward=4 * self.dim,
                norm_place="pre",
                positions="additive",
                max_points=self.context,
            ),
            optim=OptimSpec(
                optimizer="muon",
                lr=_LEARNING_RATE,
                weight_decay=0.01,
                clip=1.0,
                steps=steps,
                batch=self.batch,
                warmup=min(100, steps // 10),
                epoch_steps=steps,
                validation_batches=-(-self.held_out // 64),
                validation_batch=min(64, self.held_out),
            ),
        )


PRESETS = {
    "smoke": Preset(
        dim=16,
        layers=1,
        context=16,
        batch=8,
        held_out=64,
        rounds=(Round(steps=10, keep=None, seeds=1), Round(steps=20, keep=1, seeds=2)),
    ),
    "laptop": Preset(
        dim=64,
        layers=2,
        context=64,
        batch=32,
        held_out=4096,
        rounds=(
            Round(steps=150, keep=None, seeds=1),
            Round(steps=400, keep=2, seeds=1),
            Round(steps=1200, keep=1, seeds=3),
        ),
    ),
}


def pick_preset(name: str) -> Preset:
    """The preset of that name."""
    if name not in PRESETS:
        raise InvalidInputError(f"--preset: expected one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]
