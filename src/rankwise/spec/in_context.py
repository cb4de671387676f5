"""In-context learning of function classes, as in Garg, Tsipras, Liang and Valiant (2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rankwise.errors import InvalidInputError, require_int
from rankwise.spec.fields import settle
from rankwise.spec.interface import TokenInterface
from rankwise.spec.task import TaskSpec, register_task

Function = Literal["linear", "sparse_linear", "relu", "tree", "nearest"]

# The size a class has besides dim, and its published value; anchors are ours.
_SIZES: dict[str, dict[str, int]] = {
    "linear": {},
    "sparse_linear": {"sparsity": 3},
    "relu": {"hidden": 100},
    "tree": {"depth": 4},
    "nearest": {"anchors": 8},
}
_MAX_DEPTH = 16


@dataclass(frozen=True, kw_only=True)
class Curriculum:
    """At step t only the first ``min(dim, dims_start + dims_step * (t // every))`` coordinates of the inputs are not 0,
    and a prompt has ``min(points, points_start + points_step * (t // every))`` examples."""

    dims_start: int
    dims_step: int = 1
    points_start: int
    points_step: int = 2
    every: int = 2000

    def __post_init__(self) -> None:
        settle(self)
        for name in ("dims_start", "points_start", "every"):
            require_int(name, getattr(self, name), minimum=1)
        for name in ("dims_step", "points_step"):
            require_int(name, getattr(self, name), minimum=0)


@register_task
@dataclass(frozen=True, kw_only=True)
class InContextSpec(TaskSpec):
    """Prompts x_1, f(x_1), x_2, f(x_2), ...: predict each f(x_k) from the examples before it.

    Every prompt has a fresh f and x_k ~ N(0, I). Tokens are those of the paper: x_k, then (f(x_k), 0, ..., 0), the last
    value left out.
    """

    builder: ClassVar[str] = "rankwise.tasks.in_context:InContext"
    unit: ClassVar[str] = "squared error over the function's variance"
    performance: ClassVar[str] = "squared error / variance"
    tokens_are: ClassVar[str] = "2 task.points - 1"

    name: Literal["in_context"] = "in_context"
    """Name of the task."""
    function: Literal["linear", "sparse_linear", "relu", "tree", "nearest"]
    """The class that f is drawn from:

    - ``linear``: <w, x>, w ~ N(0, I);
    - ``sparse_linear``: the same with only ``sparsity`` coordinates of w not 0;
    - ``relu``: sqrt(2 / hidden) sum_j a_j relu(<w_j, x>), Gaussian weights, ``hidden`` units;
    - ``tree``: a full binary tree of depth ``depth`` that asks at each node for the sign of a random coordinate;
    - ``nearest`` (ours): the first ``anchors`` values are independent N(0, 1), which nobody can predict; each later one
      is the value of the anchor nearest to x, which one attention head of full rank can look up."""
    dim: int
    """Dimension of the inputs."""
    points: int
    """Examples per prompt."""
    sparsity: int | None = None
    """Of ``sparse_linear`` only (default there: 3)."""
    hidden: int | None = None
    """Of ``relu`` only (default there: 100)."""
    depth: int | None = None
    """Of ``tree`` only (default there: 4)."""
    anchors: int | None = None
    """Of ``nearest`` only (default there: 8)."""
    curriculum: Curriculum | None = None
    """Shorter prompts of fewer dimensions early in training (default: none)."""

    def __post_init__(self) -> None:
        settle(self)
        require_int("dim", self.dim, minimum=1)
        require_int("points", self.points, minimum=2)
        for name in ("sparsity", "hidden", "depth", "anchors"):
            self._check_size(name)
        if self.sparsity is not None and self.sparsity > self.dim:
            raise InvalidInputError(f"sparsity: expected at most dim = {self.dim}, got {self.sparsity}")
        if self.depth is not None and self.depth > _MAX_DEPTH:
            raise InvalidInputError(f"depth: expected at most {_MAX_DEPTH}, got {self.depth}")
        if self.anchors is not None and self.anchors >= self.points:
            raise InvalidInputError(
                f"anchors: expected fewer than points = {self.points}, so that something is asked, got {self.anchors}"
            )
        if self.curriculum is not None:
            self._check_curriculum(self.curriculum)

    def _check_size(self, name: str) -> None:
        sizes = _SIZES[self.function]
        value = getattr(self, name)
        if name not in sizes:
            if value is not None:
                raise InvalidInputError(f"{name}: expected none for function = {self.function!r}, got {value}")
        elif value is None:
            object.__setattr__(self, name, sizes[name])
        else:
            require_int(name, value, minimum=1)

    def _check_curriculum(self, curriculum: Curriculum) -> None:
        for start, end in (("dims_start", self.dim), ("points_start", self.points)):
            if getattr(curriculum, start) > end:
                raise InvalidInputError(
                    f"curriculum.{start}: expected at most {end}, where it ends, got {getattr(curriculum, start)}"
                )
        if self.sparsity is not None and curriculum.dims_start < self.sparsity:
            raise InvalidInputError(
                f"curriculum.dims_start: expected at least sparsity = {self.sparsity}, got {curriculum.dims_start}"
            )
        if self.anchors is not None and curriculum.points_start <= self.anchors:
            raise InvalidInputError(
                f"curriculum.points_start: expected more than anchors = {self.anchors}, got {curriculum.points_start}"
            )

    @classmethod
    def published(cls, function: Literal["linear", "sparse_linear", "relu", "tree"]) -> InContextSpec:
        """The paper's set-up: from 5 to 20 dimensions, from 11 to 41 examples (relu and tree: from 26 to 101)."""
        if function in ("relu", "tree"):
            curriculum = Curriculum(dims_start=5, points_start=26, points_step=5)
            return cls(function=function, dim=20, points=101, curriculum=curriculum)
        curriculum = Curriculum(dims_start=5, points_start=11, points_step=2)
        return cls(function=function, dim=20, points=41, curriculum=curriculum)

    @property
    def variance(self) -> float:
        """E f(x)^2, the error of predicting 0 (without a curriculum)."""
        return float({"linear": self.dim, "sparse_linear": self.sparsity or 0, "relu": self.dim}.get(self.function, 1))

    @property
    def tokens(self) -> int:
        """N: examples and values interleaved, without the last value, which nothing is asked after."""
        return 2 * self.points - 1

    @property
    def interface(self) -> TokenInterface:
        """How the stack reads the tokens."""
        return TokenInterface(features=self.dim, outputs=1, causal=True)

    def stage(self, step: int | None) -> tuple[int, int]:
        """Dimensions and points of the prompts at ``step``; None is after the curriculum."""
        if self.curriculum is None or step is None:
            return self.dim, self.points
        c, rounds = self.curriculum, step // self.curriculum.every
        return min(self.dim, c.dims_start + c.dims_step * rounds), min(
            self.points, c.points_start + c.points_step * rounds
        )

    @property
    def title(self) -> str:
        """Title of a run, such as "In-context linear functions of 5 dimensions, 11 examples"."""
        function = self.function.replace("_", " ")
        return f"In-context {function} functions of {self.dim} dimensions, {self.points} examples"
