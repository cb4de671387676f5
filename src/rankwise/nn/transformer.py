"""A transformer whose rank and number of heads are set freely.

Legend: B batch, N points, Q queries, D dim, W = D + position_dim the width inside, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.cache import TokenCache
from rankwise.nn.feedforward import FeedForward
from rankwise.nn.latent import LatentAttention
from rankwise.nn.norms import build_norm
from rankwise.spec import ModelSpec


class Block(nn.Module):
    """Attention, then (if any) feed-forward, each with residual and norm: ``norm(x + f(x))`` or ``x + f(norm(x))``."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        last: bool,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.pre, self.residual = spec.norm_place == "pre", spec.residual != "none"
        self.register_parameter("residual_weight", None)
        if spec.residual == "learned":
            start = torch.full((), 0.0 if last else 1.0, device=device, dtype=dtype)
            self.residual_weight = nn.Parameter(start)
        self.attention = _build_attention(spec, device, dtype)
        self.attention_norm = build_norm(spec.norm, spec.width, device=device, dtype=dtype)
        self.feedforward = FeedForward(spec, device=device, dtype=dtype) if spec.feedforward else None
        self.feedforward_norm = (
            build_norm(spec.norm, spec.width, device=device, dtype=dtype) if spec.feedforward else None
        )

    def forward(
        self,
        x: Float[Tensor, "B Q W"],
        context: Float[Tensor, "B N W"] | None,
        cache: TokenCache | None,
        return_weights: bool,
    ) -> tuple[Float[Tensor, "B Q W"], Float[Tensor, "B H Q N"] | None]:
        inner = self.attention_norm(x) if self.pre else x
        weights = None
        inputs = (inner,) if context is None else (inner, context)
        if return_weights:
            change, weights = self.attention(*inputs, cache=cache, return_weights=True)
        else:
            change = self.attention(*inputs, cache=cache)
        kept = x if self.residual_weight is None else x * self.residual_weight
        x = self._joined(kept if self.residual else None, change, self.attention_norm)
        if self.feedforward is not None and self.feedforward_norm is not None:
            inner = self.feedforward_norm(x) if self.pre else x
            change = self.feedforward(inner, twice_differentiable=return_weights)
            x = self._joined(x if self.residual else None, change, self.feedforward_norm)
        return x, weights

    def _joined(self, x: Tensor | None, change: Tensor, norm: nn.Module) -> Tensor:
        joined = change if x is None else x + change
        return joined if self.pre else norm(joined)


class Transformer(nn.Module):
    """The model that a ``ModelSpec`` describes; called like the layer.

    ``model(points)`` is a stack of self-attention. ``model(queries, points)`` is a stack of cross-attention: each
    layer lets the queries attend to the points, which stay as they are (the setting of the theorem and of the
    two-layer construction). Learned positions belong to the points; queries get none (zeros where concatenated).
    """

    def __init__(
        self, spec: ModelSpec, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.spec = spec
        layers = range(1, spec.layers + 1)
        self.blocks = nn.ModuleList(Block(spec, last=n == spec.layers, device=device, dtype=dtype) for n in layers)
        last = spec.norm_place == "pre"
        self.final_norm = build_norm(spec.norm if last else "none", spec.width, device=device, dtype=dtype)
        if spec.max_points:
            columns = spec.position_dim or spec.dim
            self.positions = nn.Parameter(torch.empty(spec.max_points, columns, device=device, dtype=dtype))
        else:
            self.register_parameter("positions", None)
        self._start()

    @overload
    def forward(
        self,
        tokens: Float[Tensor, "... D"],
        points: Float[Tensor, "... D"] | None = None,
        *,
        cache: Sequence[TokenCache] | None = None,
        return_weights: Literal[False] = False,
    ) -> Float[Tensor, "B Q D"]: ...

    @overload
    def forward(
        self,
        tokens: Float[Tensor, "... D"],
        points: Float[Tensor, "... D"] | None = None,
        *,
        cache: Sequence[TokenCache] | None = None,
        return_weights: Literal[True],
    ) -> tuple[Float[Tensor, "B Q D"], list[Float[Tensor, "B H Q N"]]]: ...

    def forward(
        self,
        tokens: Float[Tensor, "... D"],
        points: Float[Tensor, "... D"] | None = None,
        *,
        cache: Sequence[TokenCache] | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """``tokens`` [B, Q, D] attend to ``points`` [B, N, D], or to themselves; one output per token.

        - ``cache``: the earlier tokens of a causal model, to which ``tokens`` are added (``new_cache``).
        - ``return_weights`` adds the attention matrices of every layer, [B, H, Q, N] each; on a CPU it is also the path
          that has second derivatives.
        """
        spec = self.spec
        for name, given in (("tokens", tokens), ("points", points)):
            if given is not None and (given.ndim != 3 or given.shape[2] != spec.dim):
                raise ShapeError(f"{name}: expected [batch, {name}, dim={spec.dim}], got {list(given.shape)}")
        if points is None:
            x, context = self._placed(tokens, cache[0].length if cache else 0), None
        elif spec.kv_lora_rank is not None:
            raise InvalidInputError("points: expected none with latent attention, whose tokens attend to themselves")
        else:
            x, context = pad(tokens, (0, spec.position_dim)), self._placed(points)
        weights = []
        caches = [None] * len(self.blocks) if cache is None else cache
        for block, layer_cache in zip(self.blocks, caches, strict=True):
            x, layer_weights = block(x, context, layer_cache, return_weights)
            weights.append(layer_weights)
        output = self.final_norm(x)[..., : spec.dim]
        return (output, weights) if return_weights else output

    def attention_layers(self) -> Iterator[MultiheadAttention | LatentAttention]:
        """The attention of every layer, first to last."""
        for block in self.blocks:
            assert isinstance(block, Block)
            yield block.attention

    def new_cache(self, batch: int, capacity: int) -> list[TokenCache]:
        """An empty cache for every layer."""
        return [layer.new_cache(batch, capacity) for layer in self.attention_layers()]

    def _placed(self, points: Float[Tensor, "B N D"], first: int = 0) -> Float[Tensor, "B N W"]:
        if self.positions is None:
            return points
        end = first + points.shape[1]
        if end > self.spec.max_points:
            raise InvalidInputError(
                f"points: expected at most max_points={self.spec.max_points} (each has a learned position), got {end}"
            )
        positions = self.positions[first:end]
        if self.spec.positions == "additive":
            return points + positions
        return torch.cat((points, positions.expand(points.shape[0], -1, -1)), dim=-1)

    @torch.no_grad()
    def _start(self) -> None:
        if self.positions is not None:
            if self.spec.init != "paper":
                nn.init.normal_(self.positions, 0.0, self.positions.shape[1] ** -0.5)
            elif self.spec.positions == "concatenated":
                nn.init.uniform_(self.positions, -1.0, 1.0)
            else:
                nn.init.normal_(self.positions, -1.0, 1.0)
        if self.spec.init == "paper":
            first = self.blocks[0].state_dict()
            for block in self.blocks[1:]:
                block.load_state_dict(block.state_dict() | first)
        if self.spec.init == "identity":
            *earlier, _ = self.attention_layers()
            for layer in earlier:
                _silence(layer)
            for module in self.modules():
                if isinstance(module, FeedForward):
                    module.silence()


def _build_attention(
    spec: ModelSpec, device: torch.device | str | None, dtype: torch.dtype | None
) -> MultiheadAttention | LatentAttention:
    if spec.latent is not None:
        return LatentAttention(spec.latent, device=device, dtype=dtype)
    return MultiheadAttention.from_spec(spec.attention, device=device, dtype=dtype)


def _silence(layer: MultiheadAttention | LatentAttention) -> None:
    """Output 0 until trained (``o_bias`` is 0 initially)."""
    for parameter in [layer.o_weight] if isinstance(layer, MultiheadAttention) else layer.out.parameters():
        nn.init.zeros_(parameter)
