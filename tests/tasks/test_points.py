import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.tasks import Gaussian, NearestNeighbor, Orthogonal, PowerLaw, Rows, Uniform
from rankwise.tasks.points import distinct_indices, orthonormal_frames


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def spiked_covariance(dim):
    factor = torch.randn(dim, dim, generator=seeded(7), dtype=torch.float64)
    return factor @ factor.T


LAWS = [Uniform(), Orthogonal(), PowerLaw(1.5), Gaussian(spiked_covariance(5)), Rows(torch.randn(30, 5) * 40)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_law_draws_unit_vectors_of_the_asked_shape_and_precision(law, dtype):
    points, queries = law.draw(64, 4, 3, 5, seeded(), dtype)
    assert points.shape == (64, 4, 5)
    assert queries.shape == (64, 3, 5)
    assert points.dtype == queries.dtype == dtype
    lengths = torch.cat((points, queries), dim=1).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    nothing = law.draw(2, 4, 0, 5, seeded(), dtype)[1]
    assert nothing.shape == (2, 0, 5)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_the_generator_decides_everything(law):
    torch.manual_seed(1)
    first = law.draw(8, 4, 2, 5, seeded(3), torch.float32)
    torch.manual_seed(2)
    again = law.draw(8, 4, 2, 5, seeded(3), torch.float32)
    other = law.draw(8, 4, 2, 5, seeded(4), torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_coordinate_of_a_uniform_point_has_the_beta_law():
    """(1 + t) / 2 ~ Beta((d-1)/2, (d-1)/2) for the coordinate t of a uniform point of S^{d-1}."""
    points, queries = Uniform().draw(20_000, 1, 1, 5, seeded(), torch.float64)
    for coordinate in (points[:, 0, 0], points[:, 0, 4], queries[:, 0, 2], (points * queries).sum(-1)[:, 0]):
        assert stats.kstest((1 + coordinate.numpy()) / 2, stats.beta(2, 2).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("points", "dim"), [(2, 2), (2, 3), (2, 64), (1, 4), (3, 3), (16, 64)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 4e-6), (torch.float64, 1e-14)])
def test_frames_are_orthonormal_to_rounding(points, dim, dtype, tolerance):
    frames = orthonormal_frames(2000, points, dim, seeded(), dtype)
    gram = frames @ frames.mT
    assert (gram - torch.eye(points, dtype=dtype)).abs().max() < tolerance


def test_two_points_of_the_plane_stay_orthonormal_in_many_draws():
    frames = orthonormal_frames(300_000, 2, 2, seeded(), torch.float32)
    assert (frames @ frames.mT - torch.eye(2)).abs().max() < 4e-6


@pytest.mark.parametrize("points", [1, 2, 3, 4])
def test_frames_are_haar(points):
    """Haar measure is the only law of frames invariant under rotations, so every entry and every fixed functional
    of a frame has the law it has for one uniform unit vector; without the sign fix the QR rows would not."""
    dim, rotation = 4, torch.linalg.qr(torch.randn(4, 4, generator=seeded(9), dtype=torch.float64)).Q
    frames = orthonormal_frames(20_000, points, dim, seeded(), torch.float64)
    coordinate = stats.beta((dim - 1) / 2, (dim - 1) / 2)
    for row in range(points):
        for axis in range(dim):
            entries = (1 + frames[:, row, axis].numpy()) / 2
            assert stats.kstest(entries, coordinate.cdf).pvalue > 1e-4
            turned = (1 + (frames @ rotation)[:, row, axis].numpy()) / 2
            assert stats.kstest(turned, coordinate.cdf).pvalue > 1e-4
    if points >= 2:
        # E[(w . e_1)^4] of w = (x_1 - x_2) / sqrt 2, again a uniform unit vector: 3 / (d (d + 2)).
        w = (frames[:, 0] - frames[:, 1]) / math.sqrt(2)
        fourth = w[:, 0].pow(4)
        assert abs(fourth.mean() - 3 / (dim * (dim + 2))) < 4 * fourth.std() / math.sqrt(len(fourth))


def test_two_orthonormal_points_agree_with_qr_of_the_same_gaussians():
    frames = orthonormal_frames(100, 2, 6, seeded(5), torch.float64)
    gaussian = torch.randn(100, 2, 6, generator=seeded(5), dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian.mT)
    torch.testing.assert_close(frames, (q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]).mT)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.5])
def test_a_power_law_is_the_gaussian_with_that_covariance(alpha):
    """Second moments against an independent integral: E[x_i^2] = l_i/2 int (1 + s l_i)^-1 prod (1 + s l_j)^-1/2 ds."""
    from scipy.integrate import quad

    dim = 4
    eigenvalues = np.arange(1, dim + 1) ** -alpha
    second_moments = [
        value / 2 * quad(lambda s, v=value: 1 / (1 + s * v) / np.sqrt(np.prod(1 + s * eigenvalues)), 0, np.inf)[0]
        for value in eigenvalues
    ]
    by_covariance = Gaussian(torch.diag(torch.tensor(eigenvalues)) * 1e-30)
    for law in (PowerLaw(alpha), by_covariance):
        points = law.draw(40_000, 2, 1, dim, seeded(), torch.float32)[0][:, 1]
        covariance = (points.T @ points / len(points)).numpy()
        np.testing.assert_allclose(covariance, np.diag(second_moments), atol=0.01)
    assert PowerLaw(alpha).isotropic == (alpha == 0)


def test_a_full_covariance_has_its_own_axes():
    covariance = spiked_covariance(5)
    points, queries = Gaussian(covariance).draw(40_000, 1, 1, 5, seeded(), torch.float64)
    axes = torch.linalg.eigh(covariance).eigenvectors
    for drawn in (points[:, 0], queries[:, 0]):
        moments = axes.T @ (drawn.T @ drawn / len(drawn)) @ axes
        assert (moments - torch.diag(moments.diagonal())).abs().max() < 0.01
        assert (moments.diagonal().diff() > 0).all()


def test_rows_are_drawn_normalised_and_without_replacement():
    vectors = np.random.default_rng(0).normal(size=(9, 3)) * np.array([1e-30, 1, 1e30] * 3)[:, None]
    vectors.flags.writeable = False
    law = Rows(vectors)
    points, queries = law.draw(500, 6, 3, 3, seeded(), torch.float64)
    drawn = torch.cat((points, queries), dim=1)
    expected = torch.tensor(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    which = torch.cdist(drawn, expected.expand(500, -1, -1)).argmin(-1)
    torch.testing.assert_close(drawn, expected[which])
    assert torch.equal(which.sort(-1).values, torch.arange(9).expand(500, -1))


@pytest.mark.parametrize(("count", "total"), [(1, 1), (3, 3), (2, 4), (3, 4)])
def test_every_ordered_choice_is_equally_likely(count, total):
    trials = 12_000
    chosen = distinct_indices(trials, count, total, seeded())
    seen = Counter(map(tuple, chosen.tolist()))
    possible = list(permutations(range(total), count))
    assert set(seen) <= set(possible)
    if len(possible) > 1:
        assert stats.chisquare([seen[choice] for choice in possible]).pvalue > 1e-3


def test_choices_from_many_rows_are_distinct_and_cover_the_range():
    chosen = distinct_indices(200, 50, 10**12, seeded())
    assert (chosen.sort(-1).values.diff() > 0).all()
    assert 0.49e12 < chosen.double().mean() < 0.51e12


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda: Rows(torch.full((4, 2), math.nan)), InvalidInputError, "got NaN or infinity in 4 of 4 rows"),
        (lambda: Rows([[1.0, 2.0], [0.0, 0.0]]), InvalidInputError, "got 1 zero rows; the first is row 1"),
        (lambda: Rows(torch.ones(4)), ShapeError, r"two dimensions, none empty, got shape \[4\]"),
        (lambda: Rows(torch.ones(0, 4)), ShapeError, r"got shape \[0, 4\]"),
        (lambda: Rows("words"), InvalidInputError, "expected a matrix of numbers, got str"),
        (lambda: Rows(torch.ones(2, 2, dtype=torch.complex64)), InvalidInputError, "expected real numbers"),
        (lambda: PowerLaw(-1), InvalidInputError, "alpha: expected a finite number of at least 0, got -1"),
        (lambda: PowerLaw(math.nan), InvalidInputError, "alpha: expected a finite number"),
        (lambda: PowerLaw(True), InvalidInputError, "alpha: expected a finite number"),
        (lambda: Gaussian(torch.ones(2, 3)), ShapeError, r"square matrix \[D, D\], got \[2, 3\]"),
        (lambda: Gaussian(torch.zeros(2, 2)), InvalidInputError, "got the zero matrix"),
        (lambda: Gaussian(torch.tensor([[1.0, 2.0], [0.0, 1.0]])), InvalidInputError, "differs from its transpose"),
        (lambda: Gaussian(torch.diag(torch.tensor([1.0, -0.5]))), InvalidInputError, "no negative variance"),
        (lambda: NearestNeighbor(4, 5, distribution="orthogonal"), InvalidInputError, "at most dim=4 .* got 5"),
        (lambda: NearestNeighbor(4, 3, distribution=Rows(torch.ones(3, 4))), InvalidInputError, "at least 4 rows"),
        (lambda: NearestNeighbor(4, 2, distribution=Rows(torch.ones(3, 5))), ShapeError, r"dim = 4, got \[3, 5\]"),
        (lambda: NearestNeighbor(4, 2, distribution=Gaussian(torch.eye(3))), ShapeError, r"dim = 4, got \[3, 3\]"),
        (lambda: NearestNeighbor(4, 2, distribution="uniforn"), InvalidInputError, "'uniform', 'orthogonal' or a law"),
        (lambda: NearestNeighbor(4, 2, distribution=Uniform), InvalidInputError, "or a law"),
    ],
)
def test_nonsense_is_refused_with_what_was_expected(build, kind, message):
    with pytest.raises(kind, match=message):
        build()
