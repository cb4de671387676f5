"""What a user asks of a reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rankwise.errors import InvalidInputError, require_int, require_number
from rankwise.models import TensorNames
from rankwise.reduce.cutting import Allocation
from rankwise.reduce.methods import MethodName

Form = Literal["latents", "mla"]
FRONTIER_SHARES = (0.75, 0.5, 0.375, 0.25)


@dataclass(frozen=True, kw_only=True)
class ReductionOptions:
    """Exactly one of ``keep``, ``rank`` and ``tolerance`` is given."""

    keep: float | None = None
    """Share of the cached numbers (of encoders: of the heads' coordinates) that stays."""
    rank: int | None = None
    """Size of every latent, or rank of every head."""
    tolerance: float | None = None
    """The smallest share of 5 %, 10 %, ... within it is chosen; percent of what users notice, see ``CostReport``."""
    method: MethodName = "fisher"
    """How directions are chosen."""
    allocation: Allocation = "allocated"
    """Whether every layer keeps the same share."""
    heal: float = 0.0
    """Minutes of healing, turned into tokens by the time of one step here; 0 for none."""
    heal_tokens: int = 0
    """Instead: tokens to heal on, the same on every machine."""
    context: int = 1024
    """Tokens before generation is measured; 0 leaves it out."""
    recall: bool = True
    """Whether copying is tried."""
    form: Form = "latents"
    """How keys and values are kept: latents that are rebuilt before rotation, or as DeepSeek-V2 does it."""
    frontier: bool = False
    """Whether all methods are measured at several shares."""
    names: TensorNames | None = None
    """Of the model's projections, where its layout is not known."""

    def __post_init__(self) -> None:
        given = [name for name in ("keep", "rank", "tolerance") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(f"--{name}" for name in given) or "none"
            raise InvalidInputError(f"expected one of --keep SHARE, --rank K and --tolerance COST, got {said}")
        if self.keep is not None and not 0 < require_number("--keep", self.keep) <= 1:
            raise InvalidInputError(f"--keep: expected a share above 0, at most 1, got {self.keep:g}")
        if self.rank is not None:
            require_int("--rank", self.rank, minimum=1)
        if self.tolerance is not None:
            require_number("--tolerance", self.tolerance, minimum=0)
        require_number("--heal", self.heal, minimum=0)
        require_int("--heal-tokens", self.heal_tokens, minimum=0)
        if self.heal and self.heal_tokens:
            raise InvalidInputError("expected --heal MINUTES or --heal-tokens N, got both")
        require_int("--context", self.context, minimum=0)

    @property
    def heals(self) -> bool:
        """Whether the new factors are trained."""
        return bool(self.heal or self.heal_tokens)
