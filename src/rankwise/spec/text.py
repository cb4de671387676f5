"""Byte-level language modelling."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar, Literal

from rankwise.errors import require_int, require_sha256
from rankwise.spec.fields import settle
from rankwise.spec.interface import TokenInterface
from rankwise.spec.task import TaskSpec, register_task


@register_task
@dataclass(frozen=True, kw_only=True)
class TextSpec(TaskSpec):
    """Predict each next byte from at most ``context`` bytes before it.

    The text is the Python standard library's source, or the file at ``path``. Which bytes those are is part of the
    run's identity (``sha256``), where they lie is not: the library of another interpreter is other data, a moved file
    is the same.
    """

    builder: ClassVar[str] = "rankwise.tasks.text:Text"
    unit: ClassVar[str] = "bits per byte"
    performance: ClassVar[str] = "bits per byte"
    tokens_are: ClassVar[str] = "task.context"

    name: Literal["text"] = "text"
    context: int
    sha256: str
    path: str | None = field(default=None, metadata={"identity": False})

    def __post_init__(self) -> None:
        settle(self)
        require_int("context", self.context, minimum=2)
        require_sha256("sha256", self.sha256)

    @property
    def tokens(self) -> int:
        """N."""
        return self.context

    @property
    def interface(self) -> TokenInterface:
        """A table of the 256 bytes in, 256 logits a position out."""
        return TokenInterface(vocabulary=256, outputs=256, causal=True)

    @property
    def title(self) -> str:
        """Next byte of the standard library, context 64."""
        return f"Next byte of the text {self.data} ({self.sha256:.8}), context {self.context}"

    @property
    def data(self) -> str:
        """The file's name."""
        return "standard library" if self.path is None else PurePath(self.path).name

    @property
    def reads_files(self) -> bool:
        """True: the text."""
        return True
