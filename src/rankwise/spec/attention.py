"""The shape of an attention layer in which every size is free.

Nothing here derives ``rank`` from ``dim // heads``; ``AttentionSpec.standard`` does it when asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from rankwise.errors import InvalidInputError, require_choice, require_int, require_number


@dataclass(frozen=True, kw_only=True)
class RotarySpec:
    """Rotary positions: frequency pairs rotate by ``position * base**(-2i/dims)``.

    ``dims`` is how many of the rank's coordinates rotate (all by default, must be even).
    ``interleaved`` pairs neighbours (2i, 2i+1); otherwise (i, i + dims/2), as Llama does.
    ``frequencies`` says instead by how much each pair turns a position: one row for all heads, or one per key head (a
    head that has lost some of its pairs keeps the frequencies of the others); ``base`` and ``dims`` then say nothing.
    """

    base: float = 10_000.0
    dims: int | None = None
    interleaved: bool = False
    frequencies: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.base, bool) or not isinstance(self.base, int | float) or not 1 < self.base < float("inf"):
            raise InvalidInputError(f"rope.base: expected a finite number above 1, got {self.base!r}")
        if self.dims is not None and require_int("rope.dims", self.dims, minimum=2) % 2:
            raise InvalidInputError(f"rope.dims: expected an even number (they rotate in pairs), got {self.dims}")
        if self.frequencies is not None:
            self._require_frequencies(self.frequencies)

    def _require_frequencies(self, rows: tuple[tuple[float, ...], ...]) -> None:
        if self.dims is not None:
            raise InvalidInputError(f"rope.dims: expected None where frequencies are given, got {self.dims}")
        if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
            raise InvalidInputError("rope.frequencies: expected rows of one length of at least 1, got none or several")
        for row in rows:
            for value in row:
                require_number("rope.frequencies", value)

    def rotated(self, rank: int) -> int:
        """How many of ``rank`` coordinates rotate."""
        dims = rank if self.dims is None else self.dims
        if self.frequencies is not None:
            dims = 2 * len(self.frequencies[0])
        if dims > rank or dims % 2:
            raise InvalidInputError(
                f"rope: {dims} rotating coordinates do not fit rank {rank}; "
                f"expected an even number of at most {rank}: choose an even rank or set rope.dims"
            )
        return dims


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """One multi-head attention layer: ``sum_h W_O,h W_V,h X phi(X^T W_K,h^T W_Q,h y)``.

    With a structured ``score_form`` the d x d form ``W_Q^T W_K`` of a head is of full rank at a fraction of the weights
    (``rankwise.nn.structured`` has the formulas).
    """

    dim: int
    """D, of queries and output."""
    heads: int
    """H, of queries."""
    rank: int
    """R, of each query-key form; of its low-rank pieces where ``score_form`` is structured."""
    value_rank: int | None = None
    """V, of each output-value map (default: ``rank``)."""
    kv_heads: int | None = None
    """G, each shared by H/G query heads (default: H)."""
    context_dim: int | None = None
    """C, of what keys and values are read from (default: D)."""
    scores: Literal["softmax", "hardmax"] = "softmax"
    """phi; ``hardmax`` is one-hot at the largest score, the first of equal ones."""
    temperature: Literal["fixed", "learned"] = "fixed"
    """``learned``: the scores of each head times a learned factor."""
    qk_norm: bool = False
    """RMSNorm of each head's queries and keys."""
    rope: RotarySpec | None = None
    """Rotary positions (default: none)."""
    causal: bool = False
    """Whether a token sees only itself and earlier ones."""
    window: int | None = None
    """Query i sees keys j with ``|i - j| < window`` (default: all)."""
    bias: bool = True
    """Of every projection."""
    average: int = 1
    """A: the heads are A equal modules whose outputs (each with its own output bias) are averaged, as in the paper's
    experiments; 1 is the plain sum."""
    score_form: Literal["low_rank", "block_low_rank", "monarch"] = "low_rank"
    """The query-key form of a head, cut into tiles along ``blocks`` equal parts of D and of C:

    - ``low_rank``: any matrix of rank R;
    - ``block_low_rank``: any matrix on each diagonal tile, plus one of rank R over all tiles;
    - ``monarch``: a product of two block-diagonal factors, whose C tiles D/b x b have rank R each."""
    blocks: int | None = None
    """b, of a structured form; divides D and C (default: none, where the form is ``low_rank``)."""
    dropout: float = 0.0
    """The share of attention weights that are set to zero in training."""

    def __post_init__(self) -> None:
        for name in ("dim", "heads", "rank", "average"):
            require_int(name, getattr(self, name), minimum=1)
        for name in ("value_rank", "kv_heads", "context_dim", "window"):
            if getattr(self, name) is not None:
                require_int(name, getattr(self, name), minimum=1)
        require_dropout(self.dropout)
        require_choice("scores", self.scores, ("softmax", "hardmax"))
        require_choice("temperature", self.temperature, ("fixed", "learned"))
        for name in ("qk_norm", "causal", "bias"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.heads % self.key_heads:
            raise InvalidInputError(
                f"kv_heads: expected a divisor of heads={self.heads}, got {self.kv_heads} "
                f"(each key head serves the same number of query heads)"
            )
        if self.heads % self.average:
            raise InvalidInputError(f"average: expected a divisor of heads={self.heads}, got {self.average}")
        self._check_score_form()
        if self.rope is not None:
            self.rope.rotated(self.score_dim)
            rows = self.rope.frequencies
            if rows is not None and len(rows) not in (1, self.key_heads):
                raise InvalidInputError(
                    f"rope.frequencies: expected one row, or one for each of {self.key_heads} key heads, "
                    f"got {len(rows)}"
                )

    def _check_score_form(self) -> None:
        require_choice("score_form", self.score_form, ("low_rank", "block_low_rank", "monarch"))
        if (self.blocks is None) != (self.score_form == "low_rank"):
            raise InvalidInputError(
                f"blocks: expected a number exactly when score_form is structured, "
                f"got score_form={self.score_form!r} with blocks={self.blocks}"
            )
        if self.blocks is not None:
            require_int("blocks", self.blocks, minimum=1)
            if self.dim % self.blocks or self.source_dim % self.blocks:
                raise InvalidInputError(
                    f"blocks: expected a divisor of dim={self.dim} and of context_dim={self.source_dim}, "
                    f"got {self.blocks}"
                )

    @property
    def score_dim(self) -> int:
        """The coordinates of a head's query and key: R, or those of a structured form."""
        if self.score_form == "monarch":
            return self.rank * self.source_dim
        return self.rank if self.score_form == "low_rank" else self.rank + self.source_dim

    def score_shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights that make queries and keys, by their names in the layer."""
        D, C, H, G, R, b = self.dim, self.source_dim, self.heads, self.key_heads, self.rank, self.blocks
        if b is None:
            return {"q_weight": (H, R, D), "k_weight": (G, R, C)}
        if self.score_form == "monarch":
            return {"q_weight": (H, b, R * (C // b), D // b), "k_weight": (G, C // b, R * b, b)}
        return {"q_weight": (H, R, D), "k_weight": (G, R, C), "block_weight": (H, b, C // b, D // b)}

    @property
    def value_dim(self) -> int:
        """V, the rank of each output-value map."""
        return self.rank if self.value_rank is None else self.value_rank

    @property
    def key_heads(self) -> int:
        """G, the number of key/value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def source_dim(self) -> int:
        """C, the dimension of the context that keys and values are read from."""
        return self.dim if self.context_dim is None else self.context_dim

    @classmethod
    def standard(cls, *, dim: int, heads: int) -> AttentionSpec:
        """The universal habit ``rank = dim / heads``, asked for by name."""
        require_int("dim", dim, minimum=1)
        require_int("heads", heads, minimum=1)
        if dim % heads:
            raise InvalidInputError(
                f"heads: expected a divisor of dim={dim} for the standard scaling, got {heads}; name the rank"
            )
        return cls(dim=dim, heads=heads, rank=dim // heads)

    def parameters(self) -> int:
        """Number of trainable scalars, counted without building anything."""
        D, C, H, G, S, V = self.dim, self.source_dim, self.heads, self.key_heads, self.score_dim, self.value_dim
        weights = sum(map(math.prod, self.score_shapes().values())) + G * V * C + H * V * D
        biases = (H * S + G * S + G * V + self.average * D) if self.bias else 0
        temperatures = H if self.temperature == "learned" else 0
        gains = 2 * S if self.qk_norm else 0
        return weights + biases + temperatures + gains


def require_dropout(dropout: float) -> None:
    """A share from 0 to below 1."""
    if require_number("dropout", dropout, minimum=0.0) >= 1:
        raise InvalidInputError(f"dropout: expected a number from 0 to below 1, got {dropout!r}")


def heads_for_budget(dim: int, rank: int, exponent: float) -> int:
    """The paper's head budgets: ``H = dim**exponent / rank`` (exponent 1, 1.5 or 2 in its Figure 1).

    Exponent 1 is the standard scaling; the figure labels a curve by ``dim**(1 + exponent)``.
    """
    require_int("dim", dim, minimum=1)
    require_int("rank", rank, minimum=1)
    total = float(dim**exponent)
    heads = round(total / rank)
    if heads < 1 or abs(heads * rank - total) > 1e-6 * total:
        raise InvalidInputError(
            f"heads = dim**{exponent:g} / rank = {total:.6g} / {rank} = {total / rank:.6g} is not a whole number; "
            f"choose a rank that divides {total:.6g}"
        )
    return heads
