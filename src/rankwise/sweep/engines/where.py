"""Where a sweep's runs are executed: the choice a command line or a script makes, and the engine it means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rankwise.errors import InvalidInputError, require_choice, require_number
from rankwise.sweep.engines.engine import TRAIN, Engine
from rankwise.sweep.engines.local import LocalEngine

_DEVICES = ("cpu", "cuda", "auto")


@dataclass(frozen=True, kw_only=True)
class Where:
    """This machine's cores, or a Ray cluster. None of it changes a run's id or, on one kind of machine, its numbers."""

    engine: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: tasks on a Ray cluster (docs/cluster.md)."""
    address: str | None = None
    """With ray: the cluster to join, such as auto or 10.0.0.1:6379; without it a Ray is started here."""
    cpus: float | None = None
    """With ray: CPUs reserved for a run, fractions allowed (1)."""
    gpus: float | None = None
    """With ray: GPUs reserved for a run, fractions allowed (0)."""
    device: Literal["cpu", "cuda", "auto"] | None = None
    """Device to train on, instead of the spec's; auto takes a GPU if there is one."""

    def check(self) -> None:
        """Raise ``InvalidInputError`` for a choice that cannot be meant."""
        require_choice("--engine", self.engine, ("local", "ray"))
        if self.device is not None:
            require_choice("--device", self.device, _DEVICES)
        for name in ("address", "cpus", "gpus"):
            value = getattr(self, name)
            if self.engine != "ray" and value is not None:
                raise InvalidInputError(f"--{name}: expected --engine ray with it, got --engine {self.engine}")
        if self.address is not None and self.address.startswith("ray://"):
            raise InvalidInputError(
                f"--address: expected auto or host:port, on a node of the cluster, got {self.address!r}: "
                f"Ray's client protocol is not supported (docs/cluster.md)"
            )
        if self.cpus is not None:
            require_number("--cpus", self.cpus, above=0)
        if self.gpus is not None:
            require_number("--gpus", self.gpus, minimum=0)

    def open(self, log_dir: Path, *, entry: str = TRAIN, workers: int | None = None) -> Engine:
        """The engine, which starts nothing before it gets a job."""
        self.check()
        if self.engine == "local":
            return LocalEngine(log_dir, entry=entry, workers=workers)
        from rankwise.sweep.engines.ray import RayEngine

        cpus, gpus = 1.0 if self.cpus is None else self.cpus, 0.0 if self.gpus is None else self.gpus
        return RayEngine(log_dir, entry=entry, address=self.address, cpus=cpus, gpus=gpus, workers=workers)
