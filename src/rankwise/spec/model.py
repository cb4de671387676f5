"""The shape of a whole transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from rankwise.errors import InvalidInputError, require_choice, require_int, require_number
from rankwise.spec.attention import AttentionSpec, RotarySpec, heads_for_budget
from rankwise.spec.fields import settle
from rankwise.spec.latent import LatentSpec


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A stack of ``layers`` attention blocks with free rank and heads.

    ``feedforward`` is the hidden width of each block's MLP (0: none). ``norm`` "rms" is RMSNorm with a gain a
    coordinate, "unit" the paper's L2-normalisation times one learned scalar, "none" no normalisation;
    ``norm_place`` "post" normalises after the residual sum, "pre" before each sub-layer and once at the end.
    ``positions`` "additive" and "concatenated" are learned tables of ``max_points`` rows; the concatenated one adds
    ``position_dim`` coordinates, which the output loses again, and starts at U(-1, 1) times ``position_gain`` (unset:
    1): without norms rows so long drown unit points. ``average`` is the paper's width multiplier (see
    ``AttentionSpec``). ``residual`` off leaves the bare layer of the theorem; ``last_residual`` off leaves the
    residual out around the last attention alone, so that the output is what those heads bring and nothing of the
    token itself; ``last_residual_start`` gives it one learned weight that starts there; ``output_map`` adds one
    ``dim x dim`` linear map at the end. ``init`` "paper" starts all layers as copies of one and additive positions
    at N(-1, 1), as the authors' code does. ``output_gain`` multiplies the last layer's W_O at the start: in front
    of a post-norm the attention output must outgrow the residual, whose share of the error is about 1/gain^2.
    ``branch_gain`` multiplies all other branches at the start (W_O of earlier layers, every feed-forward's last
    matrix): near 0 the earlier layers begin as the identity. ``feedforward_gain`` multiplies every feed-forward's first
    matrix at the start, whose biases start at 0: with hidden units so much larger the last matrix moves the output
    faster, and their directions, which need as much more of a step, move slower.
    ``final_gain`` is what the gains of the last norm start at (unset: 1): with "rms" outputs have length
    ``final_gain * sqrt(width)``, so dim**-0.5 starts at the length of unit targets.
    ``head_init`` "farthest" starts the last layer's heads as searches for the farthest point in a random subspace of
    ``rank`` dimensions (``nn.head_starts``) instead of at random: a start that knows the task, to be named with any
    number that comes from it. "shared" leaves their queries and keys random, and lets heads start in groups that
    bring the same coordinates. "address" starts all layers but the last so: all heads bring the same coordinates, half
    of them with the other sign, queries and keys random (whatever ``branch_gain`` is).

    ``generalized`` replaces the transformer by ``GeneralizedHeads`` (scaled-identity values) with a pooled
    ``AdditiveScore`` of that width, the form the lower bound is about: one bare layer, nothing else.

    ``kv_lora_rank`` replaces ordinary by latent attention (MLA, see ``LatentSpec``) with a key-value latent of that
    dimension: ``rank`` score coordinates a head without positions, ``rope_head_dim`` more with rotary ones (set exactly
    when positions are "rotary"), ``value_rank`` (default: ``rank``) value coordinates, queries straight from the input.
    """

    dim: int
    layers: int = 1
    heads: int
    rank: int
    value_rank: int | None = None
    kv_heads: int | None = None
    average: int = 1
    scores: Literal["softmax", "hardmax"] = "softmax"
    temperature: Literal["fixed", "learned"] = "fixed"
    qk_norm: bool = False
    causal: bool = False
    window: int | None = None
    bias: bool = True
    feedforward: int = 0
    activation: Literal["relu", "gelu"] = "relu"
    norm: Literal["rms", "unit", "none"] = "rms"
    norm_place: Literal["pre", "post"] = "post"
    residual: bool = True
    last_residual: bool | None = None
    last_residual_start: float | None = None
    positions: Literal["none", "additive", "concatenated", "rotary"] = "none"
    position_dim: int = 0
    position_gain: float | None = None
    max_points: int = 0
    output_map: bool = False
    init: Literal["standard", "paper"] = "standard"
    output_gain: float | None = None
    branch_gain: float | None = None
    feedforward_gain: float | None = None
    final_gain: float | None = None
    head_init: Literal["farthest", "shared", "address"] | None = None
    generalized: int | None = None
    kv_lora_rank: int | None = None
    rope_head_dim: int | None = None

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
        require_choice("init", self.init, ("standard", "paper"))
        for name in ("residual", "output_map"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.last_residual is not None and not (self.last_residual is False and self.residual):
            raise InvalidInputError(
                f"last_residual: expected false or nothing, and nothing without a residual, got {self.last_residual!r} "
                f"with residual={self.residual!r}"
            )
        if self.last_residual_start is not None and not (self.residual and self.last_residual is None):
            raise InvalidInputError(
                f"last_residual_start: expected a last residual to weigh, got last_residual={self.last_residual!r} "
                f"with residual={self.residual!r}"
            )
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
        if self.position_gain is not None and self.positions != "concatenated":
            raise InvalidInputError(
                f"position_gain: expected none unless positions='concatenated', got {self.position_gain:g} with "
                f"positions={self.positions!r}"
            )
        if self.feedforward_gain is not None and not self.feedforward:
            raise InvalidInputError(
                f"feedforward_gain: expected none without a feed-forward, got {self.feedforward_gain:g}"
            )
        for name in ("output_gain", "final_gain", "position_gain", "feedforward_gain"):
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name), above=0)
        if self.branch_gain is not None:
            require_number("branch_gain", self.branch_gain, minimum=0)
        if self.final_gain is not None and self.norm == "none":
            raise InvalidInputError(f"final_gain: expected none without a norm, got {self.final_gain:g}")
        self._check_head_init()
        self._check_generalized()
        if self.kv_lora_rank is None:
            if self.rope_head_dim is not None:
                raise InvalidInputError(f"rope_head_dim: expected none without kv_lora_rank, got {self.rope_head_dim}")
            _ = self.attention  # its own checks
        else:
            self._check_latent()

    def _check_head_init(self) -> None:
        if self.head_init is None:
            return
        require_choice("head_init", self.head_init, ("farthest", "shared", "address"))
        if self.kv_heads not in (None, self.heads) or self.kv_lora_rank is not None:
            raise InvalidInputError(
                f"head_init: expected as many key heads as heads and no latent keys with head_init={self.head_init!r}, "
                f"got kv_heads={self.kv_heads}, kv_lora_rank={self.kv_lora_rank}"
            )
        if self.head_init == "farthest" and self.temperature != "learned":
            raise InvalidInputError(
                f"head_init: expected a learned temperature with head_init='farthest', which sets it, "
                f"got temperature={self.temperature!r}"
            )
        if self.head_init == "address" and (self.layers < 2 or self.heads < 2):
            raise InvalidInputError(
                f"head_init: expected at least two layers of at least two heads with head_init='address', "
                f"got layers={self.layers}, heads={self.heads}"
            )

    def _check_generalized(self) -> None:
        if self.generalized is None:
            return
        require_int("generalized", self.generalized, minimum=1)
        bare = {
            "layers": 1,
            "residual": False,
            "last_residual": None,
            "last_residual_start": None,
            "norm": "none",
            "feedforward": 0,
            "bias": False,
            "output_map": False,
            "positions": "none",
            "scores": "softmax",
            "temperature": "fixed",
            "output_gain": None,
            "branch_gain": None,
            "final_gain": None,
            "head_init": None,
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
        output = self.dim * self.dim + (self.dim if self.bias else 0) if self.output_map else 0
        return self.layers * layer + final + table + output + (self.last_residual_start is not None)
