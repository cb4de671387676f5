import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import betainc

from rankwise.errors import InvalidInputError
from rankwise.theory.bounds import (
    error_lower_bound,
    error_lower_bound_paired,
    heads_required,
    heads_required_log10,
    rank_required,
    rank_required_at_standard_scaling,
)
from rankwise.theory.harmonics import energy, gegenbauer, harmonic_dim, log_coverage, sign_energy, visible_dim

VALUES = ("scaled_identity", "any")


def exact_bound(dim, rank, heads, values):
    """The sum itself: term by term where the coverage is used up or fades, mpmath's summation of the smooth rest."""

    def share(degree):
        seen = (degree,) if values == "scaled_identity" else (degree - 2, degree, degree + 2)
        counts = [mp.binomial(rank + j - 1, j) for j in seen if j > -0.5]
        return (
            mp.fsum(counts)
            * mp.gamma(dim - 1)
            * mp.gamma(degree + 1)
            / mp.gamma(degree + dim - 2)
            / (2 * degree + dim - 2)
        )

    def share_of_energy(degree):
        eigenvalue = mp.beta(mp.mpf(dim) / 2, mp.mpf(degree) / 2) / mp.pi
        count = (2 * degree + dim - 2) * mp.gamma(degree + dim - 2) / mp.gamma(degree + 1) / mp.gamma(dim - 1)
        return count * eigenvalue**2

    def covered_from(degree):
        return mp.nsum(lambda j: share_of_energy(degree + 2 * j) * share(degree + 2 * j), [0, mp.inf])

    with mp.workdps(30):
        heads, left, total, degree = mp.mpf(heads), mp.mpf(1), mp.mpf(0), 1
        while True:
            open_part = 1 - heads * share(mp.mpf(degree))
            if 1 - open_part < mp.mpf(10) ** -25:
                return float((total + left) / 2)
            if open_part > 0 and degree > max(20, 5 * dim):
                return float((total + left - heads * covered_from(degree)) / 2)
            here = share_of_energy(mp.mpf(degree))
            total += here * max(0, open_part)
            left -= here
            degree += 2


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(
    ("dim", "rank", "heads"),
    [
        (3, 1, 0.5),
        (3, 1, 30.0),
        (3, 2, 0.6),
        (4, 2, 3.0),
        (8, 1, 100.0),
        (8, 6, 2.0),
        (64, 1, 2.5e4),
        (64, 1, 1e18),
        (64, 32, 2.0),
        (1000, 1, 1e9),
        (1000, 500, 1e3),
        (10_000, 1, 1e5),
        (10_000, 3000, 50.0),
    ],
)
def test_bound_is_right_to_its_own_truncation_error(dim, rank, heads, values):
    bound = error_lower_bound(dim, rank, heads, values=values)
    assert bound.truncation_error < 1e-11
    assert abs(bound.value - exact_bound(dim, rank, heads, values)) <= bound.truncation_error + 1e-15


@pytest.mark.parametrize(("rank", "heads"), [(61, 1.5), (60, 3.0)])
def test_bound_against_two_million_terms(rank, heads):
    """Coverages that fade too slowly for mpmath; beyond the last term they add less than 1e-15."""
    dim, degrees = 64, np.arange(1.0, 4e6, 2)
    energies = energy(dim, degrees)
    left = np.maximum(0, 1 - heads * np.exp(log_coverage(dim, rank, degrees)))
    bound = error_lower_bound(dim, rank, heads)
    assert (energies @ left + 1 - energies.sum()) / 2 == pytest.approx(bound.value, abs=bound.truncation_error + 1e-13)


@pytest.mark.parametrize(("error", "heads"), [(0.15, 2.5e4), (0.1, 2.3e7), (0.05, 1.6e18)])
def test_heads_required_in_dimension_64(error, heads):
    assert heads_required(64, 1, error) == pytest.approx(heads, rel=0.02)


@pytest.mark.parametrize(("dim", "error"), [(8, 0.161), (64, 0.179)])
def test_plateau_of_the_linear_part(dim, error):
    """Between d and d^3 heads of rank 1 only the linear part is covered."""
    linear_only = (1 - sign_energy(dim, 1)) / 2
    assert linear_only == pytest.approx(error, abs=5e-4)
    assert error_lower_bound(dim, 1, dim).value == pytest.approx(
        linear_only - sum(sign_energy(dim, n) * dim / harmonic_dim(dim, n) for n in (3, 5, 7, 9, 11, 13)) / 2, abs=1e-5
    )


@pytest.mark.parametrize("rank", [8, 64, 128, 512])
def test_standard_scaling_buys_the_linear_part(rank):
    dim = 4096
    assert error_lower_bound(dim, rank, dim / rank).value == pytest.approx((1 - sign_energy(dim, 1)) / 2, abs=4e-3)


def test_needed_rank_at_standard_scaling():
    assert rank_required_at_standard_scaling(64, 0.1) == 57
    assert rank_required_at_standard_scaling(768, 0.1) == 698
    for rank, below in ((56, False), (57, True)):
        assert (error_lower_bound(64, rank, 64 / rank).value < 0.1) is below


def test_palm_buys_two_thirds_of_the_linear_part():
    assert error_lower_bound(18432, 256, 48).value == pytest.approx(0.288, abs=5e-4)


@pytest.mark.parametrize(("dim", "rank"), [(3, 1), (4, 2), (8, 3), (16, 15), (64, 32)])
def test_one_head_leaves_the_conditional_variance(dim, rank):
    """LB(d, r, 1) = 1/2 E Var(sgn<w, y> | P w, y), P the projection to r coordinates."""
    random, samples = np.random.default_rng(3), 200_000
    w, y = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in random.standard_normal((2, samples, dim)))
    seen = np.sum(w[:, :rank] * y[:, :rank], axis=1)
    reach = np.linalg.norm(w[:, rank:], axis=1) * np.linalg.norm(y[:, rank:], axis=1)
    threshold = np.clip(seen / reach, -1, 1)
    if dim - rank == 1:  # what is left of w is +-1
        mean_sign = np.where(np.abs(threshold) < 1, 0.0, np.sign(threshold))
    else:  # E sgn(threshold + v), v a coordinate of the sphere of what is left
        mean_sign = np.sign(threshold) * betainc(0.5, (dim - rank - 1) / 2, threshold**2)
    sample = (1 - mean_sign**2) / 2
    assert abs(sample.mean() - error_lower_bound(dim, rank, 1).value) < 4 * sample.std() / math.sqrt(samples)


@pytest.mark.parametrize("values", VALUES)
def test_no_heads_and_full_rank_are_exact(values):
    assert error_lower_bound(8, 3, 0, values=values).value == 0.5
    assert error_lower_bound(8, 8, 1, values=values) == error_lower_bound(8, 8, 1e300, values=values)
    assert error_lower_bound(8, 8, 1, values=values).value == 0
    assert rank_required(8, 1, 1e-300) == 8


def test_the_circle():
    assert error_lower_bound(2, 1, 1).value == 0.25
    assert error_lower_bound(2, 1, 2).value == 0
    assert heads_required(2, 1, 0.1) == pytest.approx(1.6)
    linear = sign_energy(2, 1)
    for heads in (0.3, 0.6, 0.8, 1.2):
        exact = (linear * max(0, 1 - heads) + (1 - linear) * max(0, 1 - 1.5 * heads)) / 2
        assert error_lower_bound(2, 1, heads, values="any").value == pytest.approx(exact, abs=1e-14)
        if exact:
            assert heads_required(2, 1, exact, values="any") == pytest.approx(heads)


@st.composite
def shapes(draw, largest=10_000):
    dim = draw(st.integers(2, largest))
    return dim, draw(st.integers(1, dim))


heads_of_any_size = st.floats(-6, 300).map(lambda exponent: 10.0**exponent) | st.integers(0, 10**320)


@given(shapes(), heads_of_any_size, st.sampled_from(VALUES))
@settings(max_examples=80)
def test_bound_stays_between_nothing_and_trivial(shape, heads, values):
    bound = error_lower_bound(*shape, heads, values=values)
    assert 0 <= bound.value <= 0.5
    assert 0 <= bound.truncation_error < 1e-11


@given(shapes(2000), heads_of_any_size, st.floats(1, 100), st.sampled_from(VALUES))
@settings(max_examples=30)
def test_bound_never_rises_with_heads(shape, heads, factor, values):
    assume(heads < 1e300)
    few, many = (error_lower_bound(*shape, h, values=values) for h in (heads, heads * factor))
    assert many.value <= few.value + few.truncation_error


@given(shapes(2000), st.floats(0, 30), st.integers(1, 50), st.sampled_from(VALUES))
@settings(max_examples=30)
def test_bound_never_rises_with_rank_and_never_falls_with_dim(shape, exponent, more, values):
    dim, rank = shape
    heads = 10**exponent
    here = error_lower_bound(dim, rank, heads, values=values)
    if rank + more <= dim:
        higher_rank = error_lower_bound(dim, rank + more, heads, values=values)
        assert higher_rank.value <= here.value + here.truncation_error
    wider = error_lower_bound(dim + more, rank, heads, values=values)
    assert here.value <= wider.value + wider.truncation_error


@given(shapes(300), st.floats(0, 6))
@settings(max_examples=20)
def test_any_values_bound_is_lower(shape, exponent):
    heads = 10**exponent
    free, own = error_lower_bound(*shape, heads, values="any"), error_lower_bound(*shape, heads)
    assert free.value <= own.value + own.truncation_error


def test_shares_fall_with_the_degree():
    """What the summation relies on, exactly; the circle with any values is the one exception and is summed apart."""
    degrees = range(1, 42, 2)
    for dim in range(2, 26):
        for rank in range(1, dim):
            seen = {n: visible_dim(rank, n) for n in range(1, 45, 2)}
            own = [Fraction(seen[n], harmonic_dim(dim, n)) for n in degrees]
            free = [Fraction(seen.get(n - 2, 0) + seen[n] + seen[n + 2], harmonic_dim(dim, n)) for n in degrees]
            assert own == sorted(own, reverse=True)
            assert free == sorted(free, reverse=True) or dim == 2
            if 2 * rank > dim:
                shared = [Fraction(visible_dim(2 * rank - dim, n), harmonic_dim(dim, n)) for n in degrees]
                pair = [2 * one - both for one, both in zip(own, shared, strict=True)]
                assert pair == sorted(pair, reverse=True)


@given(shapes(3000), st.floats(-12, math.log10(0.4999)), st.sampled_from(VALUES))
@settings(max_examples=20)
def test_heads_required_inverts_the_bound(shape, exponent, values):
    error = 10**exponent
    log_heads = heads_required_log10(*shape, error, values=values)
    assert math.isfinite(log_heads)
    if log_heads < 280:
        bound = error_lower_bound(*shape, 10**log_heads, values=values)
        # 10**x keeps x's absolute accuracy, and the steepest relative slope of LB is 1/error
        assert bound.value == pytest.approx(error, abs=2e-11 + 1e-12 * abs(log_heads), rel=1e-9)


def test_heads_required_beyond_the_floats():
    assert heads_required(10_000, 1, 1e-3) == math.inf
    assert heads_required_log10(10_000, 1, 1e-3) == pytest.approx(8442.42, abs=0.01)
    assert math.isfinite(heads_required_log10(10_000, 5000, 5e-324))
    assert heads_required(64, 1, 0.5) == 0
    assert heads_required_log10(64, 1, 0.5) == pytest.approx(-323.3, abs=0.1)
    assert heads_required(8, 8, 0.1) == pytest.approx(0.8)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(("dim", "rank", "error"), [(3, 1, 1e-13), (5, 2, 1e-12), (64, 60, 1e-11), (3, 2, 1e-9)])
def test_power_law_and_summed_branches_meet(dim, rank, error, values):
    """Both sides of the degree from which everything is a power law give the same curve."""
    here, far = (heads_required_log10(dim, rank, error / scale, values=values) for scale in (1, 1e9))
    decay = dim - 1 - rank
    assert far - here == pytest.approx(9 * decay, abs=1e-4)


def test_limit_of_large_dimension():
    """H = d^(l+1/2) heads of rank 1 cover degrees up to l, and the energies are the arc sine's Taylor coefficients.

    Their tails fall like .508/sqrt(l), so log_d H* grows like .0645/eps^2 and not like the informal 1/eps.
    """
    dim, left, tails = 10**9, 1.0, {}
    for degree in range(1, 2002, 2):
        left -= 2 / math.pi * float(Fraction(math.comb(degree - 1, degree // 2), 2 ** (degree - 1) * degree))
        tails[degree] = left / 2
    for degree in (1, 3, 5, 7, 9):
        assert error_lower_bound(dim, 1, dim ** (degree + 0.5)).value == pytest.approx(tails[degree], rel=3e-5)
    assert tails[2001] ** 2 * 2002 == pytest.approx(0.0645, rel=1e-3)


@given(st.integers(3, 200), st.data())
@settings(max_examples=15)
def test_rank_required_is_the_first_rank_the_bound_allows(dim, data):
    heads, error = data.draw(st.floats(1, 1e6)), data.draw(st.floats(1e-6, 0.5))
    rank = rank_required(dim, heads, error)
    assert error_lower_bound(dim, rank, heads).value < error
    assert rank == 1 or error_lower_bound(dim, rank - 1, heads).value >= error


def test_paired_bound_is_sharper_where_subspaces_must_meet():
    assert error_lower_bound_paired(8, 6, 2).value > error_lower_bound(8, 6, 2).value + 0.01
    assert error_lower_bound_paired(8, 4, 2) == error_lower_bound(8, 4, 2)
    assert error_lower_bound_paired(8, 6, 1) == error_lower_bound(8, 6, 1)
    assert error_lower_bound_paired(8, 7, 2).value == pytest.approx(0, abs=1e-12)
    assert error_lower_bound_paired(8, 8, 2).value == error_lower_bound_paired(2, 1, 2).value == 0
    assert error_lower_bound_paired(8, 6, 0).value == 0.5


@given(shapes(300), st.integers(0, 50))
@settings(max_examples=30)
def test_paired_bound_is_never_lower(shape, heads):
    paired, plain = error_lower_bound_paired(*shape, heads), error_lower_bound(*shape, heads)
    assert plain.value - plain.truncation_error <= paired.value <= 0.5


@pytest.mark.parametrize(("dim", "rank", "heads"), [(8, 6, 2), (8, 6, 3), (5, 3, 4), (64, 40, 2)])
def test_paired_bound_against_the_sum(dim, rank, heads):
    total, left = 0.0, 1.0
    for degree in range(1, 2001, 2):
        shared = visible_dim(2 * rank - dim, degree)
        seen = Fraction(heads * visible_dim(rank, degree) - heads // 2 * shared, harmonic_dim(dim, degree))
        here = sign_energy(dim, degree)
        total, left = total + here * max(0.0, 1 - float(seen)), left - here
    bound = error_lower_bound_paired(dim, rank, heads)
    assert (total + left * max(0.0, 1 - float(seen))) / 2 <= bound.value + bound.truncation_error
    assert bound.value <= (total + left) / 2 + 1e-14
    assert left < 6e-3


@pytest.mark.parametrize(("dim", "rank", "degree"), [(5, 3, 3), (4, 3, 2), (4, 3, 3), (6, 4, 3)])
def test_two_heads_see_what_the_paired_bound_counts(dim, rank, degree):
    random = np.random.default_rng(4)
    directions = []
    for _ in range(2):
        basis = np.linalg.qr(random.standard_normal((dim, rank)))[0]
        directions.append(random.standard_normal((3 * visible_dim(rank, degree), rank)) @ basis.T)
    both = np.concatenate(directions)
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    gram = gegenbauer(dim, degree, np.clip(both @ both.T, -1, 1))
    expected = 2 * visible_dim(rank, degree) - visible_dim(2 * rank - dim, degree)
    assert np.linalg.matrix_rank(gram, tol=1e-9) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: error_lower_bound(8, 9, 1), "rank: expected at most dim=8, got 9"),
        (lambda: error_lower_bound(8, 0, 1), "rank: expected at least 1, got 0"),
        (lambda: error_lower_bound(10**10, 1, 1), "dim: expected at most 1,000,000,000"),
        (lambda: error_lower_bound(1, 1, 1), "dim: expected at least 2, got 1"),
        (lambda: error_lower_bound(8, 2, -1), "heads: expected a finite number of at least 0, got -1"),
        (lambda: error_lower_bound(8, 2, math.nan), "heads: expected a finite number"),
        (lambda: error_lower_bound(8, 2, math.inf), "heads: expected a finite number"),
        (lambda: error_lower_bound(8, 2, True), "heads: expected a finite number"),
        (lambda: error_lower_bound(8, 2, 1, values="scaled_identiti"), "did you mean 'scaled_identity'"),
        (lambda: error_lower_bound_paired(8, 2, 1.5), "heads: expected a whole number"),
        (lambda: heads_required(8, 2, 0), r"error: expected a number in \(0, 1/2\], got 0"),
        (lambda: heads_required_log10(8, 2, 0.6), r"error: expected a number in \(0, 1/2\], got 0.6"),
        (lambda: heads_required(8, 2, math.nan), "error: expected a number"),
        (lambda: rank_required(8, 0.5, 0.1), "heads: expected at least 1, got 0.5"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
