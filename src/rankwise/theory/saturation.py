"""The plateau: the head dimension beyond which a random head's hardmax rank stops growing.

Random queries and keys of head dimension d fall short of the barrier (``occupancy``) because key norms fluctuate: long
keys win more than their share. Unit-norm keys have almost no such deficit. What is computed here is about random
weights; whether a trained model needs more is another question (the need, see ``bounds``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.theory.expected_rank import KEYS, expected_hardmax_rank, hardmax_rank_bounds
from rankwise.theory.hardmax_simulation import RankEstimate, simulate_hardmax_rank
from rankwise.theory.occupancy import hardmax_rank_mean, hardmax_rank_var, visible_reach

__all__ = [
    "RankEstimate",
    "Saturation",
    "expected_hardmax_rank",
    "hardmax_rank_bounds",
    "hardmax_rank_mean",
    "hardmax_rank_var",
    "saturation_dim",
    "saturation_law",
    "simulate_hardmax_rank",
]

Status = Literal["closed form", "quadrature", "simulated", "heuristic law"]

_LARGEST = {"gaussian": 1 << 17, "unit": 1 << 10}
_LONGEST_LINE_WINDOW = 16


@dataclass(frozen=True)
class Saturation:
    """``value`` and how it was found.

    "closed form": by exact formulas; "quadrature": by ``expected_hardmax_rank``, whose closure is ours and agrees with
    simulation; "simulated": by seeded simulation; "heuristic law": the deficit is so small that it was extrapolated
    as 1/head_dim from the largest dimension that quadrature resolves.
    """

    value: int
    status: Status


def saturation_dim(
    length: int, deficit: float = 0.1, *, mask: str = "full", keys: str = "gaussian", window: int | None = None
) -> Saturation:
    """The smallest head dimension whose mean hardmax rank is at least ``1 - deficit`` of the mask's barrier.

    Unit keys are given at least a plane wherever a row sees two keys or more: on a line they are 1 or -1, so that most
    of them tie and their rank is that of the rule for ties (``simulate_hardmax_rank`` tells it).
    """
    reach = visible_reach(length, mask, window)
    require_choice("keys", keys, KEYS)
    _require_deficit(deficit)

    if length == 1 or reach == 1:
        return Saturation(1, "closed form")
    if length == 2 or reach == 2:  # each of two keys wins with probability 1/2; unit keys need a plane not to tie
        return Saturation(1 if keys == "gaussian" else 2, "closed form")
    if keys == "gaussian":
        kept, status = _kept_on_a_line(length, reach)
        if kept >= 1 - deficit:
            return Saturation(1, status)

    barrier = hardmax_rank_mean(length, mask, window)

    def shortfall(head_dim: int) -> float:
        return 1 - expected_hardmax_rank(length, head_dim, mask, keys=keys, window=window) / barrier

    largest = _LARGEST[keys]
    # where to look first; the law is for the full mask, whose answer is about 1.4 times the causal one
    guess = saturation_law(reach or length, deficit) / (1.4 if reach == length else 1.08) if keys == "gaussian" else 4.0
    found = _smallest(shortfall, deficit, guess, largest)
    if found == largest and (rest := shortfall(largest)) > deficit:
        return Saturation(math.ceil(largest * rest / deficit), "heuristic law")
    return Saturation(found, "quadrature")


def saturation_law(length: int, deficit: float = 0.1) -> float:
    """t^4 / (4 (e - 1) deficit), t = Phi^-1(1 - 1/length): about log^2 length, not log length. A heuristic, no proof.

    A Gaussian key's norm varies by 1/sqrt(2 d) of itself, so its share varies by t^2/sqrt(2 d) of itself, and rank/n is
    about (1 - 1/e) - t^4/(4 e d). For the full mask and Gaussian keys it lies 7 to 10 % above what quadrature gives
    (length 256 to 10^6); the paper states a lower bound of order log length, which this does not contradict.
    """
    require_int("length", length, minimum=2)
    _require_deficit(deficit)
    return float(ndtri(1 / length)) ** 4 / (4 * (math.e - 1) * deficit)


def _require_deficit(deficit: object) -> None:
    if isinstance(deficit, bool) or not isinstance(deficit, int | float) or not 0 < deficit < 1:
        raise InvalidInputError(f"deficit: expected a number between 0 and 1, both excluded, got {deficit!r}")


def _smallest(shortfall: Callable[[int], float], deficit: float, guess: float, largest: int) -> int:
    """The smallest head dimension in 2 .. ``largest`` that falls short by at most ``deficit``, or ``largest``.

    The shortfall falls about as 1/d. The search draws a line through its last two values in logarithms and probes at
    the crossing and next to it, which takes about five of the costly evaluations; bisection is the way out.
    """
    fails, passes = 1, largest
    seen: list[tuple[float, float]] = []
    probe, bisect = min(max(2, round(guess)), largest), False
    while passes - fails > 1:
        rest = max(shortfall(probe), 1e-12)
        seen.append((math.log(probe), math.log(rest)))
        before = passes - fails
        fails, passes = (fails, probe) if rest <= deficit else (probe, passes)
        slope = -1.0
        if len(seen) > 1 and seen[-1][0] != seen[-2][0]:
            slope = min(-0.2, (seen[-1][1] - seen[-2][1]) / (seen[-1][0] - seen[-2][0]))
        crossing = math.exp(min(seen[-1][0] + (math.log(deficit) - seen[-1][1]) / slope, math.log(largest)))
        # a probe just above the crossing should pass, one just below it fail: ask for what is not known yet
        aim = math.ceil(crossing) if passes > crossing + 1 else math.ceil(crossing) - 1
        if bisect or not fails < aim < passes:
            aim = (fails + passes) // 2 if passes < 4 * fails else math.isqrt(fails * passes)
        bisect = len(seen) > 5 and passes - fails > before // 2
        probe = min(max(aim, fails + 1), passes - 1)
    return passes


def _kept_on_a_line(length: int, reach: int | None) -> tuple[float, Status]:
    """Mean rank over the barrier for Gaussian keys of head dimension 1: each row picks the largest or smallest."""
    if reach is None:
        return (2 - 2.0 ** (1 - length)) / hardmax_rank_mean(length), "closed form"
    if reach == length:
        return _line_causal(length) / hardmax_rank_mean(length, "causal"), "closed form"
    if reach > _LONGEST_LINE_WINDOW:
        return 0.0, "simulated"
    sample = min(length, 1 << 14)
    estimate = simulate_hardmax_rank(sample, 1, "window", window=reach, trials=max(4, (1 << 16) // sample))
    return estimate.mean / hardmax_rank_mean(sample, "window", reach), "simulated"


def _line_causal(length: int) -> float:
    """Key j >= 2 is an extreme of the first j with probability 2/j and still of the first l >= j with 2/l.

    Each row that sees it as an extreme picks it with probability 1/2, so k such rows in a row all miss it with
    probability 2^-k; once it is no extreme it never is again. Key 1 is picked by row 1. Keys beyond the first 2000 are
    left out, which makes the answer a lower bound there: it lacks about 2 log(n / 2000), which is nothing next to the
    barrier of (n + 1) / 2.
    """
    key = np.arange(2, min(length, 2000) + 1)[:, None]
    rows = np.arange(1, 65)
    last = key + rows - 1
    ends = np.where(last < length, key / last - key / (last + 1), np.where(last == length, key / last, 0.0))
    return 1.0 + float((2 / key[:, 0] * (1 - ends @ 0.5**rows)).sum())
