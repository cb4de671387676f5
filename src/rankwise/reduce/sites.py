"""Where a loaded model attends: every attention block as the modules of its queries, keys, values and outputs.

The only file of ``reduce`` that knows of layouts. A layout that ``rankwise.models.layouts`` learns is reduced
without a change here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Int
from torch import Tensor, nn

from rankwise.errors import InvalidInputError
from rankwise.models import LayerRef, Placement, RunningModel, TensorSlice, place

Kind = Literal["joint", "mla", "heads"]
"""``joint``: keys and values of all heads share one latent; ``mla``: they already do, and it is cut; ``heads``: each
head's keys and values are cut apart."""


@dataclass(frozen=True, eq=False)
class ProjectionRows:
    """Which outputs (of o: inputs) of a linear module belong to a projection, arranged by heads."""

    module: str
    index: Int[np.ndarray, "heads rank"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """One attention block of a loaded model."""

    name: str
    """``"decoder 3"``."""
    attention: str
    """The path of the module that attends."""
    kind: Kind
    """What is cut there, see ``Kind``."""
    q: ProjectionRows
    """Which outputs of which module are the queries."""
    k: ProjectionRows
    """The same of the keys."""
    v: ProjectionRows
    """The same of the values."""
    o: ProjectionRows
    """Which inputs of which module are the heads' outputs."""
    cached: bool
    """Whether generation caches its keys and values."""
    rotary: bool
    """Whether keys are rotated by their positions."""
    cut_keys: bool
    """False where positions or norms stand between keys and scores, so that a head's keys cannot be cut alone."""
    latent_size: int | None = None
    """Coordinates of the latent of an MLA block; None for any other."""
    shared_key: int = 0
    """Coordinates of the rotary key that an MLA block caches beside its latent."""
    scale: float = 1.0
    """What a product of query and key is multiplied by."""
    key_norm: str | None = None
    """The path of the norm on keys; None without."""

    @property
    def cached_numbers(self) -> int:
        """What the original caches per token."""
        if self.latent_size is not None:
            return self.latent_size + self.shared_key
        return self.k.index.size + self.v.index.size


@dataclass(frozen=True)
class Sites:
    """All attention blocks of a model, and what of it is left alone with the reason."""

    architecture: str
    sites: tuple[Site, ...]
    untouched: tuple[tuple[str, str], ...]


def attention_sites(running: RunningModel) -> Sites:
    """The attention blocks of ``running``, in the order of its layers."""
    placement = _placed(running)
    modules = dict(running.model.named_modules())
    sites, untouched = [], [(item.what, item.reason) for item in placement.unsupported]
    for ref in placement.layers:
        site = _site(ref, modules, joint=running.objective == "causal" and ref.part in ("decoder", "layer"))
        reason = _refusal(site, modules)
        if reason is None and ref.gated and site.kind == "heads":
            reason = "gates stand between its values and its outputs"
        if reason is None:
            sites.append(site)
            if site.kind == "heads" and not site.cut_keys:
                untouched.append((f"keys of {ref.name}", "positions or a norm stand between them and the scores"))
        else:
            untouched.append((ref.name, reason))
    return require_some(running, Sites(placement.architecture, tuple(sites), tuple(untouched)))


def _placed(running: RunningModel) -> Placement:
    """By structure, or by the names that are given; which tokens a token sees is then what the model is trained for."""
    if running.names is not None:
        return place(running.model, replace(running.names, causal=running.objective == "causal"))
    try:
        return place(running.model)
    except InvalidInputError as error:
        if "--q" not in str(error):
            raise
        raise InvalidInputError(f"{error}; rankwise reduce takes the same options") from None


def require_some(running: RunningModel, found: Sites) -> Sites:
    """``found``, unless it has no attention block."""
    if not found.sites:
        reasons = "; ".join(f"{what}: {why}" for what, why in found.untouched[:3])
        raise InvalidInputError(f"{running.where}: expected attention that can be reduced, got none: {reasons}")
    return found


def _site(ref: LayerRef, modules: Mapping[str, nn.Module], *, joint: bool) -> Site:
    if ref.v is None or ref.o is None:
        raise InvalidInputError(f"{ref.name}: expected values and outputs too (--v, --o), got queries and keys alone")
    k = _rows(ref.k)
    kind: Kind = "mla" if ref.latent is not None else ("joint" if joint else "heads")
    attention = k.module.rpartition(".")[0]
    rotary = ref.rope is not None or (ref.part == "layer" and _is_given_rotations(modules[attention]))
    free = not rotary and ref.k_head_norm is None and not (ref.score_bias or "").startswith("relative key")
    return Site(
        name=ref.name,
        attention=attention,
        kind=kind,
        q=_rows(ref.q),
        k=k,
        v=_rows(ref.v),
        o=_rows(ref.o),
        cached=ref.mask != "full",
        rotary=rotary,
        cut_keys=free,
        latent_size=None if ref.latent is None else ref.latent.key_size,
        shared_key=0 if ref.latent is None else ref.latent.rope,
        scale=ref.scale,
        key_norm=_key_norm(ref, attention, modules),
    )


def _is_given_rotations(attention: nn.Module) -> bool:
    """Names say nothing of positions; blocks of ``transformers`` that rotate are given cosines and sines."""
    return "position_embeddings" in inspect.signature(attention.forward).parameters


def _key_norm(ref: LayerRef, attention: str, modules: Mapping[str, nn.Module]) -> str | None:
    """By the tensor of its gain; norms without one go by their usual name."""
    if ref.k_head_norm is not None and ref.k_head_norm.gain is not None:
        return ref.k_head_norm.gain.rpartition(".")[0]
    return f"{attention}.k_norm" if f"{attention}.k_norm" in modules else None


def _rows(where: TensorSlice) -> ProjectionRows:
    return ProjectionRows(where.tensor.removesuffix(".weight"), where.index)


def _refusal(site: Site, modules: Mapping[str, nn.Module]) -> str | None:
    for rows in (site.q, site.k, site.v, site.o):
        module = modules.get(rows.module)
        if module is None or not isinstance(getattr(module, "weight", None), Tensor):
            return f"{rows.module} is no module with one weight"
    if site.kind == "heads" and len({site.q.module, site.k.module, site.v.module}) < 3:
        return "queries, keys and values are one module, whose heads are not cut apart"
    return None
