"""Match2 and Match3 of Sanford, Hsu and Telgarsky (2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rankwise.errors import InvalidInputError, require_int
from rankwise.spec.fields import settle
from rankwise.spec.interface import TokenInterface
from rankwise.spec.task import TaskSpec, register_task


@register_task
@dataclass(frozen=True, kw_only=True)
class MatchSpec(TaskSpec):
    """For each of ``points`` numbers below ``modulus``: does one (match2) or a pair (match3) sum with it to 0?

    Sums are modulo ``modulus``; positions may repeat, as in the paper. One head of constant size does Match2 (with M
    polynomial in N); for Match3 the paper proves that one layer needs heads x rank x precision of at least
    Omega(N / log log N) bits. ``modulus`` defaults to the value that makes about half of the answers yes.
    """

    builder: ClassVar[str] = "rankwise.tasks.match:Match"
    unit: ClassVar[str] = "share of positions answered wrongly"
    performance: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[bool] = False

    name: Literal["match2", "match3"]
    points: int
    modulus: int | None = None

    def __post_init__(self) -> None:
        settle(self)
        require_int("points", self.points, minimum=2)
        if self.modulus is None:
            object.__setattr__(self, "modulus", self._balanced())
        if require_int("modulus", self.modulus, minimum=2) > 2**16:
            raise InvalidInputError(f"modulus: expected at most {2**16} (each number has its row in a table)")

    def _balanced(self) -> int:
        """M with (1 - 1/M)^K about 1/2 for the K = N or N (N + 1) / 2 sums that could hit."""
        sums = self.points if self.name == "match2" else self.points * (self.points + 1) // 2
        return min(2**16, max(2, round(sums / 0.6931471805599453)))

    @property
    def modulo(self) -> int:
        """M, settled."""
        assert self.modulus is not None
        return self.modulus

    @property
    def tokens(self) -> int:
        """N."""
        return self.points

    @property
    def interface(self) -> TokenInterface:
        """A table of the numbers in, one logit a number out."""
        return TokenInterface(vocabulary=self.modulo, outputs=1)

    @property
    def title(self) -> str:
        """Match2 among 8 numbers below 12."""
        return f"{self.name.capitalize()} among {self.points} numbers below {self.modulo}"
