"""Where attention can be seen: layers of rankwise, of PyTorch, and models of ``transformers``.

A tap remembers what a module was last called with, and forms the attention matrices of a few of those sequences again,
without gradient and without dropout. Nothing is kept between looks but references to the last inputs.

Legend: T sequences, H heads, N queries, M keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from rankwise.measure import effective_rank
from rankwise.nn import LatentAttention, MultiheadAttention
from rankwise.watch.observation import HeadReading
from rankwise.watch.readings import attention_readings, gaussian_effective_rank, qk_singular_values

QkRanks = tuple[list[float], float]
"""Effective rank of every head's QK form, and that of Gaussian weights of the same shape."""


class Tap(Protocol):
    """Something with attention in it."""

    def readings(self, sequences: int, length: int) -> list[HeadReading]:
        """What its heads do on at most ``sequences`` of the last inputs, cut to ``length`` tokens; [] before any."""
        ...

    def attach(self) -> Callable[[], None]:
        """Begin to remember inputs; returns what ends it."""
        ...


class LayerTap:
    """One layer of ``rankwise.nn`` or one ``nn.MultiheadAttention``."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self.name, self.module = name, module
        self._inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._random: float | None = None

    def attach(self) -> Callable[[], None]:
        """Remember the inputs of the next calls."""

        def keep(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            self._inputs = (given, named)

        handle = self.module.register_forward_pre_hook(keep, with_kwargs=True)

        def end() -> None:
            handle.remove()
            self._inputs = None

        return end

    def readings(self, sequences: int, length: int) -> list[HeadReading]:
        """The layer's heads on the last inputs."""
        if self._inputs is None:
            return []
        with torch.no_grad(), _evaluating(self.module):
            weights = self._weights(*self._inputs, sequences)
            qk = self._qk_ranks()
        return attention_readings(self.name, weights[:, :, :length, :length], qk)

    def _weights(self, given: tuple[Any, ...], named: Mapping[str, Any], sequences: int) -> Tensor:
        first = given[0] if given else named.get("query", named.get("x"))
        batch_first = getattr(self.module, "batch_first", True) or first.ndim == 2
        axis = 0 if batch_first else 1
        count = 1 if first.ndim == 2 else first.shape[axis]

        def few(value: Any) -> Any:
            if not isinstance(value, Tensor) or first.ndim == 2 or value.ndim < 2:
                return value
            if value.ndim == 3 and value.shape[axis] == count and value.is_floating_point():
                return value.narrow(axis, 0, min(sequences, count)).detach()
            return value[:sequences] if value.shape[0] == count and value.ndim != 3 else value

        inputs = [few(value) for value in given]
        others = {name: few(value) for name, value in named.items()}
        if isinstance(self.module, nn.MultiheadAttention):
            others |= {"need_weights": True, "average_attn_weights": False}
            inputs = inputs[:3]
        else:
            others |= {"return_weights": True, "cache": None}
        weights: Tensor = self.module.forward(*inputs, **others)[1]
        return weights if weights.ndim == 4 else weights[None]

    def _qk_ranks(self) -> QkRanks | None:
        weights = _qk_weights(self.module)
        if weights is None:
            return None
        q, k = weights
        if self._random is None:
            self._random = gaussian_effective_rank(q.shape[2], k.shape[2], q.shape[1])
        return effective_rank(singular_values=qk_singular_values(q, k)).tolist(), self._random


class TransformersTap:
    """A model of ``transformers``: run again on a few of its last token ids, watched block by block."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._ids: Tensor | None = None

    def attach(self) -> Callable[[], None]:
        """Remember the token ids of the next calls."""

        def keep(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            ids = named.get("input_ids", given[0] if given else None)
            if isinstance(ids, Tensor) and ids.ndim == 2 and not ids.is_floating_point():
                self._ids = ids

        handle = self.model.register_forward_pre_hook(keep, with_kwargs=True)

        def end() -> None:
            handle.remove()
            self._ids = None

        return end

    def readings(self, sequences: int, length: int) -> list[HeadReading]:
        """All heads of the model on the last ids."""
        if self._ids is None:
            return []
        from rankwise.models import AttentionCall, running_from

        model: Any = self.model
        training, attention = model.training, model.config._attn_implementation
        found: list[HeadReading] = []

        def visit(call: AttentionCall) -> None:
            qk = None
            if call.queries is not None and call.keys is not None:
                qk = _qk_of_inputs(call)
            found.extend(attention_readings(call.name, call.probabilities, qk))

        try:
            running = running_from(model, objective="causal")
            running.watch(self._ids[:sequences, :length], visit)
        finally:
            model.train(training)
            if model.config._attn_implementation != attention:
                model.set_attn_implementation(attention)
        return found


def taps_of(model: nn.Module) -> list[Tap]:
    """Every place in ``model`` where attention can be seen; a model of ``transformers`` is one."""
    if hasattr(model, "set_attn_implementation"):
        return [TransformersTap(model)]
    kinds = (MultiheadAttention, LatentAttention, nn.MultiheadAttention)
    found: list[Tap] = []
    for name, module in model.named_modules():
        if isinstance(module, kinds):
            found.append(LayerTap(name or type(module).__name__, module))
        elif hasattr(module, "set_attn_implementation") and not _inside(name, found, model):
            found.append(TransformersTap(module))
    return found


def _inside(name: str, found: list[Tap], model: nn.Module) -> bool:
    """Whether a module lies in one that has a tap already."""
    tapped = {id(tap.model) for tap in found if isinstance(tap, TransformersTap)}
    parts = name.split(".")
    return any(id(model.get_submodule(".".join(parts[:depth]))) in tapped for depth in range(1, len(parts)))


def _qk_weights(module: nn.Module) -> tuple[Tensor, Tensor] | None:
    if isinstance(module, MultiheadAttention):
        group = module.spec.heads // module.spec.key_heads
        return module.q_weight, module.k_weight.repeat_interleave(group, 0)
    if isinstance(module, nn.MultiheadAttention):
        if module.in_proj_weight is not None:
            q, k, _ = module.in_proj_weight.chunk(3)
        else:
            q, k = module.q_proj_weight, module.k_proj_weight
        return q.unflatten(0, (module.num_heads, -1)), k.unflatten(0, (module.num_heads, -1))
    return None


def _qk_of_inputs(call: Any) -> QkRanks | None:
    """From the queries and keys of the text: ``transformers`` does not say where its weights lie.

    The effective rank of ``q k^T`` over tokens, beside that of Gaussian queries and keys of the same numbers.
    """
    queries, keys = call.queries[0], call.keys[0]
    keys = keys.repeat_interleave(queries.shape[0] // keys.shape[0], 0)
    found = effective_rank(singular_values=qk_singular_values(queries.mT, keys.mT)).tolist()
    return found, _gaussian(queries.shape[1], keys.shape[1], queries.shape[2])


_KNOWN: dict[tuple[int, int, int], float] = {}


def _gaussian(queries: int, keys: int, rank: int) -> float:
    sizes = (queries, keys, rank)
    if sizes not in _KNOWN:
        _KNOWN[sizes] = gaussian_effective_rank(queries, keys, rank)
    return _KNOWN[sizes]


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)
