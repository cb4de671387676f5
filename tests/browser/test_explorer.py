"""The closed forms in the browser against those in Python, and the sliders that ask for them."""

import json

import pytest

from rankwise.shapes import ModelShape
from rankwise.theory.bounds import error_lower_bound, heads_required_log10
from rankwise.theory.occupancy import hardmax_rank_mean
from rankwise.theory.saturation import saturation_dim

SHAPES = [
    *((2, 1, 1), (2, 1, 1.5), (3, 1, 1), (3, 1, 50_000), (3, 2, 2), (4, 2, 7), (8, 4, 16), (8, 7, 1), (8, 7, 3)),
    *((16, 8, 64), (16, 14, 4096), (64, 1, 24560), (64, 8, 512), (64, 63, 1), (64, 62, 100), (64, 64, 1), (128, 64, 8)),
    *(
        (512, 64, 8),
        (512, 500, 3),
        (768, 64, 12),
        (1024, 1000, 64),
        (4096, 128, 32),
        (4096, 4094, 4096),
        (16384, 16000, 9),
    ),
]


def ask(driver, function, *arguments):
    call = f"return rankwise.{function}(...JSON.parse(arguments[0]))"
    return driver.execute_script(call, json.dumps(arguments))


@pytest.mark.parametrize("values", ["scaled_identity", "any"])
def test_bound(opened, values):
    for dim, rank, heads in SHAPES:
        expected = error_lower_bound(dim, rank, heads, values=values)
        found = ask(opened, "errorLowerBound", dim, rank, heads, values == "any")
        assert found == pytest.approx(expected.value, rel=1e-8, abs=1e-12), (dim, rank, heads)


def test_heads_that_cannot_reach_an_error(opened):
    for dim, rank, error in [
        (8, 1, 0.1),
        (64, 8, 0.05),
        (64, 32, 0.05),
        (64, 63, 0.01),
        (512, 64, 0.05),
        (4096, 128, 0.1),
    ]:
        expected = heads_required_log10(dim, rank, error)
        assert ask(opened, "headsRequiredLog10", dim, rank, error) == pytest.approx(expected, rel=1e-7), (dim, rank)


def test_barrier(opened):
    for length in (1, 2, 3, 17, 256, 4096, 2**20):
        for mask in ("full", "causal"):
            found = ask(opened, "hardmaxRankMean", length, mask)
            assert found == pytest.approx(hardmax_rank_mean(length, mask), rel=1e-12)
        for window in (1, 2, 5, 16, 300, 5000):
            found = ask(opened, "hardmaxRankMean", length, "window", window)
            assert found == pytest.approx(hardmax_rank_mean(length, "window", window), rel=1e-10), (length, window)


def test_parameters_and_cache(opened):
    for dim, heads, kv_heads, rank, layers in [(64, 8, 8, 8, 1), (4096, 32, 8, 128, 32), (768, 12, 1, 64, 12)]:
        shape = ModelShape(
            name="", dim=dim, heads=heads, kv_heads=kv_heads, rank=rank, value_rank=rank, layers=layers,
            cached_layers=layers,
        )  # fmt: skip
        values = {"dim": dim, "heads": heads, "kvHeads": kv_heads, "rank": rank, "layers": layers}
        assert ask(opened, "storedParameters", values) == shape.stored_parameters
        assert ask(opened, "kvBytesPerToken", values) == shape.kv_bytes_per_token


def type_in(driver, name, value):
    script = (
        "const b = document.querySelector(arguments[0]); b.value = arguments[1]; b.dispatchEvent(new Event('input'))"
    )
    driver.execute_script(script, f"#{name}", str(value))


def answer(driver, name):
    return driver.execute_script("return document.querySelector(arguments[0]).textContent", f"#answer-{name}")


def test_sliders_recompute_every_answer(opened):
    for name, value in (("n-dim", 64), ("n-rank", 16), ("n-heads", 4), ("n-kv-heads", 4), ("n-layers", 2)):
        type_in(opened, name, value)
    assert float(answer(opened, "bound")) == pytest.approx(error_lower_bound(64, 16, 4).value, abs=5e-5)
    assert answer(opened, "parameters") == "16,384"
    assert answer(opened, "kv") == "512 B"
    type_in(opened, "x-rank", opened.execute_script("return document.querySelector('#x-rank').max"))
    assert answer(opened, "bound") == "0"  # full rank
    assert opened.execute_script("return document.querySelector('#n-rank').value") == "64"
    opened.execute_script(
        "const s = document.querySelector('#x-rank'); s.value = 0; s.dispatchEvent(new Event('input'))"
    )
    assert float(answer(opened, "bound")) == pytest.approx(error_lower_bound(64, 1, 4).value, abs=5e-5)


def test_length_and_mask_move_barrier_and_plateau(opened):
    type_in(opened, "n-length", 1024)
    for mask in ("full", "causal"):
        type_in(opened, "x-mask", mask)
        assert float(answer(opened, "barrier").replace(",", "")) == pytest.approx(
            hardmax_rank_mean(1024, mask), rel=1e-4
        )
        assert answer(opened, "plateau") == str(saturation_dim(1024, mask=mask).value)
    hidden = "return document.querySelector('#x-window').closest('p').hidden"
    assert opened.execute_script(hidden)
    type_in(opened, "x-mask", "window")
    assert not opened.execute_script(hidden)
    type_in(opened, "n-window", 64)
    expected = hardmax_rank_mean(1024, "window", 64)
    assert float(answer(opened, "barrier").replace(",", "")) == pytest.approx(expected, rel=1e-4)
    assert answer(opened, "plateau") == str(saturation_dim(1024, mask="window", window=64).value)


def test_rank_never_exceeds_the_dimension_and_key_heads_divide(opened):
    type_in(opened, "n-rank", 64)
    type_in(opened, "n-dim", 32)
    assert opened.execute_script("return document.querySelector('#n-rank').value") == "32"
    type_in(opened, "n-heads", 12)
    type_in(opened, "n-kv-heads", 5)
    assert 12 % int(opened.execute_script("return document.querySelector('#n-kv-heads').value")) == 0
