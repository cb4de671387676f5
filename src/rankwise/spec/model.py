"""The shape of a whole transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.spec.attention import AttentionSpec, RotarySpec, heads_for_budget
from rankwise.spec.fields import settle
from rankwise.spec.latent import LatentSpec


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A stack of ``layers`` attention blocks with free rank and heads.

    Each block is attention, then (if any) a feed-forward, both with residual and norm. With ``generalized`` set it is
    one bare layer of generalised heads instead, with ``kv_lora_rank`` set its attention is latent (MLA).
    """

    dim: int
    """D, of the vectors that go in and come out."""
    layers: int = 1
    """Layers."""
    heads: int
    """H, in every layer."""
    rank: int
    """R, of each head's query-key form; with latent attention its score coordinates without positions."""
    value_rank: int | None = None
    """V, of each head's output-value map (default: ``rank``)."""
    kv_heads: int | None = None
    """Key and value heads, shared by groups of query heads (default: H)."""
    average: int = 1
    """The paper's width multiplier: the heads are so many modules whose outputs are averaged."""
    scores: Literal["softmax", "hardmax"] = "softmax"
    """Softmax of the scores, or the largest alone."""
    temperature: Literal["fixed", "learned"] = "fixed"
    """``learned``: the scores of each head times a learned factor."""
    qk_norm: bool = False
    """RMSNorm of queries and keys, a head at a time."""
    causal: bool = False
    """Whether a token sees only itself and earlier ones."""
    window: int | None = None
    """How many tokens back a query sees, itself included (default: all)."""
    bias: bool = True
    """Whether maps have biases."""
    feedforward: int = 0
    """Hidden width of each block's feed-forward; 0: none."""
    activation: Literal["relu", "gelu"] = "relu"
    """Nonlinearity of the feed-forward layers."""
    norm: Literal["rms", "unit", "none"] = "rms"
    """``rms``: RMSNorm with a gain per coordinate; ``unit``: the paper's L2-normalisation times one learned scalar."""
    norm_place: Literal["pre", "post"] = "post"
    """``post`` normalises after the residual sum, ``pre`` before each sub-layer and once at the end."""
    residual: Literal["plain", "learned", "none"] = "plain"
    """``learned``: each attention adds to its input times one learned scalar, initially 1, and 0 in the last layer:
    what full-rank heads output is the answer, while x_i would be an error to outgrow. ``none``: the theorem's layer."""
    positions: Literal["none", "additive", "concatenated", "rotary"] = "none"
    """``additive`` and ``concatenated`` are learned tables of ``max_points`` rows."""
    position_dim: int = 0
    """Coordinates that concatenated positions add, and that the output loses again."""
    max_points: int = 0
    """The most tokens that learned positions serve."""
    init: Literal["standard", "identity", "paper"] = "standard"
    """``identity``: all layers but the last, and all feed-forwards, add nothing initially (their last matrix is 0).
    ``paper``: all layers are copies of one; positions are N(-1, 1), concatenated ones U(-1, 1), as in the authors' code
    (otherwise N(0, 1/columns))."""
    generalized: int | None = None
    """Width of the ``AdditiveScore`` of ``GeneralizedHeads``, the form that the lower bound is about."""
    kv_lora_rank: int | None = None
    """Dimension of the key-value latent (see ``LatentSpec``); queries come straight from the input."""
    rope_head_dim: int | None = None
    """Rotary score coordinates of latent attention, set exactly when positions are "rotary"."""
    score_form: Literal["low_rank", "block_low_rank", "monarch"] = "low_rank"
    """The query-key form of every head (see ``AttentionSpec``)."""
    blocks: int | None = None
    """Into how many blocks a structured form cuts the width."""

    def __post_init__(self) -> None:
        settle(self)
        require_int("layers", self.layers, minimum=1)
        require_int("dim", self.dim, minimum=1)
        for name in ("feedforward", "position_dim", "max_points"):
            require_int(name, getattr(self, name), minimum=0)
        require_choice("activation", self.activation, ("relu", "gelu"))
        require_choice("norm", self.norm, ("rms", "unit", "none"))
        require_choice("norm_place", self.norm_place, ("pre", "post"))
        require_choice("positions", self.positions, ("none", "additive", "concatenated", "rotary"))
        require_choice("init", self.init, ("standard", "identity", "paper"))
        require_choice("residual", self.residual, ("plain", "learned", "none"))
        if (self.positions == "concatenated") != (self.position_dim > 0):
            raise InvalidInputError(
                f"position_dim: expected a positive number exactly when positions='concatenated', "
                f"got positions={self.positions!r} with position_dim={self.position_dim}"
            )
        if (self.positions in ("additive", "concatenated")) != (self.max_points > 0):
            raise InvalidInputError(
                f"max_points: expected a positive number exactly when positions are learned "
                f"(additive or concatenated), got positions={self.positions!r} with max_points={self.max_points}"
            )
        self._check_generalized()
        if self.kv_lora_rank is None:
            if self.rope_head_dim is not None:
                raise InvalidInputError(f"rope_head_dim: expected none without kv_lora_rank, got {self.rope_head_dim}")
            _ = self.attention  # its own checks
        else:
            self._check_latent()

    def _check_generalized(self) -> None:
        if self.generalized is None:
            return
        require_int("generalized", self.generalized, minimum=1)
        bare = {
            "layers": 1,
            "residual": "none",
            "norm": "none",
            "feedforward": 0,
            "bias": False,
            "positions": "none",
            "scores": "softmax",
            "temperature": "fixed",
            "init": "standard",
            "score_form": "low_rank",
            "blocks": None,
        }
        self._require("with generalized heads, which are one bare layer", bare)

    def _check_latent(self) -> None:
        plain = {
            "kv_heads": None,
            "average": 1,
            "scores": "softmax",
            "temperature": "fixed",
            "qk_norm": False,
            "window": None,
            "generalized": None,
            "score_form": "low_rank",
            "blocks": None,
        }
        self._require("with latent attention (kv_lora_rank)", plain)
        if (self.positions == "rotary") != (self.rope_head_dim is not None):
            raise InvalidInputError(
                f"rope_head_dim: expected a number exactly when positions = 'rotary' with latent attention, "
                f"got positions = {self.positions!r} with rope_head_dim = {self.rope_head_dim}"
            )
        _ = self.latent  # its own checks

    def _require(self, where: str, only: dict[str, Any]) -> None:
        for name, value in only.items():
            if getattr(self, name) != value:
                raise InvalidInputError(f"{name}: expected {value!r} {where}, got {getattr(self, name)!r}")

    @property
    def width(self) -> int:
        """The dimension inside the stack: ``dim`` plus what concatenated positions add."""
        return self.dim + self.position_dim

    @property
    def latent(self) -> LatentSpec | None:
        """The latent attention of every layer, if that is what it is."""
        if self.kv_lora_rank is None:
            return None
        return LatentSpec(
            dim=self.width,
            heads=self.heads,
            q_lora_rank=None,
            kv_lora_rank=self.kv_lora_rank,
            qk_nope_head_dim=self.rank,
            qk_rope_head_dim=self.rope_head_dim or 0,
            v_head_dim=self.rank if self.value_rank is None else self.value_rank,
            causal=self.causal,
            bias=self.bias,
        )

    @property
    def attention(self) -> AttentionSpec:
        """The ordinary attention of every layer (with ``kv_lora_rank``: the one that it replaces)."""
        return AttentionSpec(
            dim=self.width,
            heads=self.heads,
            rank=self.rank,
            value_rank=self.value_rank,
            kv_heads=self.kv_heads,
            scores=self.scores,
            temperature=self.temperature,
            qk_norm=self.qk_norm,
            rope=RotarySpec() if self.positions == "rotary" else None,
            causal=self.causal,
            window=self.window,
            bias=self.bias,
            average=self.average,
            score_form=self.score_form,
            blocks=self.blocks,
        )

    @classmethod
    def from_budget(cls, *, dim: int, rank: int, exponent: float, **fields: Any) -> ModelSpec:
        """The paper's budgets: ``heads = dim**exponent / rank`` for exponent 1, 1.5 or 2."""
        return cls(dim=dim, rank=rank, heads=heads_for_budget(dim, rank, exponent), **fields)

    def parameters(self) -> int:
        """Number of trainable scalars, counted without building anything."""
        W, F = self.width, self.feedforward
        if self.generalized is not None:
            score = (2 * self.rank + self.dim + 2) * self.generalized
            return self.heads * (self.dim * self.rank + 1 + score)
        norm = {"rms": W, "unit": 1, "none": 0}[self.norm]
        mlp = 2 * W * F + (F + W if self.bias else 0) if F else 0
        norms_a_layer = 1 + (F > 0)
        layer = (self.latent or self.attention).parameters() + mlp + norms_a_layer * norm
        final = norm if self.norm_place == "pre" else 0
        table = self.max_points * (self.position_dim or self.dim)
        return self.layers * (layer + (self.residual == "learned")) + final + table
