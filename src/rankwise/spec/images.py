"""Image classification from patches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from rankwise.errors import InvalidInputError, require_int, require_sha256
from rankwise.spec.fields import settle
from rankwise.spec.interface import TokenInterface
from rankwise.spec.task import TaskSpec, register_task

SIDES = {"digits": 8, "mnist": 28}
CLASSES = 10


@register_task
@dataclass(frozen=True, kw_only=True)
class ImagesSpec(TaskSpec):
    """Ten classes of square grey images cut into square patches, one token per patch."""

    builder: ClassVar[str] = "rankwise.tasks.images:ImagePatches"
    unit: ClassVar[str] = "share of images misread"
    performance: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[bool] = False
    tokens_are: ClassVar[str] = "the number of patches"

    name: Literal["images"] = "images"
    """Name of the task."""
    source: Literal["digits", "mnist"]
    """``digits``: the 1,797 images of 8 x 8 that come with scikit-learn, every fifth held out. ``mnist``: 28 x 28 from
    ``path``, with its own test set."""
    patch: int
    """Pixels along the edge of a patch."""
    shift: int = 0
    """Training images are moved by up to this many pixels in each direction."""
    sha256: str | None = None
    """Of the pixels and classes of ``mnist``, whatever their file format; None for ``digits``."""
    path: str | None = field(default=None, metadata={"identity": False})
    """A directory of the idx or CSV files of ``mnist``; None for ``digits``. Outside the run's id."""

    def __post_init__(self) -> None:
        settle(self)
        require_int("patch", self.patch, minimum=1)
        require_int("shift", self.shift, minimum=0)
        if self.side % self.patch:
            raise InvalidInputError(f"patch: expected a divisor of the side of {self.side} pixels, got {self.patch}")
        if self.shift >= self.side:
            raise InvalidInputError(f"shift: expected less than the side of {self.side} pixels, got {self.shift}")
        for name in ("path", "sha256"):
            given = getattr(self, name) is not None
            if given != (self.source == "mnist"):
                wanted = "the data's" if self.source == "mnist" else "no"
                raise InvalidInputError(f"{name}: expected {wanted} {name} for source = {self.source!r}, got the other")
        if self.sha256 is not None:
            require_sha256("sha256", self.sha256)

    @property
    def side(self) -> int:
        """Pixels along an edge."""
        return SIDES[self.source]

    @property
    def tokens(self) -> int:
        """N: patches of an image."""
        return (self.side // self.patch) ** 2

    @property
    def interface(self) -> TokenInterface:
        """The pixels of a patch in, ten logits out of the mean over patches."""
        return TokenInterface(features=self.patch**2, outputs=CLASSES, pooled=True)

    @property
    def title(self) -> str:
        """Images of digits in 16 patches."""
        return f"Images of {self.source} in {self.tokens} patches"

    @property
    def data(self) -> str:
        """Which images."""
        return self.source

    @property
    def reads_files(self) -> bool:
        """True: the images."""
        return True
