"""Before anything long begins: which attention blocks run, and whether a cut in full leaves the model as it was.

In full, vectors are only written in another basis, so every output must stay: what a layout did not tell (gates between
values and outputs, rotations of another kind, a cache of its own) shows here, on a few random tokens, and is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rankwise.errors import InvalidInputError
from rankwise.models import RunningModel
from rankwise.reduce.bottleneck import Bottleneck
from rankwise.reduce.cutting import Directions, cut_model, cut_to, vector_sizes
from rankwise.reduce.latent_cache import latent_caching
from rankwise.reduce.sites import Site, Sites, require_some

_TOKENS, _FIRST = 12, 7
_CLOSE = 1e-3
"""Of the largest number that the model says; rounding in float32 stays far below."""


def runnable_sites(running: RunningModel, found: Sites) -> Sites:
    """``found`` without blocks that token ids never reach or reach twice; refuses what a cut in full would change."""
    tokens = _random_tokens(running)
    runs = _runs(running, found.sites, tokens)
    reasons = {
        site.name: "token ids alone do not reach it"
        if not runs[site.k.module]
        else f"it runs {runs[site.k.module]} times per pass with the same weights"
        for site in found.sites
        if runs[site.k.module] != 1
    }
    kept = tuple(site for site in found.sites if site.name not in reasons)
    left = require_some(running, replace(found, sites=kept, untouched=(*found.untouched, *reasons.items())))
    _require_same(running, left.sites, tokens)
    return left


def _random_tokens(running: RunningModel) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    length = _TOKENS if running.longest is None else min(_TOKENS, running.longest)
    return torch.randint(min(3, running.vocabulary - 1), running.vocabulary, (2, length), generator=generator)


def _runs(running: RunningModel, sites: Sequence[Site], tokens: Tensor) -> Counter[str]:
    """How often each site's keys are made in one pass."""
    counts: Counter[str] = Counter()

    def counter(path: str) -> Any:
        return lambda *_: counts.update([path])

    paths = {site.k.module for site in sites}
    hooks = [running.model.get_submodule(path).register_forward_hook(counter(path)) for path in paths]
    try:
        running(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return counts


def _require_same(running: RunningModel, sites: Sequence[Site], tokens: Tensor) -> None:
    model = running.model
    latents = [site for site in sites if site.kind != "heads"]
    if latents:
        _require_known_cache(running, latents, tokens)
    own_cache = _cached(running, tokens) if latents else None
    directions = [
        Directions(site, tuple(_turned(size, at) for size in vector_sizes(site))) for at, site in enumerate(sites)
    ]
    wanted = _output(running(tokens))
    with cut_model(model, cut_to(model, directions, rank=max(map(max, map(vector_sizes, sites))))):
        _compare(running, _output(running(tokens)), wanted, "its attention does more with keys and values than is seen")
        if own_cache is not None:
            with latent_caching(model, latents):
                _compare(running, _cached(running, tokens), own_cache, "its cache is not rebuilt from latents")


def _require_known_cache(running: RunningModel, sites: Sequence[Site], tokens: Tensor) -> None:
    """That the model caches, and rotates keys by cosines and sines that its blocks are given."""
    rotations: list[Any] = []

    def note(_: Any, args: Any, given: dict[str, Any]) -> None:
        rotations.append(given.get("position_embeddings"))

    attention = [running.model.get_submodule(site.attention) for site in sites if site.rotary and site.kind == "joint"]
    hooks = [block.register_forward_pre_hook(note, with_kwargs=True) for block in attention]
    try:
        with torch.no_grad():
            said = running.model(input_ids=tokens, use_cache=True)
    finally:
        for hook in hooks:
            hook.remove()
    if getattr(said, "past_key_values", None) is None:
        raise _refusal(running, "its class caches no keys and values")
    if not all(isinstance(one, tuple) and len(one) == 2 for one in rotations):
        raise _refusal(running, "it rotates keys by code of its own, which a cache of latents would have to repeat")


def _cached(running: RunningModel, tokens: Tensor) -> Tensor:
    """The outputs of the first tokens together, then of one token at a time, as generation reads them."""
    model: Any = running.model
    try:
        with torch.no_grad():
            steps = [model(input_ids=tokens[:, :_FIRST], use_cache=True)]
            cache = steps[0].past_key_values
            for at in range(_FIRST, tokens.shape[1]):
                steps.append(model(input_ids=tokens[:, at : at + 1], past_key_values=cache, use_cache=True))
    except Exception as error:  # whatever a model's code raises
        said = " ".join(str(error).split())
        raise _refusal(running, f"its cache is its own ({type(error).__name__}: {said:.120})") from error
    return torch.cat([_output(step) for step in steps], 1)


def _compare(running: RunningModel, found: Tensor, wanted: Tensor, reason: str) -> None:
    if not (found - wanted).abs().max() <= _CLOSE * wanted.abs().max():
        raise _refusal(running, reason)


def _refusal(running: RunningModel, reason: str) -> InvalidInputError:
    kind = type(running.model).__name__
    return InvalidInputError(f"{running.where}: expected attention that can be reduced, got {kind}: {reason}")


def _output(said: Any) -> Tensor:
    logits: Tensor | None = getattr(said, "logits", None)
    return said.last_hidden_state if logits is None else logits


def _turned(size: int, seed: int) -> Bottleneck:
    """All directions of a vector in a random basis."""
    draw = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    basis = torch.linalg.qr(draw)[0]
    return Bottleneck(torch.zeros(size, dtype=torch.float64), basis.mT, basis, torch.ones(size, dtype=torch.float64))
