"""Linear scores against heads that are written down, and against the formula for many dimensions."""

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from rankwise.nn.constructions import linear_scores
from rankwise.tasks import FarthestNeighbor, NearestNeighbor, linear_scores_error


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


def test_queries_that_are_no_points_have_linear_scores_too():
    task = NearestNeighbor(16, 2)
    found = linear_scores_error(task, torch.Generator().manual_seed(0), 4096)
    linear = task.baselines(torch.Generator().manual_seed(0), 4096).linear
    assert found.mean < linear.mean - 10 * linear.standard_error
