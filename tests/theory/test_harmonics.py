import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.theory.harmonics import (
    energy,
    feature_weight,
    gegenbauer,
    half_step,
    harmonic_dim,
    log_coverage,
    sign_eigenvalue,
    sign_energy,
    visible_dim,
)

DIMS = (2, 3, 4, 5, 8, 31, 64, 100, 999, 10_000)
DEGREES = (1, 3, 5, 7, 31, 33, 101, 999)


def sphere(random, points, dim):
    x = random.standard_normal((points, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def cosine_density_nodes(dim, count=100):
    """Nodes t and weights of the law of <x, y> on the sphere, by Gauss' rule in the angle on either side of t = 0."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    angle = (nodes + 1) * math.pi / 4
    weights = weights * np.sin(angle) ** (dim - 2)
    t = np.cos(angle)
    return np.concatenate([t, -t]), np.concatenate([weights, weights]) / (2 * weights.sum())


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("degree", DEGREES)
def test_dimension_eigenvalue_and_energy_agree_with_mpmath(dim, degree):
    with mp.workdps(40):
        count = mp.binomial(dim + degree - 1, degree)
        if degree > 1:
            count -= mp.binomial(dim + degree - 3, degree - 2)
        eigenvalue = (-1) ** ((degree - 1) // 2) * mp.beta(mp.mpf(dim) / 2, mp.mpf(degree) / 2) / mp.pi
        assert abs(harmonic_dim(dim, degree) / count - 1) < 1e-30
        assert abs(sign_energy(dim, degree) / (count * eigenvalue**2) - 1) < 1e-10
        if abs(eigenvalue) > 1e-300:
            assert abs(sign_eigenvalue(dim, degree) / eigenvalue - 1) < 1e-10
        else:
            assert abs(sign_eigenvalue(dim, degree)) < 1e-299


@pytest.mark.parametrize("dim", [3, 4, 8, 17])
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7])
def test_polynomials_and_eigenvalues_by_quadrature(dim, degree):
    t, weight = cosine_density_nodes(dim)
    polynomial = gegenbauer(dim, degree, t)
    assert weight @ polynomial**2 == pytest.approx(1 / harmonic_dim(dim, degree), rel=1e-10)
    assert weight @ (np.sign(t) * polynomial) == pytest.approx(sign_eigenvalue(dim, degree), abs=1e-10)


def test_polynomials_are_chebyshevs_and_legendres():
    t = np.linspace(-1, 1, 41)
    assert gegenbauer(2, 9, t) == pytest.approx(np.cos(9 * np.arccos(t)), abs=1e-12)
    assert gegenbauer(3, 9, t) == pytest.approx(np.polynomial.Legendre.basis(9)(t), abs=1e-12)
    assert gegenbauer(10_000, 5, 1.0) == 1
    assert gegenbauer(7, 0, t) == pytest.approx(np.ones(41))


@pytest.mark.parametrize(("dim", "value"), [(2, 0.8106), (3, 0.75), (8, 0.6776), (64, 0.6416), (10**6, 2 / math.pi)])
def test_linear_energy(dim, value):
    assert sign_energy(dim, 1) == pytest.approx(value, abs=6e-5)


@pytest.mark.parametrize("dim", [2, 3, 8, 64])
def test_energies_sum_to_one_and_expand_the_arc_sine(dim):
    t = np.array([-0.7, 0.1, 0.5])
    series = sum(sign_energy(dim, degree) * gegenbauer(dim, degree, t) for degree in range(1, 400, 2))
    assert series == pytest.approx(2 / math.pi * np.arcsin(t), abs=2e-4)
    degrees = np.arange(1.0, 200_000, 2)
    rest = 8 / math.pi**1.5 * half_step(np.array((dim - 1) / 2)) / (2 * 200_000)  # sum of lim l^2 eta^2 / l^2
    assert np.sum(energy(dim, degrees)) + rest == pytest.approx(1, abs=1e-8)


def test_even_degrees_carry_nothing():
    assert sign_energy(5, 4) == sign_eigenvalue(5, 0) == 0


@given(st.integers(2, 10_000), st.integers(1, 10**12))
def test_real_degree_formulas_follow_the_exact_recursions(dim, half):
    degree = 2.0 * half - 1
    n, d = mp.mpf(degree), dim
    ratio = (n / (n + d)) ** 2 * (2 * n + d + 2) / (2 * n + d - 2) * (n + d - 2) * (n + d - 1) / ((n + 1) * (n + 2))
    assert energy(dim, np.array(degree + 2)) / energy(dim, np.array(degree)) == pytest.approx(float(ratio), rel=1e-13)


@pytest.mark.parametrize("dim", [3, 5, 64, 10_000])
@pytest.mark.parametrize("degree", [1, 3, 31, 1001, 10**6 + 1, 10**15 + 1])
def test_coverage_agrees_with_mpmath(dim, degree):
    for rank in sorted({1, 2, dim // 2, dim - 2, dim - 1} - {0}):
        with mp.workdps(40):
            seen = mp.loggamma(rank + degree) - mp.loggamma(degree + 1) - mp.loggamma(rank)
            there = mp.loggamma(degree + dim - 2) - mp.loggamma(degree + 1) - mp.loggamma(dim - 1)
            exact = seen - there - mp.log(2 * degree + dim - 2)
        allowed = 1e-15 * (1 + min(degree, dim) * math.log(dim + degree))
        assert abs(float(log_coverage(dim, rank, np.array(float(degree))) - exact)) < allowed


@pytest.mark.parametrize(("dim", "rank", "degree"), [(3, 1, 3), (3, 2, 3), (4, 2, 5), (5, 3, 3), (6, 5, 2), (7, 4, 3)])
def test_visible_dimension_is_the_rank_of_a_gram_matrix(dim, rank, degree):
    """Degree-l harmonics seen through a projection are spanned by P_l(<a, .>), a in the subspace."""
    count = visible_dim(rank, degree)
    directions = sphere(np.random.default_rng(1), 3 * count + 5, rank)
    gram = gegenbauer(dim, degree, np.clip(directions @ directions.T, -1, 1))
    assert np.linalg.matrix_rank(gram, tol=1e-9) == count
    assert count <= harmonic_dim(dim, degree)


def test_full_projection_sees_everything():
    directions = sphere(np.random.default_rng(1), 60, 3)
    gram = gegenbauer(3, 3, np.clip(directions @ directions.T, -1, 1))
    assert np.linalg.matrix_rank(gram, tol=1e-9) == harmonic_dim(3, 3) < visible_dim(3, 3)


@pytest.mark.parametrize("degrees", [3, [3], [1, 5]])
def test_feature_weights_represent_the_truncated_sign(degrees):
    """T u, T the map u -> E[u(<q,k>) sgn<q,y> sgn<k,x>], is the sign of <x, y> truncated to u's degrees."""
    dim, random = 3, np.random.default_rng(2)
    q, k = sphere(random, 400_000, dim), sphere(random, 400_000, dim)
    x, y = np.array([1.0, 0, 0]), np.array([0.96, 0.28, 0])
    sample = feature_weight(dim, np.clip(np.sum(q * k, axis=1), -1, 1), degrees) * np.sign(q @ y) * np.sign(k @ x)
    chosen = (1, 3) if degrees == 3 else degrees
    truncated = sum(sign_eigenvalue(dim, n) * harmonic_dim(dim, n) * gegenbauer(dim, n, x @ y) for n in chosen)
    assert abs(sample.mean() - truncated) < 4 * sample.std() / math.sqrt(len(sample))
    assert abs(truncated) > 6 * sample.std() / math.sqrt(len(sample))  # the check could fail


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: harmonic_dim(1, 3), "dim: expected at least 2, got 1"),
        (lambda: harmonic_dim(3, -1), "degree: expected at least 0"),
        (lambda: visible_dim(0, 3), "rank: expected at least 1"),
        (lambda: sign_energy(3.0, 1), "dim: expected a whole number"),
        (lambda: gegenbauer(3, 2, 1.5), r"t: expected cosines in \[-1, 1\]"),
        (lambda: gegenbauer(3, 2, float("nan")), "t: expected cosines"),
        (lambda: feature_weight(3, 0.5, [2]), "degrees: expected odd degrees"),
        (lambda: feature_weight(3, 0.5, 0), "degrees: expected at least 1"),
        (lambda: feature_weight(10_000, 0.5, 999), "leaves the range of floats"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
