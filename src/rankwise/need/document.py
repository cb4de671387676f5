"""``rankwise-need/1``: a measured need as plain data, written as JSON and read back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError
from rankwise.models import RunSanity
from rankwise.spec import Words, read_document, to_document, write_document

FORMAT = "rankwise-need/1"


@dataclass(frozen=True, kw_only=True)
class NeedPoint:
    """One rank of a family of forms; ``form`` says where the form came from. Intervals are of 95 %."""

    rank: int
    form: str
    error: float
    error_low: float
    error_high: float
    recall: float
    recall_low: float
    recall_high: float


@dataclass(frozen=True, kw_only=True)
class IsotropicPoint:
    """Beside a rank: the isotropic error among as many candidates, and the bound for two points and H heads."""

    rank: int
    error: float
    standard_error: float
    bound: float


@dataclass(frozen=True, kw_only=True)
class CandidatesNeed:
    """The need with another number of candidates, by the same forms."""

    candidates: int
    need: int
    need_isotropic: int


@dataclass(frozen=True, kw_only=True)
class IntrinsicDimensions:
    """Participation ratios of the covariances; 0 where all vectors are equal."""

    keys: float
    queries: float


@dataclass(frozen=True, kw_only=True)
class HeadNeed:
    """The smallest rank at which a head's own choice survives, by three criteria (see ``per_head``)."""

    head: int
    rank: int
    """Of the head, the most that it can need."""
    top: int
    """Its most attended key."""
    several: int
    """Its four most attended keys."""
    attention: int
    """Its attention, within a total variation."""


@dataclass(frozen=True, kw_only=True)
class NeedMeasurement:
    """The need of one set of vectors, with its interval.

    ``need`` is the smallest rank with an error of at most the target. Its interval comes from the bootstrap interval of
    the error: the smallest ranks whose lower and upper ends meet the target.
    """

    name: Words
    """What was measured."""
    dim: int
    """Dimension of the vectors."""
    keys: int
    """Number of keys."""
    queries: int
    """Number of queries."""
    own_queries: bool
    """Whether the keys serve as queries too; False where queries were given."""
    candidates: int
    """Keys that a query chooses among."""
    need: int
    """By the best forms."""
    need_low: int
    """Lower end of the need's interval."""
    need_high: int
    """Upper end of the need's interval."""
    need_svd: int
    """By query-weighted SVD without training."""
    need_pca: int
    """By the principal components of the keys."""
    need_random: int
    """By random projections."""
    need_isotropic: int
    """Of isotropic vectors of the same dimension among as many candidates."""
    participation_ratio: IntrinsicDimensions
    """Of keys and of queries."""
    by_candidates: tuple[CandidatesNeed, ...]
    """The need with other numbers of candidates."""
    curves: dict[str, tuple[NeedPoint, ...]]
    """By family of forms: best, svd, pca, random."""
    isotropic: tuple[IsotropicPoint, ...]
    """The worst case beside the curves, rank by rank."""
    notes: tuple[Words, ...]
    """What a reader of the numbers should know."""
    heads: tuple[HeadNeed, ...] = ()
    """What the block's own heads need, where a model was measured that shows its queries and keys."""

    def __post_init__(self) -> None:
        if not 1 <= self.need_low <= self.need <= self.need_high <= self.dim:
            raise InvalidInputError(
                f"need: expected 1 <= need_low <= need <= need_high <= dim, got "
                f"{(self.need_low, self.need, self.need_high, self.dim)}"
            )
        if missing := {"best", "svd", "pca", "random"} - set(self.curves):
            raise InvalidInputError(f"curves.{min(missing)}: missing, expected a list of points")


@dataclass(frozen=True, kw_only=True)
class NeedAsked:
    """What was asked."""

    target: float
    candidates: int
    similarity: str
    heads: int
    steps: int
    seed: int
    bootstrap: int
    confidence: float


@dataclass(frozen=True, kw_only=True)
class NeedSource:
    """Where the vectors came from: files of vectors, or a model's attention inputs on texts."""

    kind: str
    """``"vectors"`` of files or memory, or ``"attention inputs"`` of a model."""
    keys: Words | None = None
    """Name of the file of keys; None, as the next three, for a model."""
    keys_in_file: int | None = None
    """Rows in that file, of which some may have been drawn."""
    queries: Words | None = None
    """File of the queries."""
    queries_in_file: int | None = None
    """Rows in that file, of which some may have been drawn."""
    model: Words | None = None
    """Name of the model."""
    text: tuple[Words, ...] | None = None
    """Names of the texts."""
    texts: int | None = None
    """Pieces of text."""
    tokens_each: int | None = None
    """Tokens of a piece."""


@dataclass(frozen=True, kw_only=True)
class NeedReport:
    """All that was measured, and from what."""

    rankwise: str
    """The version that measured it."""
    source: NeedSource
    settings: NeedAsked
    measurements: tuple[NeedMeasurement, ...]
    sanity: RunSanity | None = None
    """Where a model was run: whether it was fed what it was trained on."""

    def __post_init__(self) -> None:
        if not self.measurements:
            raise InvalidInputError("measurements: expected at least one, got none")
        dims = {one.dim for one in self.measurements}
        if len(dims) > 1:
            raise InvalidInputError(f"measurements: expected vectors of one dimension, got {sorted(dims)}")

    @property
    def most_demanding(self) -> NeedMeasurement:
        """The measurement with the largest need."""
        return max(self.measurements, key=lambda one: one.need)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return to_document(FORMAT, self)

    def write(self, path: Path) -> None:
        """To a file."""
        write_document(self.to_json(), path)


def read_need(path: Path) -> NeedReport:
    """The report that ``NeedReport.write`` wrote."""
    return read_document(NeedReport, path, format=FORMAT, made_by="rankwise need ... -o FILE")
