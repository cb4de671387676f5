"""A transformer between a read-in and a read-out, for tasks whose examples are token sequences.

Legend: B batch, N tokens, F features, O outputs, D dim, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn.cache import TokenCache
from rankwise.nn.transformer import Transformer
from rankwise.spec import ModelSpec, TokenInterface


class TokenModel(nn.Module):
    """``read_out(transformer(read_in(tokens)))``, or the read-out of the mean over tokens where the task is pooled.

    Read-in is a linear map of F features or a table of ids, whose rows start at length about 1 as learned positions do;
    read-out is linear. Mask and positions are the transformer's own (``ModelSpec.causal``, ``ModelSpec.positions``).
    """

    def __init__(
        self,
        interface: TokenInterface,
        spec: ModelSpec,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.interface, self.spec = interface, spec
        self.read_in: nn.Linear | None = None
        self.embedding: nn.Embedding | None = None
        if interface.vocabulary is None:
            assert interface.features is not None
            self.read_in = nn.Linear(interface.features, spec.dim, device=device, dtype=dtype)
        else:
            self.embedding = nn.Embedding(interface.vocabulary, spec.dim, device=device, dtype=dtype)
            nn.init.normal_(self.embedding.weight, 0.0, spec.dim**-0.5)
        self.transformer = Transformer(spec, device=device, dtype=dtype)
        self.read_out = nn.Linear(spec.dim, interface.outputs, device=device, dtype=dtype)

    @overload
    def forward(
        self,
        tokens: Shaped[Tensor, "..."],
        *,
        cache: Sequence[TokenCache] | None = None,
        return_weights: Literal[False] = False,
    ) -> Float[Tensor, "B ..."]: ...

    @overload
    def forward(
        self,
        tokens: Shaped[Tensor, "..."],
        *,
        cache: Sequence[TokenCache] | None = None,
        return_weights: Literal[True],
    ) -> tuple[Float[Tensor, "B ..."], list[Float[Tensor, "B H N N"]]]: ...

    def forward(
        self,
        tokens: Shaped[Tensor, "..."],
        *,
        cache: Sequence[TokenCache] | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """``tokens`` [B, N, F] numbers or [B, N] ids -> [B, N, O], or [B, O] where pooled.

        - ``cache``: the earlier tokens of a causal model, to which ``tokens`` are added (``transformer.new_cache``).
        - ``return_weights`` adds the attention matrices of every layer, [B, H, N, N] each.
        """
        if cache is not None and self.interface.pooled:
            raise InvalidInputError("cache: expected a task with one output per token, got one that takes their mean")
        x = self._read(tokens)
        weights: list[Tensor] = []
        if return_weights:
            x, weights = self.transformer(x, cache=cache, return_weights=True)
        else:
            x = self.transformer(x, cache=cache)
        output: Tensor = self.read_out(x.mean(dim=1) if self.interface.pooled else x)
        return (output, weights) if return_weights else output

    def _read(self, tokens: Tensor) -> Float[Tensor, "B N D"]:
        if self.embedding is not None:
            if tokens.ndim != 2 or tokens.is_floating_point():
                raise ShapeError(f"tokens: expected ids [batch, tokens], got {tokens.dtype} {list(tokens.shape)}")
            return self.embedding(tokens)
        assert self.read_in is not None
        if tokens.ndim != 3 or tokens.shape[2] != self.interface.features:
            raise ShapeError(
                f"tokens: expected [batch, tokens, features={self.interface.features}], got {list(tokens.shape)}"
            )
        return self.read_in(tokens)
