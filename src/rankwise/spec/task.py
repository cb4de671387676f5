"""What every task says of itself, and which tasks there are.

A task is a spec (what it is) and a class in ``rankwise.tasks`` (its examples). The spec names the class, its unit, and
what a token is, so that nothing else has to know one task from another. A package of its own registers a task with
``register_task`` in a module that it names as an entry point of the group ``rankwise.tasks``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, ClassVar, TypeVar, get_args

from rankwise.errors import InvalidInputError
from rankwise.spec.fields import kinds
from rankwise.spec.interface import TokenInterface

if TYPE_CHECKING:
    from rankwise.spec.model import ModelSpec

T = TypeVar("T", bound="type[TaskSpec]")


class TaskSpec(ABC):
    """What a network has to learn. Subclasses are frozen dataclasses whose ``name`` tells tasks apart in files."""

    name: str
    builder: ClassVar[str]
    """``module:callable`` that makes the task of a spec; imported when a run is built."""
    unit: ClassVar[str]
    """What an error counts, for the axes of a figure."""
    performance: ClassVar[str]
    """What readers compare, where that is not the error."""
    lower_is_better: ClassVar[bool] = True
    """Whether performance is the error; otherwise it is 1 - error."""
    tokens_are: ClassVar[str] = "task.points"
    """The number of tokens in terms of the spec's fields."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """N, the tokens that keys and values are read from."""

    @property
    def asked(self) -> int:
        """Q, how many queries an example has."""
        return self.tokens

    @property
    def vectors(self) -> int:
        """The number of vectors in an example."""
        return self.tokens

    @property
    @abstractmethod
    def interface(self) -> TokenInterface | None:
        """How the stack reads tokens and answers them; None: it reads and answers vectors."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The task in a few words."""

    @property
    def data(self) -> str:
        """What the examples are made of, in a word."""
        return "drawn"

    @property
    def reads_files(self) -> bool:
        """Whether building the task reads a file."""
        return False

    def check_model(self, model: ModelSpec) -> None:
        """Refuse a model that cannot read or answer this task."""
        if model.generalized is not None:
            raise InvalidInputError(f"model.generalized: expected none for {self.name!r}, which is read as tokens")
        if self.interface is not None and self.interface.causal and not model.causal:
            raise InvalidInputError(f"model.causal: expected true for {self.name!r}: later tokens hold the answers")

    @classmethod
    def by_name(cls, name: object) -> dict[str, type[TaskSpec]]:
        """All tasks by their names, those of other packages too where ``name`` is not one of ours."""
        if isinstance(name, str) and name not in _TASKS:
            for plugin in entry_points(group="rankwise.tasks"):
                plugin.load()
        return dict(_TASKS)


_TASKS: dict[str, type[TaskSpec]] = {}


def register_task(kind: T) -> T:
    """Let specs name this task: a decorator of its class."""
    _TASKS.update(dict.fromkeys(get_args(kinds(kind)["name"]), kind))
    return kind
