"""What an audit of weights says, as plain data: frozen, without arrays, writable as strict JSON.

The format is named ``rankwise-audit/1``: fields may be added to it, not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.models import RunSanity
from rankwise.shapes import LatentShape
from rankwise.spec import Words, read_document, to_document, write_document

FORMAT = "rankwise-audit/1"
LATENT_NOTE = "latent attention"
"""How the note of a layer with latent attention begins."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of one form, each defined in ``rankwise.measure``."""

    numerical: int
    """Singular values above ``max(rows, columns) * 2^-23`` of the largest: what float32 can tell from zero."""
    effective: float
    stable: float
    energy_90: int
    energy_99: int


@dataclass(frozen=True)
class ChanceInterval:
    """Mean over random draws, and where all heads of a random model would lie together in 99 of 100 models."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Baseline:
    """The ranks of independent Gaussian weights of the same shapes, behind the layer's own gains."""

    draws: int
    effective: ChanceInterval
    stable: ChanceInterval
    energy_90: ChanceInterval
    energy_99: ChanceInterval


@dataclass(frozen=True)
class AtDistance:
    """The QK form of a rotary head for a key ``distance`` tokens back."""

    distance: int
    effective: float
    energy_90: int


@dataclass(frozen=True)
class HeadReport:
    """One query head: QK with its own key head, OV with its own value head."""

    head: int
    """Number of the head within its layer."""
    kv_head: int
    """The key and value head that it shares with its group."""
    qk: Ranks
    """Ranks of its query-key form."""
    qk_with_bias: Ranks | None
    """With the biases as a further input coordinate that is always 1; None where the layer has none."""
    ov: Ranks | None
    """None where the layer's values and outputs are not known."""
    qk_norm: float
    """Frobenius norm of ``scale * QK``."""
    ov_norm: float | None
    """Frobenius norm of OV; None like ``ov``."""
    at_distance: tuple[AtDistance, ...]
    """Empty without rotary positions."""
    qk_singular_values: tuple[float, ...]
    """Of QK, without ``scale``; the largest first."""
    ov_singular_values: tuple[float, ...] | None
    """The largest first; None like ``ov``."""
    qk_near_equal: tuple[tuple[int, int], ...] = ()
    """Runs of singular values of QK, each within 1 % of the next, as numbers of first and last from 1: of such a run
    only the span is identifiable, no direction in it."""
    ov_near_equal: tuple[tuple[int, int], ...] = ()
    """The same of OV."""


@dataclass(frozen=True)
class GroupReport:
    """A key head as all query heads of its group use it together: the stacked QK forms."""

    kv_head: int
    heads: tuple[int, ...]
    qk: Ranks


@dataclass(frozen=True)
class Overlap:
    """How much of the smaller of two heads' main subspaces lies in the other: mean squared cosine of principal angles.

    Subspaces hold 90 % of the form's energy. ``query`` and ``key`` are the two sides of QK (``write`` and ``read`` of
    OV); what random subspaces of the same dimensions would have stands beside.
    """

    form: str
    """``"QK"`` or ``"OV"``."""
    heads: tuple[int, int]
    left: float
    """Query side of QK, written side of OV."""
    right: float
    """Key side of QK, read side of OV."""
    left_random: float
    right_random: float
    redundant: bool
    """Both sides above one half and above chance (jointly over all pairs of the model, 1 %)."""


@dataclass(frozen=True)
class JointSpectrum:
    """Keys and values of all heads of a layer as one vector, both counting alike; what a latent of them would hold."""

    numbers: int
    """Coordinates of keys and values together, what a cache keeps per token."""
    effective: float
    energy_90: int
    """Numbers of a latent that holds 90 % of the energy."""
    energy_99: int
    singular_values: tuple[float, ...]
    """The largest first."""
    random_90: float | None = None
    """What random weights behind the same gains need for 90 %; None on texts."""
    random_99: float | None = None
    tokens: int | None = None
    """How many tokens were seen; None by weights."""


@dataclass(frozen=True)
class LayerReport:
    """One attention layer."""

    part: str
    """``"encoder"``, ``"decoder"``, ``"cross"`` (decoder to encoder); ``"layer"`` where tensors are named by hand."""
    layer: int
    """Its number within the part."""
    dim: int
    """Of the queries' input and of the output."""
    context_dim: int
    """Of the input of keys and values."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Heads of keys and values."""
    rank: int
    """Coordinates of each head's queries and keys."""
    value_rank: int
    """Coordinates of each head's values."""
    scale: float
    """What a product of query and key is multiplied by."""
    mask: str
    """``"full"``, ``"causal"`` or ``"window"``."""
    window: int | None
    """A query sees keys at distances below it: those before under the mask ``"window"``, on both sides under
    ``"full"``; None: at any distance."""
    rotary: bool
    """Whether positions enter by rotation."""
    qk_norm: bool
    """Whether each head's queries and keys are normalised."""
    folded_in: tuple[Words, ...]
    """What was multiplied into the matrices before they were measured, such as gains of norms."""
    notes: tuple[Words, ...]
    """What the numbers do not show."""
    qk_baseline: Baseline
    """Query-key ranks of random weights."""
    ov_baseline: Baseline | None
    """None where the layer's values and outputs are not known."""
    head_reports: tuple[HeadReport, ...]
    """One report per head."""
    groups: tuple[GroupReport, ...]
    """One per key head; empty where no two query heads share one."""
    pairs: int
    """How many pairs of heads were compared in each form."""
    overlaps: tuple[Overlap, ...]
    """The redundant pairs, and the closest ones of each form."""
    qk_without_gains: Baseline | None = None
    """The baseline of weights without the gains of norms; None where the layer has none, as in older reports."""
    ov_without_gains: Baseline | None = None
    """Output-value ranks of random weights without the gains of norms."""
    latent: LatentShape | None = None
    """The sizes of latent attention, None for any other and in reports written before they were kept."""

    joint: JointSpectrum | None = None
    """Keys and values as one vector, by weights; None where they are not known or have a latent, and in older
    reports."""

    @property
    def name(self) -> str:
        """``"decoder 3"``."""
        return f"{self.part} {self.layer}"


@dataclass(frozen=True)
class AttentionBaseline:
    """What a layer's mask and size alone give."""

    barrier: float
    """Mean hardmax rank of rows that pick a visible key at random."""
    barrier_without_sink: float
    random_head: float | None
    """The same for Gaussian queries and keys of the head's dimension; None where that has no closed form."""
    uniform_entropy: float


@dataclass(frozen=True)
class AttentionOfHead:
    """What one head's attention matrices are like: means over texts, and standard deviations between texts."""

    head: int
    key_head: int | None
    fixed_share: float | None
    """The share of the deviation from uniform that is the same in every text."""
    mean: dict[str, float]
    spread: dict[str, float | None]


@dataclass(frozen=True)
class AttentionOfLayer:
    """One attention block on texts."""

    index: int
    """Counts blocks in the order in which they run."""
    name: Words
    """The module's path."""
    mask: str
    """As seen on the texts: ``"full"``, ``"causal"``, ``"window"`` or ``"other"``."""
    window: int | None
    """How many of the latest keys a query sees; None unless the mask is ``"window"``."""
    cross_attention: bool
    """Whether keys come from another sequence."""
    queries: int
    """Queries per text."""
    keys: int
    """Keys per text."""
    head_dim: int | None
    """None where the model does not show its queries."""
    baseline: AttentionBaseline
    """Ranks of random attention under the same mask."""
    remark: Words | None
    """What the numbers do not show."""
    heads: tuple[AttentionOfHead, ...]
    """Ranks of each head's attention."""
    joint: JointSpectrum | None = None
    """Keys and values as one vector, on these texts; None where they are not known or have a latent, and in older
    reports."""


@dataclass(frozen=True)
class AttentionReport:
    """What the heads of a model did on texts."""

    texts: int
    tokens: int
    source: tuple[Words, ...]
    layers: tuple[AttentionOfLayer, ...]
    sanity: RunSanity | None = None
    """Whether the model was fed what it was trained on; None in reports written before that was measured."""


@dataclass(frozen=True)
class NotAudited:
    """A part of the model that was left out, and why."""

    what: Words
    reason: Words


@dataclass(frozen=True)
class AuditReport:
    """The audit of a model's weights."""

    model: Words
    """Name of the file or folder."""
    architecture: str
    """The configuration's ``model_type``."""
    file_format: str
    """``"safetensors"``, ``"gguf"``, or ``"module"`` for a model in memory."""
    storage: dict[str, int]
    """How many of the audited tensors are stored in which type; names the quantisation of a GGUF file."""
    layers: tuple[LayerReport, ...]
    """One report per attention layer."""
    not_audited: tuple[NotAudited, ...]
    """What looks like attention and was left out, with the reason."""
    notes: tuple[Words, ...]
    """What a reader of the numbers should know."""
    placement: Words | None = None
    """How sure it is that the matrices are those of the heads: ``"verified"`` where a tiny model of the architecture
    computes the scores that its weights predict, ``"by names alone"``, or which blocks are which."""
    attention: AttentionReport | None = None
    """What the heads did on texts, where the model was run."""
    context_length: int | None = None
    """The tokens that the model sees at most; None where its configuration does not say."""

    @property
    def heads(self) -> int:
        """Query heads in all layers."""
        return sum(layer.heads for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """Plain values; floats have six digits: a spectrum's seventh is noise, and the file halves."""
        return to_document(FORMAT, self, digits=6)

    def write(self, path: Path) -> None:
        """To a file."""
        write_document(self.to_json(), path)


def read_report(path: Path) -> AuditReport:
    """The report that ``AuditReport.write`` wrote."""
    return read_document(AuditReport, path, format=FORMAT, made_by="rankwise audit MODEL -o FILE")
