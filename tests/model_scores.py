"""Pre-softmax scores two ways: those a ``transformers`` model computes, and those its audited weights predict."""

import contextlib
from unittest import mock

import numpy as np
import torch


@contextlib.contextmanager
def recorded_softmax():
    """Every tensor that goes into a softmax over keys, in order."""
    seen, plain = [], torch.nn.functional.softmax

    def softmax(scores, *arguments, **options):
        if scores.ndim == 4:
            seen.append(scores.detach().clone())
        return plain(scores, *arguments, **options)

    with mock.patch("torch.nn.functional.softmax", softmax):
        yield seen


@contextlib.contextmanager
def recorded_inputs(modules):
    """Each module's input, and what keys are made of where that differs."""
    seen = {}

    def remember(name):
        def hook(_, arguments, options):
            hidden = arguments[0] if arguments else options["hidden_states"]
            others = ("key_value_states", "encoder_hidden_states")
            context = next((options[key] for key in others if options.get(key) is not None), hidden)
            if len(arguments) > 1 and isinstance(arguments[1], torch.Tensor) and name.startswith("cross"):
                context = arguments[1]
            seen[name] = (hidden.detach()[0].double().numpy(), context.detach()[0].double().numpy())

        return hook

    handles = [module.register_forward_pre_hook(remember(name), with_kwargs=True) for name, module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def rms(x, eps):
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps)


def turned(x, rope, positions):
    """[tokens, rank] turned pair by pair."""
    x = x.copy()
    for frequency, (a, b) in zip(rope.frequencies, rope.pairs(), strict=True):
        cos, sin = np.cos(positions * frequency), np.sin(positions * frequency)
        x[:, a], x[:, b] = (
            rope.amplitude * (x[:, a] * cos - x[:, b] * sin),
            rope.amplitude * (x[:, b] * cos + x[:, a] * sin),
        )
    return x


def predicted_scores(weights, queries, keys, eps):
    """Scores [heads, queries, keys] of a layer as stored, for inputs behind the norm."""
    ref = weights.ref
    if weights.query_down is not None:
        queries = rms(queries @ weights.query_down.T, eps) * weights.query_latent_norm.gain
    if weights.key_down is not None:
        keys = keys @ weights.key_down.T
        size = ref.latent.key_size
        keys = np.concatenate((rms(keys[:, :size], eps) * weights.key_latent_norm.gain, keys[:, size:]), axis=1)
    scores = []
    for head in range(ref.heads):
        group = head // ref.group
        q, k = queries @ weights.q[head].T, keys @ weights.k[group].T
        if weights.q_bias is not None:
            q = q + weights.q_bias[head]
        if weights.k_bias is not None:
            k = k + weights.k_bias[group]
        if weights.q_head_norm is not None:
            q, k = rms(q, eps) * weights.q_head_norm.gain, rms(k, eps) * weights.k_head_norm.gain
        if ref.rope is not None:
            q, k = turned(q, ref.rope, np.arange(len(q))), turned(k, ref.rope, np.arange(len(k)))
        scores.append(ref.scale * q @ k.T)
    scores = np.stack(scores)
    return scores if ref.softcap is None else ref.softcap * np.tanh(scores / ref.softcap)
