"""The real training for workers, with checkpoints often enough for tests to kill it between two."""

import os

from rankwise.train import loop

# About a second of work, and a checkpoint or several on the way.
SHORT = {"lr": 0.01, "steps": 400, "batch": 8, "epoch_steps": 200, "validation_batches": 1, "validation_batch": 64}


def entry(spec, context):
    loop.CHECKPOINT_EVERY = 0.1
    with (context.checkpoint_dir / "calls").open("a") as calls:
        calls.write(f"{os.getpid()}\n")
    return loop.run_entry(spec, context)
