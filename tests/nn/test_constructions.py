"""Constructions against the closed forms of their errors and against brute force."""

import math

import pytest
import torch

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import constructions
from rankwise.tasks import BiasedNearestNeighbor, FarthestNeighbor, NearestNeighbor

DOUBLE = torch.float64


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def measured(module, task, samples=100_000, chunk=20_000, seed=7):
    """Mean squared error and its standard error."""
    source, errors = generator(seed), []
    with torch.no_grad():
        for _ in range(samples // chunk):
            batch = task.sample(chunk, source, dtype=DOUBLE)
            errors.append(task.error(module(batch.queries, batch.points), batch))
    errors = torch.cat(errors)
    return errors.mean().item(), errors.std().item() / math.sqrt(len(errors))


def agreement(q, k):
    return 0.5 + 2 / math.pi**2 * (q @ q.mT).clamp(-1, 1).arcsin() * (k @ k.mT).clamp(-1, 1).arcsin()


@pytest.mark.parametrize(("dim", "points"), [(24, 2), (12, 16), (5, 256)])
def test_exact_nearest_has_no_error_on_1e5_inputs(dim, points):
    module, task, source = (
        constructions.exact_nearest(dim, dtype=DOUBLE),
        NearestNeighbor(dim, points),
        generator(points),
    )
    with torch.no_grad():
        for _ in range(20):
            batch = task.sample(5_000, source, dtype=DOUBLE)
            assert torch.equal(module(batch.queries, batch.points), batch.targets)


@pytest.mark.parametrize(("scale", "chosen"), [(1.0, 1), (10.0, 0)])
def test_a_long_point_wins_without_being_nearest(scale, chosen):
    points = torch.tensor([[[0.8 * scale, 0.6 * scale], [1.0, 0.0]]])
    output = constructions.exact_nearest(2)(torch.tensor([[[1.0, 0.0]]]), points)
    assert torch.equal(output[:, 0], points[:, chosen])


def test_exact_farthest_is_self_attention_on_the_points():
    batch = FarthestNeighbor(9, 12).sample(2_000, generator(), dtype=DOUBLE)
    module = constructions.exact_farthest(9, dtype=DOUBLE)
    assert torch.equal(module(batch.points), batch.targets)
    soft = constructions.exact_farthest(9, beta=1e6, dtype=DOUBLE)
    assert (soft(batch.points) - batch.targets).square().sum(-1).mean() < 1e-3


@pytest.mark.parametrize(("beta", "expected"), [(10, 0.1552), (100, 0.01721)])
def test_softmax_with_beta_has_the_error_of_the_quadrature(beta, expected):
    error, se = measured(
        constructions.exact_nearest(64, beta=beta, dtype=DOUBLE), NearestNeighbor(64, 2, distribution="orthogonal")
    )
    assert abs(error - expected) < 4 * se + 1e-4


def test_beta_multiplies_the_inner_product():
    query, points = torch.randn(1, 1, 5, dtype=DOUBLE), torch.randn(1, 7, 5, dtype=DOUBLE)
    _, weights = constructions.exact_nearest(5, beta=3.0, dtype=DOUBLE)(query, points, return_weights=True)
    torch.testing.assert_close(weights[0, 0, 0], (3.0 * points[0] @ query[0, 0]).softmax(-1))


@pytest.mark.parametrize("bias", [-0.4, 0.0, 0.7])
def test_biased_nearest_is_the_biased_target(bias):
    batch = BiasedNearestNeighbor(6, [bias], [1.0]).sample(5_000, generator(), dtype=DOUBLE)
    module = constructions.biased_nearest(6, bias, dtype=DOUBLE)
    assert torch.equal(module(batch.queries, batch.points), batch.targets)


@pytest.mark.parametrize(("heads", "expected"), [(1, 0.4375), (2, 0.25), (4, 0.1818), (64, 5 / 32)])
def test_equispaced_heads_in_the_plane(heads, expected):
    error, se = measured(
        constructions.equispaced_plane(heads, dtype=DOUBLE), NearestNeighbor(2, 2, distribution="orthogonal")
    )
    assert abs(error - expected) < 4 * se + 2e-4


@pytest.mark.parametrize("optimal", [False, True])
def test_random_rank_one_heads_have_the_error_of_the_kernels(optimal):
    """error(a) = 1 - 2 a.b + a^T C a, with b measured on other examples by brute force."""
    dim, heads = 5, 12
    module = constructions.random_rank_one(dim, heads, generator(3), dtype=DOUBLE)
    k, q = module.keys[:, :, 0].detach(), module.phi.query_weight[:, :, 0].detach()
    torch.testing.assert_close(q.norm(dim=-1), torch.ones(heads, dtype=DOUBLE))
    torch.testing.assert_close(k.norm(dim=-1), torch.ones(heads, dtype=DOUBLE))
    task = NearestNeighbor(dim, 2, distribution="orthogonal")
    batch = task.sample(400_000, generator(11), dtype=DOUBLE)
    votes = ((batch.points @ k.mT) * (batch.queries @ q.mT)).argmax(1)
    b = (votes == task.winners(batch.points, batch.queries)).double().mean(0)
    C = agreement(q, k)
    a = torch.linalg.solve(C, b) if optimal else torch.full((heads,), 1 / heads, dtype=DOUBLE)
    predicted = 1 - 2 * a @ b + a @ C @ a
    module = constructions.random_rank_one(dim, heads, generator(3), weights=a, dtype=DOUBLE)
    error, se = measured(module, task)
    assert abs(error - predicted.item()) < 4 * se + 4e-3


def test_random_directions_have_a_uniform_cosine():
    module = constructions.random_rank_one(6, 4_000, generator(5), dtype=DOUBLE)
    cosine = (module.keys[:, :, 0] * module.phi.query_weight[:, :, 0]).sum(-1).detach()
    assert abs(cosine.mean()) < 0.04
    assert abs(cosine.square().mean() - 1 / 3) < 0.02


def test_random_subspaces_of_full_rank_are_exact_and_half_rank_is_not():
    task = NearestNeighbor(8, 2, distribution="orthogonal")
    error, _ = measured(constructions.random_subspaces(8, 8, 3, generator(), dtype=DOUBLE), task, samples=20_000)
    assert error < 1e-12
    half, _ = measured(constructions.random_subspaces(8, 4, 3, generator(), dtype=DOUBLE), task, samples=20_000)
    assert 0.1 < half < 0.5


def test_majority_vote_reaches_the_accuracy_of_the_quadrature():
    """.91279 is the mean over draws of the heads too; single draws scatter by .005."""
    task = NearestNeighbor(8, 2, distribution="orthogonal")
    accuracies = torch.tensor(
        [
            1
            - measured(constructions.majority_vote(8, 203, generator(seed), dtype=DOUBLE), task, 4_000, 4_000, seed)[0]
            / 2
            for seed in range(40)
        ]
    )
    assert abs(accuracies.mean() - 0.91279) < 4 * accuracies.std() / math.sqrt(len(accuracies))
    assert accuracies.std() < 0.01


def test_soft_vote_needs_only_dim_heads():
    task = NearestNeighbor(64, 2, distribution="orthogonal")
    module = constructions.soft_vote(64, 0.1, dtype=DOUBLE)
    error, _ = measured(module, task, samples=20_000, chunk=5_000)
    assert 1 - error / 2 >= 0.999
    assert module.tally.spec.heads == 64
    assert module.tally.spec.rank == module.tally.spec.value_dim == module.lookup.spec.rank == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: constructions.exact_nearest(4, beta=0.0), InvalidInputError, "beta: expected a finite number above 0"),
        (lambda: constructions.biased_nearest(4, float("nan")), InvalidInputError, "bias: expected a finite number"),
        (lambda: constructions.random_rank_one(4, 0, generator()), InvalidInputError, "heads: expected at least 1"),
        (lambda: constructions.random_rank_one(4, 3, generator(), torch.ones(2)), ShapeError, r"\[heads\] = \[3\]"),
        (
            lambda: constructions.random_subspaces(4, 5, 2, generator()),
            InvalidInputError,
            "rank: expected at most dim=4",
        ),
        (lambda: constructions.soft_vote(4, -1.0), InvalidInputError, "scale: expected a finite number above 0"),
        (
            lambda: constructions.soft_vote(4, 0.1)(torch.zeros(1, 1, 4), torch.zeros(1, 3, 4)),
            ShapeError,
            r"\[B, 2, 4\]",
        ),
        (lambda: constructions.biased_nearest(4, 0.1)(torch.zeros(1, 1, 4), torch.zeros(1, 3, 4)), ShapeError, "2, D"),
    ],
)
def test_nonsense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(("dim", "rank"), [(8, 1), (8, 4), (9, 3), (7, 2), (6, 5), (64, 8)])
def test_heads_of_any_rank_add_up_to_linear_scores(dim, rank):
    """The distance to ``C y`` falls with the scale, as the second degree of the softmax does."""
    task = NearestNeighbor(dim, 12, queries=3)
    batch = task.sample(200, generator(), dtype=DOUBLE)
    centred = batch.points - batch.points.mean(dim=1, keepdim=True)
    wanted = (batch.queries @ centred.mT) @ centred / 12
    distances = []
    for scale in (1e-2, 1e-3):
        heads = constructions.linear_scores(dim, rank, scale, dtype=DOUBLE)
        assert (heads.spec.heads, heads.spec.rank) == (math.ceil(dim / rank), rank)
        with torch.no_grad():
            distances.append((heads(batch.queries, batch.points) - wanted).norm().item())
    assert distances[1] < 1e-2 * wanted.norm().item()
    assert distances[0] == pytest.approx(10 * distances[1], rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((8, 8, 0.1), "rank: expected less than dim=8, so that there are heads to add, got 8"),
        ((8, 0, 0.1), "rank: expected at least 1"),
        ((8, 2, 0.0), "scale: expected a finite number above 0, got 0.0"),
    ],
)
def test_linear_scores_want_several_heads_and_a_scale(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        constructions.linear_scores(*arguments)
