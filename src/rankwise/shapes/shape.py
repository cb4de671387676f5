"""What a transformer's attention looks like in numbers: one row of the table of models.

d dim, L layers, H heads, G key/value heads, r rank of a head's query-key form, r2 of its output-value map.
"""

from __future__ import annotations

from dataclasses import dataclass

STATE_BYTES = 2
"""Bytes of one cached number: bfloat16 or float16, as models are served."""


@dataclass(frozen=True, kw_only=True)
class LatentShape:
    """Multi-head latent attention: keys and values of all heads are read from one latent of ``keyvalue`` numbers.

    ``rope`` of a head's r query-key coordinates carry the position; that part of the key is shared by all heads.
    ``query`` is the latent of the queries, None when they are projected directly.
    """

    keyvalue: int
    rope: int
    query: int | None = None


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """The attention hyper-parameters of a model."""

    name: str
    """Name of the model."""
    dim: int
    """Dimension of the residual stream."""
    layers: int
    """Layers."""
    heads: int
    """Query heads."""
    rank: int
    """r, of each head's query-key form."""
    value_rank: int
    """r2, of each head's output-value map."""
    kv_heads: int
    """G, shared by groups of query heads; H where every head has its own keys and values."""
    cached_layers: int | None
    """Layers that keep keys and values of every token; None when it cannot be told."""
    mlp_width: int | None = None
    """Hidden width; None when it cannot be told."""
    mlp_depth: int | None = None
    """Matrices that an input passes in the MLP (2, gated or not)."""
    latent: LatentShape | None = None
    """The sizes of latent attention, None for any other."""
    year: int | None = None
    """Of publication; None when unknown."""
    note: str | None = None
    """What the row does not show."""
    source: str | None = None
    """Where the numbers of a published model are from; None for a user's model."""

    @property
    def mlp_ratio(self) -> float | None:
        """``w / d``, the MLP's width in units of the dimension."""
        return None if self.mlp_width is None else self.mlp_width / self.dim

    @property
    def rank_share(self) -> float:
        """``H r / d``: the query coordinates of all heads, in units of the dimension.

        1 is the standard scaling, at which all heads together cost as much as one of full rank.
        """
        return self.heads * self.rank / self.dim

    @property
    def parameters(self) -> int:
        """``2 (r + r2) H d`` per layer, the paper's ``4 r H d`` when r2 = r: each head with its own four matrices."""
        return 2 * (self.rank + self.value_rank) * self.heads * self.dim

    @property
    def stored_parameters(self) -> int:
        """Attention weights a layer really has: fewer when heads share keys and values, biases and norms not counted.

        Grouped heads: ``(H + G) (r + r2) d``. Latent attention: the factors on both sides of each latent.
        """
        if self.latent is None:
            return (self.heads + self.kv_heads) * (self.rank + self.value_rank) * self.dim
        queries = self.heads * self.rank
        read_queries = self.dim * queries if self.latent.query is None else (self.dim + queries) * self.latent.query
        read_latent = self.dim * (self.latent.keyvalue + self.latent.rope)
        per_head = self.rank - self.latent.rope + self.value_rank
        return (
            read_queries + read_latent + self.latent.keyvalue * self.heads * per_head
            + self.heads * self.value_rank * self.dim
        )  # fmt: skip

    @property
    def kv_bytes_per_token(self) -> int | None:
        """Bytes that hold the keys and values of one token in all layers, 2 bytes per number.

        Grouped heads keep ``G (r + r2)`` numbers per layer, latent attention its latent and the shared rope key. A
        layer with a sliding window keeps the same for each token inside the window. None when unknown.
        """
        if self.cached_layers is None:
            return None
        if self.latent is None:
            numbers = self.kv_heads * (self.rank + self.value_rank)
        else:
            numbers = self.latent.keyvalue + self.latent.rope
        return STATE_BYTES * numbers * self.cached_layers
