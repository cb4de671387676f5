"""Keys and values of a layer as one vector: would a latent that both are rebuilt from pay?

A cache keeps x = [k; v] of every token, all key heads together, before norms of heads and rotary positions. A latent of
``energy_99`` numbers holds 99 % of the energy of x, keys and values counting alike. By weights, inputs are taken as
isotropic; on texts, x is what the model makes of them, around its mean. Energy is no loss: what a latent costs is
measured by ``rankwise reduce``.

Legend: n coordinates of x, D of its input, T tokens, S = min(n, D or T) singular values.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.audit.report import JointSpectrum
from rankwise.errors import InvalidInputError
from rankwise.measure import effective_rank, energy_rank, joint_gram
from rankwise.models import (
    AttentionCall,
    LayerRef,
    LayerWeights,
    RunningModel,
    TensorSlice,
    TensorSource,
    as_source,
    place,
)
from rankwise.nn import one_thread

_DRAWN = 512
"""Random weights are drawn on at most so many inputs: shares of energy depend on proportions, not on sizes."""
_MOST_TOKENS = 4096


def joint_of_weights(stored: LayerWeights) -> JointSpectrum | None:
    """Of an unfolded layer, beside random weights behind the same gains; None without values, and where the layer has a
    latent already."""
    if stored.v is None or stored.ref.latent is not None:
        return None
    gain = None if stored.key_norm is None else stored.key_norm.gain
    keys, values = (block.reshape(-1, block.shape[-1]) for block in (stored.k, stored.v))
    weight = np.concatenate((keys, values))
    folded = torch.from_numpy(weight if gain is None else weight * gain)
    return _spectrum(
        joint_gram(folded.mT, (len(keys), len(values))),
        len(weight),
        random=_random_shares(len(weight), weight.shape[1], gain),
    )


def _random_shares(n: int, dim: int, gain: Float[np.ndarray, " D"] | None) -> tuple[float, float]:
    """Parts of n numbers that hold 90 % and 99 % of the energy of random weights, drawn at the same proportions."""
    size = min(dim, _DRAWN)
    count = max(round(n * size / dim), 1)
    sample = np.ones(size) if gain is None else np.sort(gain)[np.linspace(0, dim - 1, size).round().astype(int)]
    rng = np.random.default_rng([n, dim])
    draws = max(1, _DRAWN // count)
    drawn = torch.from_numpy(rng.normal(size=(draws, count, size)) * sample)
    with one_thread():
        values = torch.linalg.svdvals(drawn)
    ninety, most = (
        float(energy_rank(singular_values=values, fraction=fraction).double().mean()) / count
        for fraction in (0.9, 0.99)
    )
    return ninety, most


def _spectrum(
    gram: Float[Tensor, "S S"], n: int, *, random: tuple[float, float] | None = None, tokens: int | None = None
) -> JointSpectrum:
    with one_thread():  # several wait for each other
        values = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt().flip(0)
    return JointSpectrum(
        numbers=n,
        effective=float(effective_rank(singular_values=values)),
        energy_90=int(energy_rank(singular_values=values, fraction=0.9)),
        energy_99=int(energy_rank(singular_values=values, fraction=0.99)),
        singular_values=tuple(values.tolist()),
        random_90=None if random is None else random[0] * n,
        random_99=None if random is None else random[1] * n,
        tokens=tokens,
    )


class JointSamples:
    """Keys and values of every block of a running model, token by token, rebuilt from what enters the block."""

    def __init__(self, running: RunningModel) -> None:
        self.source: TensorSource = as_source(running.model)
        try:
            self.refs: tuple[LayerRef, ...] = place(running.model).layers
        except InvalidInputError:  # a model can be run without knowing how its weights are laid out
            self.refs = ()
        self.samples: dict[int, list[Tensor]] = {}
        self.parts: dict[int, tuple[int, int]] = {}

    def add(self, call: AttentionCall) -> None:
        """The tokens of one pass; nothing where the block's layout is not known, or is another than was found."""
        kept = sum(map(len, self.samples.get(call.index, ())))
        ref = next((ref for ref in self.refs if ref.k.tensor.startswith(f"{call.name}.")), None)
        if ref is None or ref.v is None or ref.latent is not None or kept >= _MOST_TOKENS:
            return
        keys, values = (_projected(self.source, call, part) for part in ((ref.k, ref.k_bias), (ref.v, ref.v_bias)))
        if call.values is not None and not _same(values, call.values):
            return
        self.parts[call.index] = (keys.shape[1], values.shape[1])
        self.samples.setdefault(call.index, []).append(torch.cat((keys, values), 1)[: _MOST_TOKENS - kept].half())

    def spectrum(self, index: int) -> JointSpectrum | None:
        """Of the block that runs at this place; None where nothing is known of it."""
        if index not in self.samples:
            return None
        x = torch.cat(self.samples.pop(index)).double()
        return _spectrum(joint_gram(x - x.mean(0), self.parts[index]), x.shape[1], tokens=len(x))


def _projected(
    source: TensorSource, call: AttentionCall, where: tuple[TensorSlice, TensorSlice | None]
) -> Float[Tensor, "T n"]:
    """What a projection of all heads makes of the block's context."""
    weight, bias = (None if part is None else torch.from_numpy(part.take(source.read(part.tensor))) for part in where)
    assert weight is not None
    made = call.context.detach().cpu().float().flatten(0, 1) @ weight.flatten(0, 1).float().mT
    return made if bias is None else made + bias.flatten().float()


def _same(made: Float[Tensor, "T n"], values: Float[Tensor, "B G M V"]) -> bool:
    """Whether the values are those that the model multiplied."""
    own = values.detach().cpu().float().transpose(1, 2).flatten(0, 1).flatten(1)
    return own.shape == made.shape and bool(torch.allclose(made, own, rtol=1e-3, atol=1e-4 * float(own.abs().max())))
