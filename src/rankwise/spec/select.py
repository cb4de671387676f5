"""Selection of a code by a noisy copy of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rankwise.errors import InvalidInputError, require_int, require_number
from rankwise.spec.fields import settle
from rankwise.spec.task import TaskSpec, register_task

if TYPE_CHECKING:
    from rankwise.spec.model import ModelSpec


@register_task
@dataclass(frozen=True, kw_only=True)
class SelectSpec(TaskSpec):
    """N unit codes and queries that are noisy copies of some: ``y = (c_i + s g) / sqrt(1 + s^2)``, g ~ N(0, I/dim).

    The answer is the code c_i that was copied. ``rankwise.theory.selection`` has the rank that it takes.
    """

    builder: ClassVar[str] = "rankwise.tasks.select:Select"
    unit: ClassVar[str] = "share of queries answered with another code"
    performance: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[bool] = False

    name: Literal["select"] = "select"
    """Name of the task."""
    dim: int
    """Dimension of the codes."""
    points: int
    """N, the codes."""
    noise: float = 0.0
    """s, the length of the noise relative to a code."""
    queries: int = 1
    """Per example."""
    codebook: int | None = None
    """The seed of one set of codes for all examples, which weights can learn (default: new codes in every example)."""

    def __post_init__(self) -> None:
        settle(self)
        require_int("dim", self.dim, minimum=2)
        require_int("points", self.points, minimum=2)
        require_number("noise", self.noise, minimum=0)
        require_int("queries", self.queries, minimum=1)
        if self.codebook is not None:
            require_int("codebook", self.codebook, minimum=0)

    @property
    def tokens(self) -> int:
        """N."""
        return self.points

    @property
    def asked(self) -> int:
        """Q."""
        return self.queries

    @property
    def vectors(self) -> int:
        """Codes and queries."""
        return self.points + self.queries

    @property
    def interface(self) -> None:
        """None: the stack reads and answers the vectors themselves."""
        return None

    @property
    def title(self) -> str:
        """Select among 16 new codes in 64 dimensions, noise 0.5."""
        kind = "new" if self.codebook is None else "fixed"
        return f"Select among {self.points} {kind} codes in {self.dim} dimensions, noise {self.noise:g}"

    def check_model(self, model: ModelSpec) -> None:
        """Refuse a model of another dimension, and latent attention, whose tokens attend to themselves."""
        if model.dim != self.dim:
            raise InvalidInputError(f"model.dim: expected task.dim = {self.dim}, got {model.dim}")
        if model.kv_lora_rank is not None:
            raise InvalidInputError("model.kv_lora_rank: expected none for 'select', whose queries are not its points")
