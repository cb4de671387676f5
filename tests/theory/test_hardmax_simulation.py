"""The simulation against a plain loop, against itself in other block sizes, and against the closed forms."""

import math
import tracemalloc

import numpy as np
import pytest

from rankwise.errors import InvalidInputError
from rankwise.theory import hardmax_simulation
from rankwise.theory.hardmax_simulation import simulate_hardmax_rank
from rankwise.theory.occupancy import hardmax_rank_mean, hardmax_rank_var

_SEEN = [("full", None), ("causal", None), ("window", 5), ("window", 70)]


def plain_loop(length: int, head_dim: int, mask: str, window: int | None, keys: str, trials: int, seed: int) -> float:
    random = np.random.default_rng(seed)
    ranks = []
    for _ in range(trials):
        drawn = random.standard_normal((2 * length, head_dim), dtype=np.float32)
        query, key = drawn[:length], drawn[length:]
        if keys == "unit":
            key = key / np.linalg.norm(key, axis=-1, keepdims=True)
        picks = set()
        for row in range(length):
            first = 0 if window is None else max(0, row - window + 1)
            last = length if mask == "full" else row + 1
            picks.add(first + int(np.argmax(key[first:last] @ query[row])))
        ranks.append(len(picks))
    return float(np.mean(ranks))


@pytest.mark.parametrize(("mask", "window"), _SEEN)
@pytest.mark.parametrize("keys", ["gaussian", "unit"])
def test_equals_a_plain_loop(mask: str, window: int | None, keys: str) -> None:
    simulated = simulate_hardmax_rank(97, 3, mask, window=window, keys=keys, trials=3, seed=4)
    assert simulated.mean == pytest.approx(plain_loop(97, 3, mask, window, keys, trials=3, seed=4), abs=0.34)
    assert simulated.trials == 3


@pytest.mark.parametrize(("mask", "window"), _SEEN)
def test_blocks_do_not_change_the_answer(mask: str, window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulate_hardmax_rank(200, 8, mask, window=window, trials=5, seed=1)
    monkeypatch.setattr(hardmax_simulation, "_SCORES_AT_ONCE", 3000)
    assert simulate_hardmax_rank(200, 8, mask, window=window, trials=5, seed=1) == whole


@pytest.mark.parametrize(("mask", "window"), _SEEN)
def test_unit_keys_of_many_dimensions_reach_the_plateau(mask: str, window: int | None) -> None:
    simulated = simulate_hardmax_rank(128, 400, mask, window=window, keys="unit", trials=150, seed=3)
    assert abs(simulated.mean - hardmax_rank_mean(128, mask, window)) < 4 * simulated.standard_error + 0.1
    if mask in ("full", "causal"):
        spread = simulated.standard_error * math.sqrt(simulated.trials)
        assert spread**2 == pytest.approx(hardmax_rank_var(128, mask), rel=0.4)


def test_other_numbers_of_queries() -> None:
    simulated = simulate_hardmax_rank(60, 300, keys="unit", queries=25, trials=300, seed=0)
    assert abs(simulated.mean - hardmax_rank_mean(60, queries=25)) < 4 * simulated.standard_error + 0.02


def test_sixteen_thousand_tokens_fit_in_little_memory() -> None:
    tracemalloc.start()
    simulated = simulate_hardmax_rank(16_384, 8, "window", window=256, trials=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80e6  # the whole score matrix would be 1.07 GB
    assert 0.2 * 16_384 < simulated.mean < 0.632 * 16_384
    assert math.isnan(simulated.standard_error)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"head_dim": 0}, "head_dim"),
        ({"trials": 0}, "trials"),
        ({"keys": "ball"}, "keys"),
        ({"mask": "causal", "queries": 3}, "queries"),
        ({"mask": "window"}, "window"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}: "):
        simulate_hardmax_rank(**{"length": 8, "head_dim": 4, **arguments})  # type: ignore[arg-type]
