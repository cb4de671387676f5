"""What predictors without any attention reach, so that every error can be put in proportion.

B examples, Q queries, D dim, F features. Three predictors come with every task: zero, the mean of the points, and
the best linear map of the inputs, which is what a layer without scores could do. Their errors are estimated on
fresh examples; the linear map is fitted on other ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.errors import require_int
from rankwise.estimate import Estimate
from rankwise.tasks.batch import Batch, squared_error

_NUMBERS_AT_ONCE = 2**22


class PredictableTask(Protocol):
    """What a task must say about itself to be given baselines."""

    @property
    def isotropic(self) -> bool:
        """Whether rotating an example changes neither its law nor its answer, but for the rotation."""
        ...

    @property
    def numbers_per_example(self) -> int:
        """Size of the largest tensor an example needs, which bounds how many are drawn at once."""
        ...

    def sample(self, batch: int, generator: torch.Generator, *, dtype: torch.dtype = ...) -> Batch: ...

    def features(self, batch: Batch) -> Float[Tensor, "F B Q D"]:
        """The vectors that a linear predictor combines."""
        ...

    def mean_prediction(self, batch: Batch) -> Float[Tensor, "B Q D"]:
        """The answer of who knows the points and ignores the query."""
        ...


@dataclass(frozen=True)
class Baselines:
    """Squared error per query of the trivial predictors."""

    zero: Estimate
    mean: Estimate
    linear: Estimate


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """``sum_f w_f features_f`` with scalars w [F], or ``sum_f W_f features_f + b`` with ``matrix`` [F*D + 1, D].

    Scalars are enough where the law is isotropic: averaging any linear predictor over rotations does not increase
    its error, and the maps that commute with all rotations are multiples of the identity. The same holds for
    permutations, which is why the points enter through their mean.
    """

    scalars: Float[Tensor, " F"] | None
    matrix: Float[Tensor, "K D"] | None

    def __call__(self, features: Float[Tensor, "F B Q D"]) -> Float[Tensor, "B Q D"]:
        """The prediction from ``task.features(batch)``."""
        if self.scalars is not None:
            return torch.einsum("f,fbqd->bqd", self.scalars.to(features), features)
        assert self.matrix is not None
        return _with_constant(features) @ self.matrix.to(features)


def fit_linear(task: PredictableTask, generator: torch.Generator, samples: int = 4096) -> LinearPredictor:
    """The least-squares linear predictor on at least ``samples`` fresh examples (normal equations in float64).

    A fit on n queries with K inputs exceeds the error of the best predictor by about K/n of it; where matrices are
    fitted, the number of examples is raised until that is at most 2 %.
    """
    require_int("samples", samples, minimum=2)
    if not task.isotropic:
        probe = task.features(task.sample(1, generator))
        samples = max(samples, math.ceil(50 * probe.shape[0] * probe.shape[-1] / probe.shape[2]))
    gram, moment = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for batch in _batches(task, generator, samples):
        features, targets = task.features(batch).double(), batch.targets.double()
        if task.isotropic:
            gram = gram + torch.einsum("fbqd,gbqd->fg", features, features).cpu()
            moment = moment + torch.einsum("fbqd,bqd->f", features, targets).cpu()
        else:
            inputs = _with_constant(features).flatten(0, 1)
            gram = gram + (inputs.T @ inputs).cpu()
            moment = moment + (inputs.T @ targets.flatten(0, 1)).cpu()
    # The pseudo-inverse, because a user's vectors may not span all coordinates.
    solution = torch.linalg.pinv(gram, hermitian=True, rtol=1e-10) @ moment
    return LinearPredictor(solution, None) if task.isotropic else LinearPredictor(None, solution)


def estimate_baselines(task: PredictableTask, generator: torch.Generator, samples: int = 4096) -> Baselines:
    """Errors of the trivial predictors on ``samples`` examples, after fitting the linear one on as many others."""
    linear = fit_linear(task, generator, samples)
    predictors: dict[str, Callable[[Batch], Tensor]] = {
        "zero": lambda batch: torch.zeros_like(batch.targets),
        "mean": task.mean_prediction,
        "linear": lambda batch: linear(task.features(batch)),
    }
    errors: dict[str, list[Tensor]] = {name: [] for name in predictors}
    for batch in _batches(task, generator, samples):
        for name, predict in predictors.items():
            errors[name].append(squared_error(predict(batch), batch.targets).double().cpu())
    return Baselines(**{name: _estimate(torch.cat(values)) for name, values in errors.items()})


def _batches(task: PredictableTask, generator: torch.Generator, samples: int) -> Iterator[Batch]:
    at_once = max(1, _NUMBERS_AT_ONCE // task.numbers_per_example)
    for done in range(0, samples, at_once):
        yield task.sample(min(at_once, samples - done), generator)


def _estimate(values: Float[Tensor, " B"]) -> Estimate:
    return Estimate(mean=float(values.mean()), standard_error=float(values.std()) / math.sqrt(len(values)))


def _with_constant(features: Float[Tensor, "F B Q D"]) -> Float[Tensor, "B Q K"]:
    """All features of a query side by side, and a 1."""
    stacked = features.permute(1, 2, 0, 3).flatten(2)
    return torch.cat((stacked, stacked.new_ones(*stacked.shape[:2], 1)), dim=-1)
