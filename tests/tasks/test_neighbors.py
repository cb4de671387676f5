import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.tasks import BiasedNearestNeighbor, FarthestNeighbor, NearestNeighbor, PowerLaw, Rows


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def rotation(dim, seed):
    return torch.linalg.qr(torch.randn(dim, dim, generator=seeded(seed), dtype=torch.float64)).Q


sizes = st.integers(1, 8)
seeds = st.integers(0, 2**32)


@given(dim=sizes, points=sizes, queries=sizes, seed=seeds)
def test_nearest_commutes_with_rotations_and_permutations(dim, points, queries, seed):
    task = NearestNeighbor(dim, points, queries=queries)
    batch = task.sample(5, seeded(seed), dtype=torch.float64)
    turn, order = rotation(dim, seed), torch.randperm(points, generator=seeded(seed))
    turned = task.target(batch.points @ turn, batch.queries @ turn)
    torch.testing.assert_close(turned, batch.targets @ turn, rtol=0, atol=1e-12)
    torch.testing.assert_close(task.target(batch.points[:, order], batch.queries), batch.targets, rtol=0, atol=1e-12)


@given(dim=sizes, points=st.integers(2, 8), seed=seeds)
def test_farthest_commutes_with_rotations_and_permutations(dim, points, seed):
    task = FarthestNeighbor(dim, points)
    batch = task.sample(5, seeded(seed), dtype=torch.float64)
    turn, order = rotation(dim, seed), torch.randperm(points, generator=seeded(seed))
    torch.testing.assert_close(task.target(batch.points @ turn), batch.targets @ turn, rtol=0, atol=1e-12)
    torch.testing.assert_close(task.target(batch.points[:, order]), batch.targets[:, order], rtol=0, atol=1e-12)


@given(dim=st.integers(2, 8), points=st.integers(2, 8), seed=seeds)
def test_farthest_by_a_rotation_is_the_farthest_from_the_turned_point(dim, points, seed):
    """One exact head with form -T answers it, and the same seed always has the same T."""
    task = FarthestNeighbor(dim, points, rotation=seed)
    batch = task.sample(5, seeded(seed), dtype=torch.float64)
    turn = FarthestNeighbor(dim, points, rotation=seed).turn
    torch.testing.assert_close(turn @ turn.mT, torch.eye(dim, dtype=torch.float64), rtol=0, atol=1e-12)
    for example, targets in zip(batch.points, batch.targets, strict=True):
        for point, target in zip(example, targets, strict=True):
            scores = [float(other @ (turn @ point)) for other in example]
            assert torch.equal(target, example[scores.index(min(scores))])
    assert not task.isotropic


@given(dim=st.integers(2, 8), biases=st.lists(st.floats(-1, 1), min_size=1, max_size=5), seed=seeds)
def test_biased_commutes_with_rotations_and_with_swaps_that_negate_the_biases(dim, biases, seed):
    coefficients = [1.0 + k for k in range(len(biases))]
    task = BiasedNearestNeighbor(dim, biases, coefficients)
    batch = task.sample(5, seeded(seed), dtype=torch.float64)
    turn = rotation(dim, seed)
    turned = task.target(batch.points @ turn, batch.queries @ turn)
    torch.testing.assert_close(turned, batch.targets @ turn, rtol=0, atol=1e-12)
    mirrored = BiasedNearestNeighbor(dim, [-bias for bias in biases], coefficients)
    swapped = mirrored.target(batch.points.flip(1), batch.queries)
    torch.testing.assert_close(swapped, batch.targets, rtol=0, atol=1e-12)


@pytest.mark.parametrize("distribution", ["uniform", "orthogonal", PowerLaw(1.0), Rows(torch.randn(40, 6))])
def test_nearest_is_the_closest_point_by_distance(distribution):
    """On the sphere the largest inner product is the smallest distance: a loop over distances must agree."""
    task = NearestNeighbor(6, 5, distribution=distribution, queries=3)
    batch = task.sample(20, seeded(), dtype=torch.float64)
    assert batch.points.shape == (20, 5, 6)
    assert batch.queries.shape == batch.targets.shape == (20, 3, 6)
    winners = task.winners(batch.points, batch.queries)
    for b in range(20):
        for q in range(3):
            distances = [(batch.points[b, n] - batch.queries[b, q]).norm().item() for n in range(5)]
            assert winners[b, q] == distances.index(min(distances))
            assert torch.equal(batch.targets[b, q], batch.points[b, winners[b, q]])


def test_farthest_is_the_most_distant_point_and_never_itself():
    task = FarthestNeighbor(6, 5)
    batch = task.sample(20, seeded(), dtype=torch.float64)
    assert batch.queries is None
    winners = task.winners(batch.points)
    assert not (winners == torch.arange(5)).any()
    for b in range(20):
        for i in range(5):
            distances = [(batch.points[b, n] - batch.points[b, i]).norm().item() for n in range(5)]
            assert winners[b, i] == distances.index(max(distances))
            assert torch.equal(batch.targets[b, i], batch.points[b, winners[b, i]])


def test_farthest_answers_any_query_and_its_own_points_by_default():
    task = FarthestNeighbor(3, 4)
    batch = task.sample(6, seeded())
    assert torch.equal(task.target(batch.points, batch.points), batch.targets)
    assert torch.equal(task.winners(batch.points, -batch.points[:, 2:3]), torch.full((6, 1), 2))


def test_of_two_orthogonal_points_the_farthest_is_the_other():
    batch = FarthestNeighbor(3, 2, distribution="orthogonal").sample(50, seeded())
    assert torch.equal(batch.targets, batch.points.flip(1))


def test_ties_go_to_the_lowest_index():
    points = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]]])
    assert NearestNeighbor(2, 5).winners(points, points).tolist() == [[0, 1, 1, 3, 3]]
    assert FarthestNeighbor(2, 5).winners(points).tolist() == [[1, 3, 3, 1, 1]]


def test_targets_take_any_number_of_points():
    points, queries = torch.eye(7)[None], torch.eye(7)[None, 2:4]
    assert NearestNeighbor(7, 2).winners(points, queries).tolist() == [[2, 3]]


@pytest.mark.parametrize(
    ("margin", "expected"),
    [(-1.0, [1, 1, 1]), (-0.5, [1, 1, 1]), (-0.4, [1, 1, 0]), (0.0, [1, 1, 0]), (0.1, [1, 0, 0]), (0.6, [0, 0, 0])],
)
def test_biased_winners_by_hand(margin, expected):
    """x_1 wins iff margin + bias > 0; the boundary belongs to x_2."""
    task = BiasedNearestNeighbor(2, biases=[-0.5, 0.0, 0.5], coefficients=[4.0, 2.0, 1.0])
    points, query = torch.eye(2)[None], torch.tensor([[[margin, 0.0]]])
    assert task.winners(points, query).tolist() == [[expected]]
    second = sum(c for c, winner in zip([4.0, 2.0, 1.0], expected, strict=True) if winner)
    assert task.target(points, query).tolist() == [[[7.0 - second, second]]]


@given(dim=st.integers(2, 6), terms=st.integers(1, 40), seed=seeds)
def test_the_step_function_equals_the_sum_of_its_terms(dim, terms, seed):
    values = torch.randn(2, terms, generator=seeded(seed), dtype=torch.float64)
    values[0, : terms // 2] = values[0, 0]  # equal biases must not confuse the bisection
    task = BiasedNearestNeighbor(dim, values[0], values[1])
    batch = task.sample(10, seeded(seed), dtype=torch.float64)
    winners = task.winners(batch.points, batch.queries)[:, 0]
    expected = sum(c * batch.points[torch.arange(10), winners[:, k]] for k, c in enumerate(values[1]))
    torch.testing.assert_close(batch.targets[:, 0], expected, rtol=0, atol=1e-11)


def test_without_bias_it_is_the_nearest_neighbour():
    batch = BiasedNearestNeighbor(5, [0.0], [1.0]).sample(200, seeded())
    assert torch.equal(NearestNeighbor(5, 2).target(batch.points, batch.queries), batch.targets)


def test_biased_queries_are_gaussian_of_unit_expected_length():
    """y ~ N(0, I/d): E|y|^2 = 1 and Var |y|^2 = 2/d."""
    dim = 8
    squares = BiasedNearestNeighbor(dim, [0.0], [1.0]).sample(20_000, seeded()).queries.square().sum(-1)[:, 0]
    assert abs(squares.mean() - 1) < 4 * math.sqrt(2 / dim / 20_000)
    assert abs(squares.var() / (2 / dim) - 1) < 0.1


@pytest.mark.parametrize(
    "task", [NearestNeighbor(4, 3), FarthestNeighbor(4, 3), BiasedNearestNeighbor(4, [0.1], [2.0])]
)
def test_a_sample_is_a_function_of_its_generator(task):
    first, again, other = (task.sample(6, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.points, again.points)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.points, other.points)
    assert first.points.dtype == torch.float32
    assert len(first) == 6
    generator = seeded(1)
    task.sample(6, generator)
    assert not torch.equal(task.sample(6, generator).points, first.points)


def test_a_batch_moves_as_a_whole():
    batch = NearestNeighbor(4, 3).sample(2, seeded(), dtype=torch.float64).to(dtype=torch.bfloat16)
    assert {batch.points.dtype, batch.queries.dtype, batch.targets.dtype} == {torch.bfloat16}
    assert FarthestNeighbor(4, 3).sample(2, seeded(), device="meta").targets.device.type == "meta"


def test_error_is_summed_over_coordinates_and_averaged_over_queries():
    task = NearestNeighbor(4, 3, queries=2)
    batch = task.sample(5, seeded(), dtype=torch.float64)
    prediction = batch.targets.clone()
    prediction[0, 0] += 1
    torch.testing.assert_close(task.error(prediction, batch), torch.tensor([2.0, 0, 0, 0, 0], dtype=torch.float64))


def sample_of(task, **options):
    return task.sample(2, seeded(), **options)


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (lambda: NearestNeighbor(0, 3), InvalidInputError, "dim: expected at least 1, got 0"),
        (lambda: NearestNeighbor(3, True), InvalidInputError, "points: expected a whole number"),
        (lambda: NearestNeighbor(3, 2, queries=0), InvalidInputError, "queries: expected at least 1, got 0"),
        (lambda: FarthestNeighbor(3, 1), InvalidInputError, "points: expected at least 2, got 1"),
        (lambda: FarthestNeighbor(8, 3, distribution="orthogonal"), InvalidInputError, "equally far from each other"),
        (lambda: FarthestNeighbor(8, 2, distribution=Rows(torch.ones(1, 8))), InvalidInputError, "at least 2 rows"),
        (lambda: BiasedNearestNeighbor(1, [0.0], [1.0]), InvalidInputError, "dim: expected at least 2, got 1"),
        (lambda: BiasedNearestNeighbor(4, [0.0, 1.0], [1.0]), InvalidInputError, "each of the 2 biases, got 1"),
        (lambda: BiasedNearestNeighbor(4, [], []), InvalidInputError, "biases: expected at least one number"),
        (lambda: BiasedNearestNeighbor(4, 0.5, [1.0]), InvalidInputError, "biases: expected a sequence of numbers"),
        (lambda: BiasedNearestNeighbor(4, torch.tensor(0.5), [1.0]), InvalidInputError, "biases: expected"),
        (lambda: BiasedNearestNeighbor(4, [math.nan], [1.0]), InvalidInputError, r"biases\[0\]: .* got nan"),
        (lambda: BiasedNearestNeighbor(4, [0.0], ["1"]), InvalidInputError, r"coefficients\[0\]: .* got '1'"),
        (lambda: NearestNeighbor(3, 2).sample(0, seeded()), InvalidInputError, "batch: expected at least 1"),
        (lambda: NearestNeighbor(3, 2).sample(1, None), InvalidInputError, "expected a torch.Generator"),
        (lambda: sample_of(NearestNeighbor(3, 2), dtype=torch.float16), InvalidInputError, "dtype: expected"),
        (lambda: NearestNeighbor(3, 2).target(torch.ones(2, 3), torch.ones(1, 1, 3)), ShapeError, r"got \[2, 3\]"),
        (lambda: NearestNeighbor(3, 2).target(torch.ones(1, 2, 4), torch.ones(1, 1, 3)), ShapeError, "D = 3, got"),
        (lambda: NearestNeighbor(3, 2).target(torch.ones(1, 2, 3), torch.ones(2, 1, 3)), ShapeError, "with B = 1"),
        (lambda: NearestNeighbor(3, 2).target(torch.ones(1, 2, 3)), InvalidInputError, "queries: expected .* got None"),
        (lambda: FarthestNeighbor(3, 2).target(torch.ones(1, 2, 3), torch.ones(1, 3)), ShapeError, r"got \[1, 3\]"),
        (lambda: FarthestNeighbor(3, 2).winners(torch.full((1, 2, 3), math.nan)), InvalidInputError, "got NaN"),
        (lambda: BiasedNearestNeighbor(3, [0.0], [1.0]).target(torch.ones(1, 3, 3), torch.ones(1, 1, 3)), ShapeError,
         r"expected \[B, 2, D\]"),
        (lambda: NearestNeighbor(3, 2).error(torch.ones(2, 3), sample_of(NearestNeighbor(3, 2))), ShapeError,
         r"\[2, 1, 3\], got \[2, 3\]"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_what_was_expected(act, kind, message):
    with pytest.raises(kind, match=message):
        act()
