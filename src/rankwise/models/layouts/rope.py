"""Rotary positions as a configuration states them: frequencies, pairing, and the factor on cosine and sine.

The frequencies are those of ``transformers`` for sequences within the trained length: ``default``, ``linear``,
``dynamic`` (which then equals ``default``), ``llama3``, ``yarn`` and ``longrope`` (short factors).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from rankwise.errors import InvalidInputError, require_number


@dataclass(frozen=True, eq=False)
class Rope:
    """Coordinates ``start`` .. ``start + 2P`` of each head turn pair by pair: pair i by ``position * frequencies[i]``.

    Pairs are (2i, 2i + 1) if ``interleaved``, else (i, i + P), counted from ``start``. ``amplitude`` multiplies cosine
    and sine, hence its square the rotated part of the scores (YaRN).
    """

    frequencies: Float[np.ndarray, " P"]
    interleaved: bool = False
    start: int = 0
    amplitude: float = 1.0

    @property
    def dims(self) -> int:
        """How many coordinates turn."""
        return 2 * len(self.frequencies)

    def pairs(self) -> list[tuple[int, int]]:
        """The coordinates of each rotating pair within a head; dropping one means dropping both."""
        half = len(self.frequencies)
        if self.interleaved:
            return [(self.start + 2 * i, self.start + 2 * i + 1) for i in range(half)]
        return [(self.start + i, self.start + half + i) for i in range(half)]


def read_rope(
    config: Mapping[str, Any], rank: int, *, kind: str | None = None, interleaved: bool = False, start: int = 0,
    dims: int | None = None,
) -> Rope:  # fmt: skip
    """The rotary positions of heads of dimension ``rank``; ``kind`` names the sort of layer where they differ.

    ``dims`` overrides how many coordinates turn (MLA); otherwise the configuration's partial factor says it.
    """
    config = {key: value for key, value in config.items() if value is not None}  # null says nothing
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if isinstance(stated, Mapping) and kind is not None and kind in stated:
        stated = stated[kind] or {}
    if not isinstance(stated, Mapping):
        raise InvalidInputError(f"rope_parameters: expected an object, got {stated!r:.100}")
    top = {"rope_theta": config.get("rope_theta", config.get("rotary_emb_base", 10_000.0)),
           "partial_rotary_factor": config.get("partial_rotary_factor", config.get("rotary_pct", 1.0)),
           "max_position_embeddings": config.get("max_position_embeddings"),
           "original_max_position_embeddings": config.get("original_max_position_embeddings")}  # fmt: skip
    values = {key: value for key, value in top.items() if value is not None}
    values |= {key: value for key, value in stated.items() if value is not None}
    base = require_number("rope_theta", values["rope_theta"], above=0)
    if dims is None:
        dims = int(rank * require_number("partial_rotary_factor", values["partial_rotary_factor"], above=0))
    if dims % 2 or not 0 < dims <= rank:
        raise InvalidInputError(
            f"rotary dimensions: expected an even number up to the head dimension {rank}, got {dims}"
        )
    plain = base ** (-np.arange(0, dims, 2) / dims)
    sort = values.get("rope_type", values.get("type", "default"))
    if not isinstance(sort, str) or sort not in _SCALINGS:
        raise InvalidInputError(f"rope_type: expected one of {', '.join(_SCALINGS)}, got {sort!r:.60}")
    frequencies, amplitude = _SCALINGS[sort](plain, base, values)
    return Rope(frequencies, interleaved, start, amplitude)


def _number(values: Mapping[str, Any], key: str, default: float | None = None, *, above: float = 0) -> float:
    return require_number(key, values.get(key, default), above=above)


def _plain(plain: np.ndarray, base: float, values: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    return plain, 1.0


def _linear(plain: np.ndarray, base: float, values: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    return plain / _number(values, "factor"), 1.0


def _llama3(plain: np.ndarray, base: float, values: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    """Slow pairs are stretched by ``factor``, fast ones kept, those between mixed."""
    low = _number(values, "low_freq_factor")
    high = _number(values, "high_freq_factor", above=low)
    length = _number(values, "original_max_position_embeddings")
    turns = plain * length / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - kept) * plain / _number(values, "factor") + kept * plain, 1.0


def _yarn(plain: np.ndarray, base: float, values: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    """Peng et al. 2023: pairs of many turns kept, of few turns stretched, a linear ramp between."""
    factor, half = _number(values, "factor"), len(plain)
    require_number("rope_theta", base, above=1)  # otherwise no pair turns slower than another
    length = _number(values, "original_max_position_embeddings", values.get("max_position_embeddings"))

    def pair_of(turns: float) -> float:
        return 2 * half * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_of(_number(values, "beta_fast", 32)), pair_of(_number(values, "beta_slow", 1))
    if values.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * half - 1)
    stretched = np.clip((np.arange(half) - first) / ((last - first) or 0.001), 0, 1)
    if values.get("attention_factor") is not None:
        amplitude = _number(values, "attention_factor")
    elif values.get("mscale") and values.get("mscale_all_dim"):
        amplitude = yarn_mscale(factor, values["mscale"]) / yarn_mscale(factor, values["mscale_all_dim"])
    else:
        amplitude = yarn_mscale(factor, 1.0)
    return stretched * plain / factor + (1 - stretched) * plain, amplitude


def _longrope(plain: np.ndarray, base: float, values: Mapping[str, Any]) -> tuple[np.ndarray, float]:
    """The short factors, which hold up to the original length."""
    short = values.get("short_factor")
    if not isinstance(short, list) or len(short) != len(plain):
        raise InvalidInputError(f"short_factor: expected {len(plain)} numbers, got {short!r:.100}")
    divisors = np.array([require_number("short_factor", value, above=0) for value in short])
    if values.get("attention_factor") is not None:
        return plain / divisors, _number(values, "attention_factor")
    length = _number(values, "original_max_position_embeddings", values.get("max_position_embeddings"), above=1)
    if values.get("factor") is not None:
        factor = _number(values, "factor")
    else:
        factor = _number(values, "max_position_embeddings", length) / length
    return plain / divisors, 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(length))


def yarn_mscale(factor: object, mscale: object) -> float:
    """``1 + 0.1 mscale log(factor)``, 1 for factors up to 1: YaRN's temperature."""
    stretch, weight = require_number("factor", factor, above=0), require_number("mscale", mscale, minimum=0)
    return 1.0 if stretch <= 1 else 0.1 * weight * math.log(stretch) + 1.0


_SCALINGS = {
    "default": _plain,
    "dynamic": _plain,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
