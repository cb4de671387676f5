"""A cache of generation that holds latents, and rebuilds keys and values of one layer at a time when they are needed.

Per token and layer it keeps the k numbers of the latent. Rotary positions are applied to rebuilt keys with the
cosines and sines of their own tokens, which the first layer that uses them keeps for all. An MLA block's cache keeps
its cut latent and, as before, its shared rotary key.

Legend: B batch, N new tokens, P past ones, G key heads, R rank, k size of the latent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from rankwise.reduce.latent_modules import Latent, LatentProjection
from rankwise.reduce.sites import Site


class LatentLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's latents in ``keys``; ``values`` holds rotations, MLA's shared key, or nothing."""

    keys: Tensor
    values: Tensor

    def __init__(self, block: LatentBlock, before: Sequence[LatentLayer]) -> None:
        super().__init__()
        self.block, self.before = block, before
        self.rotations: LatentLayer | None = None
        self.newest_rotation: Tensor | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Keep the latents of the new tokens; returns keys and values of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.block.site.kind == "mla":
            return self._update_mla(key_states, value_states)
        latent = self.block.latent
        assert latent.newest is not None, "the attention block did not run through its latent"
        past = self.keys if self.keys.numel() else latent.newest[:, None, :0]
        rotation = self._rotation_of_past(latent.rotation, past.shape[-2], latent.newest.shape[1], len(past))
        self.keys = torch.cat([past, latent.newest[:, None]], -2)
        latent.newest = latent.rotation = None
        if not past.shape[-2]:
            return key_states, value_states
        keys, values = self.block.rebuild(past[:, 0], rotation)
        repeats = key_states.shape[1] // keys.shape[1]  # some models repeat key heads before they cache them
        if repeats > 1:
            keys, values = keys.repeat_interleave(repeats, 1), values.repeat_interleave(repeats, 1)
        return torch.cat([keys, key_states], -2), torch.cat([values, value_states], -2)

    def _rotation_of_past(
        self, new: tuple[Tensor, Tensor] | None, past: int, tokens: int, batch: int
    ) -> tuple[Tensor, Tensor] | None:
        """Cosines and sines of past tokens; those of the new ones are kept by the first layer that gets them."""
        if new is None:
            self.values = torch.zeros(batch, 1, past + tokens, 0)
            return None
        cos, sin = new
        if self.rotations is None:
            same = (layer for layer in self.before if layer.newest_rotation is cos)
            self.rotations = next(same, self)
        owner = self.rotations
        if owner is self:
            both = torch.cat([cos, sin], -1)[:, None].expand(batch, -1, -1, -1)
            self.values = torch.cat([self.values, both], -2) if self.values.numel() else both.contiguous()
            self.newest_rotation = cos
        else:
            self.values = torch.zeros(batch, 1, past + tokens, 0)
        half = owner.values.shape[-1] // 2
        known = owner.values[:, 0, :past]
        return known[..., :half], known[..., half:]

    def _update_mla(self, latent: Tensor, shared_key: Tensor) -> tuple[Tensor, Tensor]:
        down = self.block.latent.down
        small = linear(latent, down)
        self.keys = torch.cat([self.keys, small], -2) if self.keys.numel() else small
        self.values = torch.cat([self.values, shared_key], -2) if self.values.numel() else shared_key
        return linear(self.keys, self.block.back()), self.values


class LatentBlock:
    """What the cache must know of one attention block to rebuild its keys and values."""

    def __init__(self, model: nn.Module, site: Site) -> None:
        self.site, self.attention = site, model.get_submodule(site.attention)
        self.k: LatentProjection = model.get_submodule(site.k.module)  # type: ignore[assignment]
        self.v: LatentProjection = model.get_submodule(site.v.module)  # type: ignore[assignment]
        self.norm = None if site.key_norm is None else model.get_submodule(site.key_norm)
        self._back: Tensor | None = None

    @property
    def latent(self) -> Latent:
        return self.k.latent

    def back(self) -> Tensor:
        """From the cut latent of an MLA block to one that its second map reads the same numbers from."""
        if self._back is None:
            self._back = torch.linalg.pinv(self.latent.down.double()).to(self.latent.down.dtype)
        return self._back

    def rebuild(self, latents: Tensor, rotation: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Keys [B, G, P, R], normalised and rotated as the block does it, and values [B, G, P, V]."""
        (groups, rank), width = self.site.k.index.shape, self.site.v.index.shape[1]
        if self.k is self.v:
            keys, values = linear(latents, self.k.up, self.k.bias).split([groups * rank, groups * width], -1)
        else:
            keys = linear(latents, self.k.up, self.k.bias)
            values = linear(latents, self.v.up, self.v.bias)
        norm: Any = None if self.site.key_norm is None else self.norm
        whole = norm is not None and getattr(norm, "weight", keys[0, 0]).numel() == groups * rank and groups > 1
        if whole:
            keys = norm(keys)
        keys = keys.unflatten(-1, (groups, rank))
        if norm is not None and not whole:
            keys = norm(keys)
        keys, values = keys.transpose(1, 2), values.unflatten(-1, (groups, width)).transpose(1, 2)
        if rotation is not None:
            rotate = sys.modules[type(self.attention).__module__].apply_rotary_pos_emb
            part = getattr(self.attention, "rotary_ndims", rank)  # some rotate the first coordinates alone
            _, turned = rotate(keys[..., :part], keys[..., :part], *rotation)
            keys = torch.cat([turned, keys[..., part:]], -1)
        return keys, values


class LatentCache(Cache):  # type: ignore[misc]
    """The cache of a reduced model; ``model.generate`` and ``use_cache=True`` make it by themselves.

    - ``blocks``: those that were cut, by the number of their layer; other layers are cached as ``config`` wants it.
    """

    def __init__(self, blocks: Mapping[int, LatentBlock], config: Any) -> None:
        layers: list[Any] = list(DynamicCache(config=config).layers)
        layers += [DynamicLayer() for _ in range(1 + max(blocks) - len(layers))]
        known: list[LatentLayer] = []
        for at in sorted(blocks):
            layers[at] = LatentLayer(blocks[at], tuple(known))
            known.append(layers[at])
        super().__init__(layers=layers)

    def bytes(self) -> int:
        """What its tensors take, latents and rotations together."""
        return cache_bytes(self)


def cache_bytes(cache: Any) -> int:
    """Bytes of the tensors of any cache of ``transformers``, counted."""
    tensors: dict[int, Tensor] = {}
    for layer in cache.layers:
        kept = (layer.keys, layer.values) if isinstance(layer, LatentLayer) else vars(layer).values()
        for value in kept:
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            tensors |= {id(part): part for part in parts if isinstance(part, Tensor)}
    return sum(part.numel() * part.element_size() for part in tensors.values())


def layer_number(attention: nn.Module) -> int:
    """The number under which an attention block caches."""
    return int(getattr(attention, "layer_idx", getattr(attention, "layer_id", None)))  # type: ignore[arg-type]


def use_latent_cache(model: nn.Module, sites: Sequence[Site]) -> list[Any]:
    """Make ``model`` fill a ``LatentCache`` wherever it would have made an ordinary cache; returns the hooks."""
    blocks: dict[int, LatentBlock] = {}
    hooks = []
    for site in sites:
        block = LatentBlock(model, site)
        blocks[layer_number(block.attention)] = block
        hooks.append(block.attention.register_forward_pre_hook(_recorder(block), with_kwargs=True))

    def swap(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        wanted = kwargs.get("use_cache")
        given = kwargs.get("past_key_values")
        empty = given is None or (type(given) is DynamicCache and given.get_seq_length() == 0)
        if empty and (wanted if wanted is not None else module.config.get_text_config().use_cache):
            kwargs["past_key_values"] = LatentCache(blocks, module.config)
        return args, kwargs

    return [*hooks, model.register_forward_pre_hook(swap, with_kwargs=True)]


@contextmanager
def latent_caching(model: nn.Module, sites: Sequence[Site]) -> Iterator[None]:
    """``use_latent_cache`` for a while."""
    hooks = use_latent_cache(model, sites)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _recorder(block: LatentBlock) -> Any:
    def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        cache = kwargs.get("past_key_values", kwargs.get("layer_past"))
        latent = block.latent
        latent.recording = block.site.kind == "joint" and isinstance(cache, LatentCache)
        latent.rotation = kwargs.get("position_embeddings") if latent.recording and block.site.rotary else None

    return note
