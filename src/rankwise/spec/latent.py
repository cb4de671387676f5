"""The shape of a multi-head latent attention layer (MLA), in the names its published configurations use."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankwise.errors import InvalidInputError, require_int
from rankwise.spec.attention import RotarySpec, require_dropout


@dataclass(frozen=True, kw_only=True)
class LatentSpec:
    """Keys and values of all H heads are read from one small latent per token, as in DeepSeek-V2 and V3."""

    dim: int
    """D, of input and output."""
    heads: int
    """Query heads."""
    q_lora_rank: int | None
    """Dimension of the query latent; None: queries come straight from the input, as in DeepSeek-V2-Lite."""
    kv_lora_rank: int
    """Dimension of the key-value latent."""
    qk_nope_head_dim: int
    """Score coordinates per head without positions."""
    qk_rope_head_dim: int
    """Rotary score coordinates per head; all heads share their key. 0: no positions at all."""
    v_head_dim: int
    """Dimension of each head's values."""
    rope: RotarySpec = field(default_factory=lambda: RotarySpec(interleaved=True))
    """How the rotary coordinates turn (default: neighbours in pairs)."""
    causal: bool = False
    """Whether a token sees only itself and earlier ones."""
    bias: bool = False
    """Of the down- and output projections; an up-projection never has one."""
    norm_eps: float = 1e-6
    """Of the RMSNorms of the two latents."""
    dropout: float = 0.0
    """The share of attention weights that are set to zero in training."""

    def __post_init__(self) -> None:
        for name in ("dim", "heads", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim"):
            require_int(name, getattr(self, name), minimum=1)
        if self.q_lora_rank is not None:
            require_int("q_lora_rank", self.q_lora_rank, minimum=1)
        require_int("qk_rope_head_dim", self.qk_rope_head_dim, minimum=0)
        if not isinstance(self.rope, RotarySpec):
            raise InvalidInputError(f"rope: expected a RotarySpec, got {self.rope!r}")
        if self.rope.frequencies is not None:
            raise InvalidInputError("rope.frequencies: expected None in latent attention, whose heads share a key")
        if self.qk_rope_head_dim % 2 and self.rope.dims is None:
            raise InvalidInputError(
                f"qk_rope_head_dim: expected an even number (they rotate in pairs), got {self.qk_rope_head_dim}"
            )
        self.rope.rotated(self.qk_rope_head_dim)
        for name in ("causal", "bias"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        require_dropout(self.dropout)
        eps = self.norm_eps
        if isinstance(eps, bool) or not isinstance(eps, int | float) or not 0 <= eps < float("inf"):
            raise InvalidInputError(f"norm_eps: expected a finite number of at least 0, got {eps!r}")

    @classmethod
    def deepseek_v3(cls, *, causal: bool = True) -> LatentSpec:
        """DeepSeek-V3's layer: score dimension 128 + 64 = 192, H x 192 = 3.4 D."""
        return cls(
            dim=7168,
            heads=128,
            q_lora_rank=1536,
            kv_lora_rank=512,
            qk_nope_head_dim=128,
            qk_rope_head_dim=64,
            v_head_dim=128,
            causal=causal,
        )

    @property
    def score_dim(self) -> int:
        """Coordinates of a head's query and key, nope + rope; its pre-softmax scores have at most this rank."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def query_source_dim(self) -> int:
        """Dimension that queries are projected up from: the query latent's, or D without one."""
        return self.dim if self.q_lora_rank is None else self.q_lora_rank

    @property
    def cached_per_token(self) -> int:
        """Scalars that decoding keeps per token and layer: the key-value latent and the shared rope key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    def cache_bytes_per_token(self, bytes_per_scalar: int = 2) -> int:
        """Size of that cache per token and layer; two bytes are bfloat16. DeepSeek-V3: 1152."""
        return self.cached_per_token * require_int("bytes_per_scalar", bytes_per_scalar, minimum=1)

    def parameters(self) -> int:
        """Number of trainable scalars, counted without building anything."""
        D, H, L = self.dim, self.heads, self.kv_lora_rank
        down = D * self.cached_per_token + L
        if self.q_lora_rank is not None:
            down += D * self.q_lora_rank + self.q_lora_rank
        up = H * self.score_dim * self.query_source_dim + H * (self.qk_nope_head_dim + self.v_head_dim) * L
        biases = (self.q_lora_rank or 0) + self.cached_per_token + D if self.bias else 0
        return down + up + H * self.v_head_dim * D + biases
