"""Fitted and sampled baselines against closed forms that share no code with them."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln

from rankwise.errors import InvalidInputError
from rankwise.tasks import BiasedNearestNeighbor, FarthestNeighbor, NearestNeighbor, PowerLaw, Rows, fit_linear


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def extreme_coordinate(dim, count):
    """E[M] and E[M t] for M the largest of ``count`` i.i.d. coordinates of uniform unit vectors and t another of them.

    Given M, the others are i.i.d. with the density f cut at M, and int_{-1}^M t f = -c (1-M^2)^((d-1)/2) / (d-1).
    """
    law = stats.beta((dim - 1) / 2, (dim - 1) / 2, loc=-1, scale=2)
    scale = math.exp(gammaln(dim / 2) - gammaln((dim - 1) / 2)) / math.sqrt(math.pi)
    first = quad(lambda m: m * count * law.pdf(m) * law.cdf(m) ** (count - 1), -1, 1, limit=200)[0]
    if count == 1:
        return first, 0.0

    def product(m):
        lower = -scale / (dim - 1) * (1 - m * m) ** ((dim - 1) / 2)
        return m * count * law.pdf(m) * law.cdf(m) ** (count - 2) * lower

    return first, quad(product, -1, 1, limit=200)[0]


def best_linear_nearest(dim, points):
    """1 - c^T G^-1 c for features (y, mean x): G = diag(1, 1/N), c = (E M, (1 + (N-1) E[M t]) / N)."""
    largest, product = extreme_coordinate(dim, points)
    return 1 - largest**2 - (1 + (points - 1) * product) ** 2 / points


def best_linear_farthest(dim, points):
    """The same for features (x_i, mean x), among the N - 1 other points."""
    largest, product = extreme_coordinate(dim, points - 1)
    gram = np.array([[1, 1 / points], [1 / points, 1 / points]])
    moment = np.array([-largest, (1 - largest + (points - 2) * product) / points])
    return 1 - moment @ np.linalg.solve(gram, moment)


@pytest.mark.parametrize(("points", "published"), [(4, 0.659), (16, 0.891), (64, 0.903), (256, 0.877)])
def test_best_linear_predictor_of_the_papers_farthest_task(points, published):
    exact = best_linear_farthest(64, points)
    assert exact == pytest.approx(published, abs=1.5e-3)
    found = FarthestNeighbor(64, points).baselines(seeded(), samples=64 * 256 // points)
    assert abs(found.linear.mean - exact) < 4 * found.linear.standard_error + 1e-3
    assert found.linear.standard_error < 5e-3


@pytest.mark.parametrize(("dim", "points"), [(3, 2), (8, 5), (64, 16)])
def test_best_linear_predictor_of_uniform_nearest(dim, points):
    found = NearestNeighbor(dim, points).baselines(seeded(), samples=8192)
    assert abs(found.linear.mean - best_linear_nearest(dim, points)) < 4 * found.linear.standard_error
    assert found.zero.mean == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dim", [2, 8, 64])
def test_two_orthonormal_points(dim):
    """Zero costs 1, the mean of two orthonormal points 1/2, the best linear map 1/2 - (E|t|)^2 / 2, t = <w, y>."""
    found = NearestNeighbor(dim, 2, distribution="orthogonal").baselines(seeded(), samples=8192)
    expected_margin = math.exp(gammaln(dim / 2) - gammaln((dim + 1) / 2)) / math.sqrt(math.pi)
    assert found.zero.mean == pytest.approx(1, abs=1e-6)
    assert found.mean.mean == pytest.approx(0.5, abs=1e-6)
    assert abs(found.linear.mean - (1 - expected_margin**2) / 2) < 4 * found.linear.standard_error


def test_orthonormal_points_are_one_over_n_from_their_mean():
    found = NearestNeighbor(9, 6, distribution="orthogonal").baselines(seeded(), samples=64)
    assert found.mean.mean == pytest.approx(1 - 1 / 6, abs=1e-6)


@pytest.mark.parametrize("dim", [2, 16])
def test_one_unbiased_term(dim):
    """E<target, y> = E|<x1-x2, y>|/2 = 1/sqrt(pi d), so the best linear error is 1/2 - 1/(pi d)."""
    found = BiasedNearestNeighbor(dim, [0.0], [3.0]).baselines(seeded(), samples=16384)
    assert found.zero.mean == pytest.approx(9, abs=1e-5)
    assert found.mean.mean == pytest.approx(9 / 2, abs=1e-5)
    assert abs(found.linear.mean - 9 * (0.5 - 1 / (math.pi * dim))) < 4 * found.linear.standard_error


def test_biases_tell_the_two_points_apart():
    """With a bias x_1 wins with probability Phi(b sqrt(d/2)) = p, so (x_1, x_2) alone leave 1 - p^2 - (1-p)^2."""
    dim, bias = 200, 0.05
    p = stats.norm.cdf(bias * math.sqrt(dim / 2))
    without_query = 1 - p**2 - (1 - p) ** 2
    found = BiasedNearestNeighbor(dim, [bias], [1.0]).baselines(seeded(), samples=8192)
    assert abs(found.linear.mean - without_query) < 4 * found.linear.standard_error + 1 / dim
    assert found.linear.mean < found.mean.mean - 0.05


def test_fitted_coefficients_are_the_papers_form():
    """a y + b mean(x): for orthonormal points b = 1 and a = E max_j <x_j, y>."""
    task = NearestNeighbor(8, 2, distribution="orthogonal")
    fitted = fit_linear(task, seeded(), samples=16384)
    margin = math.exp(gammaln(4) - gammaln(4.5)) / math.sqrt(math.pi)
    torch.testing.assert_close(fitted.scalars, torch.tensor([margin / math.sqrt(2), 1.0]).double(), atol=0.01, rtol=0)
    batch = task.sample(7, seeded(1))
    by_hand = fitted.scalars[0] * batch.queries + fitted.scalars[1] * batch.points.mean(1, keepdim=True)
    torch.testing.assert_close(fitted(task.features(batch)), by_hand.float())


def test_where_directions_differ_the_linear_predictor_has_matrices():
    """Vectors with a common mean and unequal variances: a full affine map must beat the best pair of scalars."""
    vectors = torch.randn(3000, 6, generator=seeded()) * torch.tensor([3.0, 1, 1, 0.3, 0.3, 0.3])
    vectors[:, 5] += 1.5
    task = NearestNeighbor(6, 4, distribution=Rows(vectors))
    found = task.baselines(seeded(), samples=8192)
    batch = task.sample(8192, seeded(5))
    features = task.features(batch)[:, :, 0].double()
    targets = batch.targets[:, 0].double()
    scalars = torch.linalg.lstsq(features.flatten(1).T, targets.flatten()).solution
    best_scalars = (targets - torch.einsum("f,fbd->bd", scalars, features)).square().sum(-1).mean()
    inputs = torch.cat((*features, torch.ones(8192, 1)), dim=-1)
    best_affine = (targets - inputs @ torch.linalg.lstsq(inputs, targets).solution).square().sum(-1).mean()
    assert found.linear.mean == pytest.approx(best_affine.item(), abs=4 * found.linear.standard_error + 2e-3)
    assert found.linear.mean < best_scalars - 0.01


def test_no_baseline_depends_on_how_many_examples_fit_in_memory(monkeypatch):
    task = FarthestNeighbor(8, 4, distribution=PowerLaw(1.0))
    whole = task.baselines(seeded(), samples=2000)
    monkeypatch.setattr("rankwise.tasks.baselines._NUMBERS_AT_ONCE", 7 * task.numbers_per_example)
    parts = task.baselines(seeded(), samples=2000)
    for name in ("zero", "mean", "linear"):
        a, b = getattr(whole, name), getattr(parts, name)
        assert abs(a.mean - b.mean) < 4 * (a.standard_error + b.standard_error) + 1e-6
        assert a.standard_error == pytest.approx(b.standard_error, rel=0.2, abs=1e-7)


def test_one_point_is_its_own_mean():
    found = NearestNeighbor(4, 1).baselines(seeded(), samples=256)
    assert found.linear.mean == pytest.approx(0, abs=1e-10)


def test_vectors_that_leave_coordinates_unused_do_not_break_the_fit():
    vectors = torch.randn(500, 3, generator=seeded())
    narrow = NearestNeighbor(3, 4, distribution=Rows(vectors)).baselines(seeded(), samples=2048)
    padded = torch.cat((vectors, torch.zeros(500, 2)), dim=-1)
    wide = NearestNeighbor(5, 4, distribution=Rows(padded)).baselines(seeded(), samples=2048)
    assert wide.linear.mean == pytest.approx(narrow.linear.mean, abs=4 * narrow.linear.standard_error)


def test_too_few_samples_are_refused():
    with pytest.raises(InvalidInputError, match="samples: expected at least 2, got 1"):
        NearestNeighbor(4, 2).baselines(seeded(), samples=1)
