"""One training run: everything that decides its numbers, and a little that does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rankwise.errors import InvalidInputError, require_int, require_number
from rankwise.spec.canonical import run_id
from rankwise.spec.fields import settle
from rankwise.spec.model import ModelSpec
from rankwise.spec.neighbors import NeighborSpec
from rankwise.spec.optim import OptimSpec
from rankwise.spec.task import TaskSpec

_MAX_PARAMETERS = 10**10
_MAX_NUMBERS_A_BATCH = 10**10

# Changing such a field asks for the same numbers, so it leaves the run's id alone.
_NOT_IDENTITY = {"identity": False}


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A run is its spec: the same ``id`` means the same numbers.

    ``device``, ``time_limit`` and ``tags`` are outside the id, because they say where and how long, not what.
    """

    task: TaskSpec
    """What is learned."""
    model: ModelSpec
    """What learns it."""
    optim: OptimSpec
    """How it is trained."""
    seed: int = 0
    """Which repetition it is."""
    protocol: Literal["custom", "paper", "capacity"] = "custom"
    """The recipe that made the spec (see ``train.protocols``)."""
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    """Of weights, activations and gradients."""
    device: Literal["cpu", "cuda", "auto"] = field(default="cpu", metadata=_NOT_IDENTITY)
    """``auto``: CUDA where there is one. Which device did the work is recorded beside the result."""
    time_limit: float | None = field(default=None, metadata=_NOT_IDENTITY)
    """Seconds per attempt (default: no limit)."""
    tags: tuple[str, ...] = field(default=(), metadata=_NOT_IDENTITY)
    """Free words for tables."""
    probe: int | None = None
    """On this many held-out examples the rank of every head's attention matrix is measured: initially, after each
    quarter of the steps, and at the end (default: not at all)."""

    def __post_init__(self) -> None:
        settle(self)
        require_int("seed", self.seed, minimum=0)
        if self.time_limit is not None:
            require_number("time_limit", self.time_limit, above=0)
        if self.probe is not None:
            require_int("probe", self.probe, minimum=1)
            if self.model.generalized is not None:
                raise InvalidInputError("probe: expected none with generalized heads, which show no attention matrix")
        self._check_fit()
        self._check_size()

    def _check_fit(self) -> None:
        """That this model can read and answer this task."""
        task, model, tokens = self.task, self.model, self.task.tokens
        task.check_model(model)
        if 0 < model.max_points < tokens:
            raise InvalidInputError(
                f"model.max_points: expected at least {task.tokens_are} = {tokens}, got {model.max_points}"
            )

    def _check_size(self) -> None:
        model, numbers = self.model, self.optim.batch * self.task.vectors * self.model.dim
        parameters = min(self.parameters(), 10**300)  # beyond what a float can print
        if parameters > _MAX_PARAMETERS:
            raise InvalidInputError(
                f"model.heads: expected a model of at most {_MAX_PARAMETERS:.0e} parameters, got "
                f"{parameters:.2e} from heads = {model.heads}, rank = {model.rank}, dim = {model.dim}, "
                f"layers = {model.layers}, feedforward = {model.feedforward}"
            )
        if numbers > _MAX_NUMBERS_A_BATCH:
            raise InvalidInputError(
                f"optim.batch: expected at most {_MAX_NUMBERS_A_BATCH:.0e} numbers a batch, got {numbers:.2e} from "
                f"batch = {self.optim.batch}, {self.task.vectors} vectors per example, dim = {model.dim}"
            )

    def parameters(self) -> int:
        """Number of trainable scalars: the stack, and what reads tokens into it and answers out of it."""
        interface = self.task.interface
        return self.model.parameters() + (0 if interface is None else interface.parameters(self.model.dim))

    @property
    def neighbors(self) -> NeighborSpec:
        """The task, of a run that is about neighbour search."""
        if not isinstance(self.task, NeighborSpec):
            raise InvalidInputError(f"task: expected a neighbour search, got {self.task.name!r}")
        return self.task

    @property
    def id(self) -> str:
        """16 hexadecimal digits: the hash of the canonical form."""
        return run_id(self)
