"""Linear scores against heads that are written down, and against the formula for many dimensions."""

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from rankwise.nn.constructions import linear_scores
from rankwise.tasks import FarthestNeighbor, NearestNeighbor, Orthogonal, linear_scores_error
from rankwise.theory.bounds import error_lower_bound
from rankwise.theory.harmonics import sign_energy


def largest_of(count):
    """The mean of the largest of ``count`` standard normal numbers."""
    return quad(lambda t: t * count * norm.pdf(t) * norm.cdf(t) ** (count - 1), -12, 12)[0]


def test_in_many_dimensions_it_is_what_weights_linear_in_centred_normal_scores_reach():
    limit = 1 - 1 / 15 - largest_of(15) ** 2 / 14
    errors = {
        dim: linear_scores_error(FarthestNeighbor(dim, 16), torch.Generator().manual_seed(0), 512).mean
        for dim in (64, 256, 2048)
    }
    assert errors[64] == pytest.approx(0.694, abs=0.01)
    assert errors[64] < errors[256] < errors[2048] == pytest.approx(limit, abs=0.01)


@pytest.mark.parametrize("rank", [1, 8, 32])
def test_heads_of_any_rank_reach_it_on_new_points(rank):
    """``a x_i + b mean(x) + c heads(x)`` with the best of three numbers, fitted on half of the points."""
    task, source = FarthestNeighbor(64, 16), torch.Generator().manual_seed(1)
    heads = linear_scores(64, rank, 1e-3, dtype=torch.float64)
    batch = task.sample(4096, source, dtype=torch.float64)
    with torch.no_grad():
        features = torch.cat((task.features(batch), heads(batch.points)[None])).flatten(1, 2)
    half, targets = features.shape[1] // 2, batch.targets.flatten(0, 1)
    gram = torch.einsum("fnd,gnd->fg", features[:, :half], features[:, :half])
    best = torch.linalg.solve(gram, torch.einsum("fnd,nd->f", features[:, :half], targets[:half]))
    error = (torch.einsum("f,fnd->nd", best, features[:, half:]) - targets[half:]).square().sum(-1).mean()
    assert error == pytest.approx(linear_scores_error(task, source, 4096).mean, abs=0.01)


@pytest.mark.parametrize("dim", [8, 64])
def test_of_two_orthogonal_points_it_is_the_linear_part_of_the_bound(dim):
    """(1 - eta_1^2) / 2, which d/r heads cannot go below but for what degrees from 3 on bring."""
    found = linear_scores_error(
        NearestNeighbor(dim, 2, distribution=Orthogonal()), torch.Generator().manual_seed(0), 20_000
    )
    assert found.mean == pytest.approx((1 - sign_energy(dim, 1)) / 2, abs=4 * found.standard_error)
    assert error_lower_bound(dim, 1, dim).value <= (1 - sign_energy(dim, 1)) / 2
