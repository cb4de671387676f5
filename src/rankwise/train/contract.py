"""What a worker and the training inside it promise each other.

An entry point is a function named ``package.module:function`` and called as ``entry(spec, context) -> result``:

- ``spec`` is the run as plain JSON values, ``result`` a dictionary of plain JSON values without NaN or infinity. The
  key ``error`` is the run's error, the number that tables and progress show; ``steps`` how many steps were made.
- The entry may be called again for the same run at any time, in another process, after a kill -9 at any instant: it
  looks into ``context.checkpoint_dir``, trusts a checkpoint only if its SHA-256 (kept beside it) agrees, and continues
  from there or starts anew. Straight or interrupted, the result is the same.
- It asks ``context.should_stop()`` at least once a second or so. When that is true it writes a checkpoint and raises
  ``Stopped``.
- It raises ``Diverged`` when the loss or the gradient is no longer finite (or the loss is a million times what it began
  at), before the optimiser step. Any other exception is a failure, recorded with its traceback. ``OSError`` with "no
  space", "read-only", "quota", "file too large" or "permission denied" is not the run's fault: the sweep stops, the
  next one continues the run.
- It prints nothing that matters: its output goes to a log file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol


class WorkerContext(Protocol):
    """What an entry point may ask of the worker that calls it."""

    @property
    def checkpoint_dir(self) -> Path:
        """This run's own directory; it exists, and keeps what earlier attempts left in it."""

    def should_stop(self) -> bool:
        """True once the run should checkpoint and raise ``Stopped``; cheap enough to ask every step."""

    def report(self, progress: Mapping[str, Any]) -> None:
        """How far the run is: ``{"step": 120, "of": 1000, "error": 0.31}``. Cheap: most calls are not sent on."""

    def checkpointed(self, path: Path, sha256: str, step: int) -> None:
        """A checkpoint is complete on disk, written now or found there; its path and hash go into the run's row."""

    def continued(self, seconds: float) -> None:
        """The run goes on from a checkpoint that took earlier attempts ``seconds`` of work."""


class Stopped(Exception):  # noqa: N818 (the way a run ends when asked to, not an error)
    """The run was asked to stop and has written its checkpoint."""


class Diverged(Exception):  # noqa: N818 (an outcome of the experiment, not an error)
    """The loss or the gradient stopped being finite or sane at ``step``; no optimiser step was taken on it."""

    def __init__(self, step: int, reason: str) -> None:
        self.step = step
        self.reason = reason
        super().__init__(f"diverged at step {step}: {reason}")
