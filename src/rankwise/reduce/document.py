"""What ``rankwise reduce`` reports, as it is written to files and read back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rankwise.models import RunSanity
from rankwise.spec import Words, read_document, to_document

FORMAT = "rankwise-reduction/2"
_MADE_BY = "rankwise reduce MODEL ... --json > FILE"

Judgement = Literal["worth trying", "a trade", "not worth it", "not measured"]


@dataclass(frozen=True, kw_only=True)
class CostReport:
    """What a reduced model costs on the texts that measure."""

    cost: float
    """Nats per token above the original, or 1 - mean cosine to the original embeddings."""
    standard_error: float
    """Over pieces, paired with the original."""
    loss: float | None = None
    """Nats per token; None for encoders."""
    perplexity_percent: float | None = None
    """How much larger the perplexity is; None for encoders."""
    neighbours_kept: float | None = None
    """Share of texts whose nearest other text is the same; None for language models."""

    @property
    def noticed_percent(self) -> float:
        """What users notice, in percent: more perplexity, or nearest neighbours that change."""
        if self.neighbours_kept is not None:
            return 100 * (1 - self.neighbours_kept)
        assert self.perplexity_percent is not None
        return self.perplexity_percent


@dataclass(frozen=True, kw_only=True)
class Change:
    """A number of the original and of the reduced model."""

    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class TextsReport:
    """Where texts come from, and how many pieces of them did what."""

    calibration_source: tuple[str, ...]
    evaluation_source: tuple[str, ...]
    tokens: int
    """Per piece; of records, the longest."""
    calibration: int
    """Pieces that directions were learned on."""
    selection: int
    """Pieces that a share within the tolerance was chosen on; 0 where it was given."""
    evaluation: int
    """Pieces that the reported cost was measured on."""
    records: bool
    """Whether pieces are whole records, padded, and not a stream cut at one length."""


@dataclass(frozen=True, kw_only=True)
class GenerationReport:
    """Generation after a context of one length, before and after."""

    context: int
    tokens_per_second: Change
    peak_megabytes: Change | None
    """Memory that reading the context and generating took on top of the loaded model; None where it is not known."""
    cache_bytes: Change
    """Of the tensors in the cache, counted."""


@dataclass(frozen=True, kw_only=True)
class RecallReport:
    """Share of tokens that the model copies right from an earlier, random stretch of the context."""

    context: int
    accuracy: Change


@dataclass(frozen=True, kw_only=True)
class FrontierPoint:
    """One method at one share."""

    method: Literal["fisher", "activations", "weights"]
    keep: float
    parameters: int
    """Of the whole model."""
    cost: CostReport


@dataclass(frozen=True, kw_only=True)
class HealingReport:
    """What training the new factors did."""

    minutes: float
    steps: int
    tokens: int
    before: float
    """The cost on the pieces that measure, before healing."""


@dataclass(frozen=True, kw_only=True)
class LayerRanks:
    """Ranks of one block."""

    name: str
    kind: Literal["joint", "mla", "heads"]
    ranks: tuple[int, ...]
    """Of its latent, or of each key head's keys (where they are cut) and then values."""
    size: int
    """What the ranks add up to in the original."""


@dataclass(frozen=True, kw_only=True)
class Untouched:
    """Attention that was left as it is."""

    what: str
    reason: Words


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """The whole report; ``verdict`` first."""

    model: str
    """Name of the model."""
    verdict: Words
    """One sentence: what is saved, what it costs, whether that is worth it."""
    judgement: Judgement
    """The verdict's last words."""
    architecture: str
    """The configuration's ``model_type``."""
    objective: Literal["causal", "masked", "embedding"]
    """What the model was trained for."""
    method: Literal["fisher", "activations", "weights"]
    """How directions were chosen."""
    allocation: Literal["allocated", "uniform"]
    """Whether every layer keeps the same share."""
    form: Literal["latents", "mla"]
    """Latents that are rebuilt before rotation, or the form of DeepSeek-V2."""
    keep: float | None
    """The share asked for or chosen; None where a rank was given."""
    rank: int | None
    """The rank asked for; None where a share was."""
    tolerance: float | None
    """The largest cost that a chosen share may have; None where it was given."""
    parameters: Change
    """Of the whole model."""
    attention_parameters: Change
    """Of the projections that were cut."""
    cache_numbers: Change
    """Per token, of the layers that are cached; 0 for encoders."""
    kept_coordinates: Change
    """Of everything that was cut."""
    head_rank: int
    """Of the original's heads."""
    layers: tuple[LayerRanks, ...]
    """Ranks that each layer keeps."""
    not_tested: tuple[Words, ...]
    """What the numbers say nothing about."""
    warnings: tuple[Words, ...] = ()
    """What makes the numbers doubtful."""
    untouched: tuple[Untouched, ...] = ()
    """Layers that were not cut, and why."""
    sanity: RunSanity | None = None
    """Whether the texts that measure are what the original reads; None without texts."""
    original_loss: float | None = None
    """Nats per token of the original; None for encoders and without texts."""
    cost: CostReport | None = None
    """None without texts."""
    texts: TextsReport | None = None
    """Texts that taught and measured."""
    generation: GenerationReport | None = None
    """Speed and memory of generation."""
    recall: tuple[RecallReport, ...] = ()
    """Copying from the context, before and after."""
    frontier: tuple[FrontierPoint, ...] = ()
    """Costs of all methods at several shares."""
    healing: HealingReport | None = None
    """What training the factors did."""
    stored: Words | None = None
    """How the written directory keeps its numbers; None where nothing was written."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def noticed_unit(self) -> str:
        """What ``CostReport.noticed_percent`` is percent of."""
        return "% of nearest neighbours" if self.objective == "embedding" else "% more perplexity"

    @property
    def unit(self) -> str:
        """What the cost is counted in."""
        return "1 - mean cosine" if self.objective == "embedding" else "nats per token"

    def changes(self) -> list[tuple[str, Change]]:
        """What changed, in words and numbers: the rows of the table behind the verdict."""
        rows = [
            ("parameters of the model", self.parameters),
            ("of the projections that were cut", self.attention_parameters),
        ]
        if self.cache_numbers.before:
            rows.append(("cached numbers per token", self.cache_numbers))
        else:
            rows.append(("coordinates of heads", self.kept_coordinates))
        if self.generation is not None:
            of, context = self.generation, self.generation.context
            rows.append((f"bytes of the cache at {context} tokens", of.cache_bytes))
            if of.peak_megabytes is not None:
                rows.append((f"megabytes at the peak, {context} tokens", of.peak_megabytes))
            rows.append((f"tokens per second after {context} tokens", of.tokens_per_second))
        rows += [(f"copied right, {one.context} tokens", one.accuracy) for one in self.recall]
        return rows

    def to_json(self) -> dict[str, Any]:
        """The document, numbers with ten digits."""
        return to_document(FORMAT, self, digits=10)


def read_reduction(path: Path) -> Reduction:
    """The document in the regular file ``path``."""
    return read_document(Reduction, path, format=FORMAT, made_by=_MADE_BY)
