import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import gamma

from head_oracle import agreement_and_accuracy, orthonormal_pairs, picks_first, unit
from rankwise.errors import InvalidInputError, ShapeError
from rankwise.theory.harmonics import gegenbauer, harmonic_dim, sign_eigenvalue
from rankwise.theory.kernels import head_accuracy, head_agreement, optimal_weights, random_features


@pytest.mark.parametrize("dim", [2, 3, 7])
def test_agreement_and_accuracy_by_simulation(dim):
    random, samples = np.random.default_rng(5), 200_000
    queries, keys = unit(random.standard_normal((4, dim))), unit(random.standard_normal((4, dim)))
    x, y = orthonormal_pairs(random, samples, dim)
    first = picks_first(x, y, queries, keys)
    nearest = np.sum((x[:, 0] - x[:, 1]) * y, axis=1) > 0
    C, b = agreement_and_accuracy(queries, keys)
    for h in range(4):
        assert abs(np.mean(first[:, h] == nearest) - b[h]) < 4 * math.sqrt(b[h] * (1 - b[h]) / samples)
        for g in range(h):
            assert abs(np.mean(first[:, h] == first[:, g]) - C[g, h]) < 4 * math.sqrt(0.25 / samples)
    assert np.diag(C) == pytest.approx(np.ones(4), abs=1e-7)


def test_agreement_against_mpmath():
    with mp.workdps(30):
        for qq, kk in ((0.3, -0.8), (0.999999, 0.5), (1.0, -1.0), (1e-9, 1e-9)):
            exact = 0.5 + 2 / mp.pi**2 * mp.asin(qq) * mp.asin(kk)
            assert head_agreement(qq, kk) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("dim", [8, 9, 30, 64, 1000, 10_000])
def test_accuracy_against_the_harmonic_series_in_mpmath(dim):
    theta = np.array([0.0, 0.3, 1.2, math.pi / 2, 2.5])
    accuracy = head_accuracy(dim, theta)
    with mp.workdps(30):
        for angle, ours in zip(theta, accuracy, strict=True):
            t = mp.cos(mp.mpf(float(angle)))
            total, before, now = mp.mpf(0), mp.mpf(1), t
            count, eigenvalue = mp.mpf(dim), mp.beta(mp.mpf(dim) / 2, mp.mpf(1) / 2) / mp.pi
            for n in range(1, 400):
                if n % 2:
                    total += count * eigenvalue**3 * now
                    if count * abs(eigenvalue) ** 3 < 1e-16:
                        break
                    eigenvalue *= -mp.mpf(n) / (n + dim)
                before, now = now, ((2 * n + dim - 2) * t * now - n * before) / (n + dim - 2)
                count *= mp.mpf(2 * n + dim) / (2 * n + dim - 2) * (n + dim - 2) / (n + 1)
            assert float(abs(ours - (0.5 + total / 2))) < 1e-11


@pytest.mark.parametrize("dim", [3, 4, 5])
@pytest.mark.parametrize("theta", [0.2, 1.0])
def test_accuracy_in_low_dimension_by_quadrature(dim, theta):
    """2b - 1 = (2/pi) E[sgn<q, y> asin<k, y>] over y, in the two angles of y that matter."""
    norm = gamma(dim / 2) / (math.sqrt(math.pi) * gamma((dim - 1) / 2))
    side_norm = gamma((dim - 1) / 2) / (math.sqrt(math.pi) * gamma((dim - 2) / 2))

    def integrand(beta, alpha):
        cosine = math.cos(theta) * math.cos(alpha) + math.sin(theta) * math.sin(alpha) * math.cos(beta)
        return math.asin(cosine) * math.sin(alpha) ** (dim - 2) * math.sin(beta) ** (dim - 3)

    half = dblquad(integrand, 0, math.pi / 2, 0, math.pi, epsabs=1e-12, epsrel=1e-12)[0]
    assert head_accuracy(dim, theta) == pytest.approx(0.5 + 2 * norm * side_norm * half / math.pi, abs=1e-10)


def test_accuracy_on_the_circle_and_its_symmetry():
    theta = np.linspace(0, math.pi, 33)
    small = np.minimum(theta, math.pi - theta)
    exact = 0.5 + np.sign(math.pi / 2 - theta) * (0.25 - (small / math.pi) ** 2)
    exact[16] = 0.5
    assert head_accuracy(2, theta) == pytest.approx(exact, abs=1e-13)
    assert head_accuracy(6, theta) + head_accuracy(6, theta[::-1]) == pytest.approx(np.ones(33), abs=1e-14)


def test_accuracy_of_aligned_heads_from_the_slides_order():
    """One random head is right with probability 1/2 + .254/sqrt(d)."""
    assert (head_accuracy(10_000, 0.0) - 0.5) * 100 == pytest.approx(0.254, abs=1e-3)


def test_accuracy_series_matches_at_one_angle():
    dim, theta = 5, 0.7
    series = sum(
        harmonic_dim(dim, degree) * sign_eigenvalue(dim, degree) ** 3 * gegenbauer(dim, degree, math.cos(theta))
        for degree in range(1, 800, 2)
    )
    assert head_accuracy(dim, theta) == pytest.approx(0.5 + series / 2, abs=1e-9)


def test_random_features_follow_their_law():
    queries, keys = random_features(8, 20_000, 7)
    assert np.linalg.norm(queries, axis=1) == pytest.approx(np.ones(20_000))
    assert np.linalg.norm(keys, axis=1) == pytest.approx(np.ones(20_000))
    cosine = np.sort(np.sum(queries * keys, axis=1))
    assert np.max(np.abs(cosine - np.linspace(-1, 1, 20_000))) < 2 * 1.95 / math.sqrt(20_000)  # Kolmogorov, 0.1 %
    assert np.abs(np.mean(queries, axis=0)).max() < 4 / math.sqrt(8 * 20_000)
    again, _ = random_features(8, 20_000, 7)
    assert (again == queries).all()


def test_best_weights_against_simulation():
    random, dim, heads, samples = np.random.default_rng(8), 4, 6, 300_000
    queries, keys = random_features(dim, heads, 9)
    weights, error = optimal_weights(queries, keys)
    x, y = orthonormal_pairs(random, samples, dim)
    first = picks_first(x, y, queries, keys)
    nearest = np.where((np.sum((x[:, 0] - x[:, 1]) * y, axis=1) > 0)[:, None], x[:, 0], x[:, 1])
    output = (first @ weights)[:, None] * x[:, 0] + (~first @ weights)[:, None] * x[:, 1]
    sample = np.sum((output - nearest) ** 2, axis=1)
    assert abs(sample.mean() - error) < 4 * sample.std() / math.sqrt(samples)
    for h in range(heads):  # and no weight can be improved
        picked = np.where(first[:, h, None], x[:, 0], x[:, 1])
        slope = np.sum((output - nearest) * picked, axis=1)
        assert abs(slope.mean()) < 4 * slope.std() / math.sqrt(samples)


@pytest.mark.parametrize("dim", [2, 3, 8, 20])
def test_coordinate_heads_have_a_closed_form(dim):
    weights, error = optimal_weights(np.eye(dim), np.eye(dim))
    assert error == pytest.approx(1 - 2 * head_accuracy(dim, 0.0) ** 2 * dim / (dim + 1), abs=1e-12)
    assert weights == pytest.approx(np.full(dim, weights[0]))


@pytest.mark.parametrize(("heads", "error"), [(1, 0.4375), (2, 0.25), (4, 0.1818)])
def test_equispaced_heads_on_the_circle(heads, error):
    angle = np.arange(heads) * math.pi / heads
    q = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert optimal_weights(q, q)[1] == pytest.approx(error, abs=5e-5)


def test_the_law_of_the_features_decides():
    random = np.random.default_rng(10)
    q, k = unit(random.standard_normal((2048, 8))), unit(random.standard_normal((2048, 8)))
    assert optimal_weights(q, q)[1] == pytest.approx(0.326, abs=2e-3)
    assert optimal_weights(q, k)[1] == pytest.approx(0.173, abs=2e-3)
    assert optimal_weights(*random_features(8, 2048, 0))[1] == pytest.approx(0.170, abs=2e-3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: head_accuracy(1, 0.5), InvalidInputError, "dim: expected at least 2"),
        (lambda: head_accuracy(3, 4.0), InvalidInputError, r"theta: expected angles in \[0, pi\]"),
        (lambda: head_agreement(1.1, 0.0), InvalidInputError, "qq: expected inner products of unit vectors"),
        (lambda: random_features(3, 0, 1), InvalidInputError, "heads: expected at least 1"),
        (lambda: optimal_weights(np.ones(3), np.ones(3)), ShapeError, r"queries: expected an array \[heads, dim\]"),
        (lambda: optimal_weights(np.ones((2, 3)), np.ones((3, 3))), ShapeError, r"got \(2, 3\) and \(3, 3\)"),
        (lambda: optimal_weights(np.zeros((2, 3)), np.ones((2, 3))), InvalidInputError, "queries: .* not zero"),
        (lambda: optimal_weights(np.ones((2, 3)), np.full((2, 3), np.nan)), InvalidInputError, "keys: expected finite"),
        (lambda: optimal_weights(np.eye(3), np.eye(3), tolerance=0), InvalidInputError, "tolerance: expected"),
        (lambda: optimal_weights(np.eye(3), np.eye(3), memory=-1), InvalidInputError, "memory: expected"),
    ],
)
def test_nonsense_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
