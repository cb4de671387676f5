"""What learners that know nothing of the prior reach on the same prompts, at every position of a prompt at once.

B prompts, P points, D dim. Each takes examples x [B, P, D] with values y [B, P] and predicts, at position k, y_k from
the k examples before it; before the first example the prediction is 0. Garg et al. (2022) compare with the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.errors import InvalidInputError, MissingExtraError, require_int, require_number
from rankwise.spec import InContextSpec
from rankwise.tasks.in_context import InContext

Baseline = Callable[[Tensor, Tensor], Tensor]


def least_squares(x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"]) -> Float[Tensor, "B P"]:
    """The smallest w of least squared error: the exact answer on noiseless linear functions once k >= D."""
    predictions = torch.zeros_like(y)
    for k in range(1, y.shape[1]):
        weights = torch.linalg.pinv(x[:, :k].double()) @ y[:, :k, None].double()
        predictions[:, k] = (x[:, k].double() * weights[..., 0]).sum(dim=1)
    return predictions


def ridge(x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"], penalty: float = 1.0) -> Float[Tensor, "B P"]:
    """w of least ``|y - X w|^2 + penalty |w|^2``: for w ~ N(0, I), the best answer if values had noise of variance
    ``penalty``."""
    require_number("penalty", penalty, above=0)
    x64, y64 = x.double(), y.double()
    gram = (x64[:, :-1, :, None] * x64[:, :-1, None, :]).cumsum(dim=1)
    moment = (x64 * y64[..., None])[:, :-1].cumsum(dim=1)
    weights = torch.linalg.solve(gram + penalty * torch.eye(x.shape[2], dtype=torch.float64), moment)
    later = (x64[:, 1:] * weights).sum(dim=2).to(y.dtype)
    return torch.cat((torch.zeros_like(y[:, :1]), later), dim=1)


def averaging(x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"]) -> Float[Tensor, "B P"]:
    """w = mean of y_i x_i, the best linear estimate that ignores which inputs are alike."""
    totals = (x * y[..., None]).cumsum(dim=1)[:, :-1]
    counts = torch.arange(1, y.shape[1], dtype=y.dtype)
    later = (x[:, 1:] * totals).sum(dim=2) / counts
    return torch.cat((torch.zeros_like(y[:, :1]), later), dim=1)


def nearest_neighbors(x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"], neighbors: int = 3) -> Float[Tensor, "B P"]:
    """The mean value of the ``neighbors`` nearest examples (of all, while there are fewer)."""
    require_int("neighbors", neighbors, minimum=1)
    distances = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    predictions = torch.zeros_like(y)
    for k in range(1, y.shape[1]):
        nearest = distances[:, k, :k].topk(min(k, neighbors), dim=1, largest=False).indices
        predictions[:, k] = y.gather(1, nearest).mean(dim=1)
    return predictions


def lasso(
    x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"], alpha: float = 0.01, *, tolerance: float = 1e-6
) -> Float[Tensor, "B P"]:
    """w of least ``|y - X w|^2 / 2k + alpha |w|_1``, by coordinate descent on all prefixes of all prompts at once.

    A prefix is done when no coordinate has moved by more than ``tolerance`` in a round (or after 20,000 rounds: nearly
    dependent examples make coordinate descent slow).
    """
    require_number("alpha", alpha, above=0)
    x64, y64 = x.double(), y.double()
    counts = torch.arange(1, y.shape[1], dtype=torch.float64)
    outer = x64[:, :-1, :, None] * x64[:, :-1, None, :]
    gram = outer.cumsum(dim=1) / counts[:, None, None]
    moment = (x64 * y64[..., None])[:, :-1].cumsum(dim=1) / counts[:, None]
    weights = _lasso_weights(gram.flatten(0, 1), moment.flatten(0, 1), alpha, tolerance).view(moment.shape)
    later = (x64[:, 1:] * weights).sum(dim=2).to(y.dtype)
    return torch.cat((torch.zeros_like(y[:, :1]), later), dim=1)


def _lasso_weights(
    gram: Float[Tensor, "S D D"], moment: Float[Tensor, "S D"], alpha: float, tolerance: float
) -> Float[Tensor, "S D"]:
    """Minimisers of ``w^T G w / 2 - <m, w> + alpha |w|_1``, one per row; rows that are done leave the work."""
    answer = torch.zeros_like(moment)
    rows, weights = torch.arange(len(moment)), torch.zeros_like(moment)
    for turn in range(20_000):
        before = weights.clone()
        for d in range(moment.shape[1]):
            own = gram[:, d, d]
            pull = moment[:, d] - (gram[:, d] * weights).sum(dim=1) + own * weights[:, d]
            weights[:, d] = pull.sign() * (pull.abs() - alpha).clamp(min=0) / own.clamp(min=1e-300)
        if turn % 16 == 15:
            moving = (weights - before).abs().amax(dim=1) > tolerance
            answer[rows] = weights
            rows, weights, gram, moment = rows[moving], weights[moving], gram[moving], moment[moving]
            if not len(rows):
                break
    answer[rows] = weights
    return answer


def greedy_tree(
    x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"], *, signs: bool = False, depth: int | None = None
) -> Float[Tensor, "B P"]:
    """A regression tree grown greedily on the examples so far (scikit-learn's); ``signs`` shows it sign(x) for x.

    With signs it knows the form of the prior's questions, and only their order is missing.
    """
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ImportError:
        raise MissingExtraError("tasks", "the greedy tree baseline") from None
    inputs = (x.sign() if signs else x).double().numpy()
    values, predictions = y.double().numpy(), torch.zeros_like(y)
    for b in range(y.shape[0]):
        for k in range(1, y.shape[1]):
            tree = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(inputs[b, :k], values[b, :k])
            predictions[b, k] = float(tree.predict(inputs[b, k : k + 1])[0])
    return predictions


def nearest_anchor(x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"], anchors: int) -> Float[Tensor, "B P"]:
    """0 for the anchors, the value of the nearest anchor afterwards: exact for the function class "nearest"."""
    if not 1 <= anchors < y.shape[1]:
        raise InvalidInputError(f"anchors: expected 1 to {y.shape[1] - 1}, got {anchors}")
    nearest = torch.cdist(x, x[:, :anchors], compute_mode="donot_use_mm_for_euclid_dist").argmin(dim=2)
    predictions = y[:, :anchors].gather(1, nearest)
    predictions[:, :anchors] = 0
    return predictions


def baselines_of(spec: InContextSpec) -> dict[str, Baseline]:
    """The predictors that the paper draws beside the class of ``spec``, and ridge, by the name a figure gives them."""
    common: dict[str, Baseline] = {"least squares": least_squares, "3 nearest": nearest_neighbors}
    if spec.function in ("linear", "sparse_linear"):
        common |= {"ridge": ridge, "averaging": averaging}
    if spec.function == "sparse_linear":
        common["Lasso"] = lasso
    if spec.function == "tree":
        common["greedy tree"] = greedy_tree
        common["greedy tree on signs"] = lambda x, y: greedy_tree(x, y, signs=True)
    if spec.function == "nearest":
        common["nearest anchor"] = lambda x, y: nearest_anchor(x, y, spec.anchors or 0)
    return common


@lru_cache(maxsize=16)
def baseline_curves(spec: InContextSpec, prompts: int) -> dict[str, list[float]]:
    """Error after 0, 1, ... examples of each baseline over the variance of f, means over fresh prompts; the best
    first."""
    x, y = InContext(spec).prompts(prompts, torch.Generator().manual_seed(0), dtype=torch.float64)
    found = {
        name: (predict(x, y) - y).square().mean(dim=0) / spec.variance for name, predict in baselines_of(spec).items()
    }
    return {name: found[name].tolist() for name in sorted(found, key=lambda name: float(found[name].mean()))}
