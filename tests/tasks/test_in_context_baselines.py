"""Every baseline against scikit-learn on the same prompts, or against brute force."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

from rankwise.errors import InvalidInputError
from rankwise.spec import InContextSpec
from rankwise.tasks.in_context import InContext
from rankwise.tasks.in_context_baselines import (
    averaging,
    baselines_of,
    greedy_tree,
    lasso,
    least_squares,
    nearest_anchor,
    nearest_neighbors,
    ridge,
)


def prompts(function="linear", prompts=6, dim=5, points=9, **fields):
    spec = InContextSpec(function=function, dim=dim, points=points, **fields)
    return InContext(spec).prompts(prompts, torch.Generator().manual_seed(3), dtype=torch.float64)


def by_position(x, y, predictor):
    """What ``predictor(x_before, y_before, x_now)`` says at every position but the first."""
    return np.array(
        [[predictor(x[b, :k], y[b, :k], x[b, k : k + 1]) for k in range(1, y.shape[1])] for b in range(len(y))]
    )


def assert_agrees(ours, theirs, tolerance):
    assert ours[:, 0].eq(0).all()
    np.testing.assert_allclose(ours[:, 1:].numpy(), theirs, atol=tolerance, rtol=0)


def test_least_squares_is_scikit_learns():
    x, y = prompts("relu", hidden=4)
    fit = lambda a, b, now: LinearRegression(fit_intercept=False).fit(a, b).predict(now)[0]  # noqa: E731
    assert_agrees(least_squares(x, y), by_position(x.numpy(), y.numpy(), fit), 1e-9)


def test_least_squares_is_exact_on_linear_functions_from_dim_examples_on():
    x, y = prompts()
    assert (least_squares(x, y) - y)[:, 5:].abs().max() < 1e-9
    assert (least_squares(x, y) - y)[:, 4].abs().max() > 1e-3


@pytest.mark.parametrize("neighbors", [1, 3])
def test_nearest_neighbours_are_scikit_learns(neighbors):
    x, y = prompts()

    def fit(a, b, now):
        return KNeighborsRegressor(min(len(a), neighbors)).fit(a, b).predict(now)[0]

    assert_agrees(nearest_neighbors(x, y, neighbors), by_position(x.numpy(), y.numpy(), fit), 1e-12)


@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.01])
def test_lasso_is_scikit_learns(alpha):
    x, y = prompts("sparse_linear", dim=6, sparsity=2)

    def fit(a, b, now):
        return Lasso(alpha=alpha, fit_intercept=False, max_iter=100_000, tol=1e-12).fit(a, b).predict(now)[0]

    assert_agrees(lasso(x, y, alpha, tolerance=1e-10), by_position(x.numpy(), y.numpy(), fit), 1e-5)


@pytest.mark.parametrize("penalty", [0.25, 1.0])
def test_ridge_is_scikit_learns(penalty):
    x, y = prompts()
    theirs = by_position(
        x, y, lambda xs, ys, now: Ridge(alpha=penalty, fit_intercept=False).fit(xs, ys).predict(now).item()
    )
    assert_agrees(ridge(x, y, penalty), theirs, 1e-9)


def test_averaging_by_hand():
    x = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]]])
    y = torch.tensor([[2.0, 4.0, 9.0]])
    # after two examples w = ((2, 0) + (0, 8)) / 2 = (1, 4)
    assert averaging(x, y).tolist() == [[0.0, 0.0, 7.0]]


def best_split(x, y):
    """Every threshold of every coordinate: the smallest sum of squares of a tree with one question."""
    best = np.inf
    for d in range(x.shape[1]):
        for threshold in x[:, d]:
            sides = (y[x[:, d] <= threshold], y[x[:, d] > threshold])
            best = min(best, sum(((side - side.mean()) ** 2).sum() for side in sides if len(side)))
    return best


def test_the_greedy_tree_asks_the_best_first_question():
    x, y = prompts("tree", prompts=4, dim=3, points=13, depth=2)
    for b in range(4):
        fitted = torch.stack([_at(x, y, b, i) for i in range(12)])
        assert ((fitted - y[b, :12]) ** 2).sum().item() == pytest.approx(
            best_split(x[b, :12].numpy(), y[b, :12].numpy()), abs=1e-9
        )


def _at(x, y, b, example):
    """What a tree of depth 1 on the first 12 examples says about one of them."""
    asked = torch.cat((x[b : b + 1, :12], x[b : b + 1, example : example + 1]), dim=1)
    return greedy_tree(asked, y[b : b + 1, :13], depth=1)[0, 12]


def test_trees_on_signs_beat_trees_on_numbers_where_the_truth_asks_for_signs():
    x, y = prompts("tree", prompts=12, dim=4, points=41, depth=2)
    errors = [(greedy_tree(x, y, signs=signs)[:, 20:] - y[:, 20:]).square().mean().item() for signs in (True, False)]
    assert errors[0] < 0.7 * errors[1]


def test_the_nearest_anchor_is_exact_after_the_anchors():
    x, y = prompts("nearest", anchors=4)
    predicted = nearest_anchor(x, y, 4)
    assert torch.equal(predicted[:, 4:], y[:, 4:])
    assert predicted[:, :4].eq(0).all()
    with pytest.raises(InvalidInputError, match="anchors: expected 1 to 8"):
        nearest_anchor(x, y, 9)


@pytest.mark.parametrize("function", ["linear", "sparse_linear", "relu", "tree", "nearest"])
def test_no_baseline_looks_at_the_answer_or_at_later_examples(function):
    sizes = {"anchors": 4} if function == "nearest" else {}
    x, y = prompts(function, prompts=2, **sizes)
    spec = InContextSpec(function=function, dim=5, points=9, **sizes)
    changed_x, changed_y = x.clone(), y.clone()
    changed_x[:, 6:], changed_y[:, 5:] = 7.0, -50.0
    for name, predict in baselines_of(spec).items():
        assert torch.equal(predict(x, y)[:, :6], predict(changed_x, changed_y)[:, :6]), name
