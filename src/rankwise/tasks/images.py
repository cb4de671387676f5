"""Ten classes of small grey images, read as a sequence of patches.

B images, S side, N patches, P = patch^2 pixels of a patch, C = 10 classes, X pixels of an image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from rankwise.errors import ShapeError, require_int
from rankwise.spec import ImagesSpec
from rankwise.tasks.batch import TokenBatch
from rankwise.tasks.data_files import require_same_data
from rankwise.tasks.image_files import Images, read_digits, read_mnist


@dataclass(frozen=True)
class ImagePatches:
    """Images whose training pixels have mean 0 and variance 1; the loss is the cross-entropy in nats, the error the
    share of images misclassified."""

    spec: ImagesSpec

    def __post_init__(self) -> None:
        found = self.images  # read now, so that what is missing is missed now
        if self.spec.sha256 is not None:
            require_same_data("task.sha256", self.spec.sha256, found.sha256, str(self.spec.path))

    @property
    def images(self) -> Images:
        """The pixels as they are on disk."""
        return read_digits() if self.spec.path is None else read_mnist(self.spec.path)

    @cached_property
    def _scale(self) -> tuple[float, float]:
        return float(self.images.training.mean()), float(self.images.training.std())

    @cached_property
    def training(self) -> tuple[Float[Tensor, "T S S"], Int[Tensor, " T"]]:
        """All training images, standardised, and their classes."""
        return self._standardised(self.images.training), torch.from_numpy(self.images.training_classes)

    @cached_property
    def test(self) -> tuple[Float[Tensor, "T S S"], Int[Tensor, " T"]]:
        """All test images, standardised as the training images, and their classes."""
        return self._standardised(self.images.test), torch.from_numpy(self.images.test_classes)

    def training_batch(self, size: int, generator: torch.Generator, *, step: int, dtype: torch.dtype) -> TokenBatch:
        """Images drawn with replacement, each moved by a random offset of up to ``shift`` pixels."""
        require_int("size", size, minimum=1)
        pixels, classes = self.training
        chosen = torch.randint(len(pixels), (size,), generator=generator)
        moved = pixels[chosen]
        if self.spec.shift:
            offsets = torch.randint(2 * self.spec.shift + 1, (2, size), generator=generator)
            moved = shifted(moved, offsets, self.spec.shift, self._background)
        return TokenBatch(patches(moved, self.spec.patch).to(dtype), classes[chosen])

    def held_out(self, batches: int, size: int, generator: torch.Generator, *, dtype: torch.dtype) -> list[TokenBatch]:
        """The test images, or as many of them as asked for at equal distances: the same for every run."""
        pixels, classes = self.test
        count = min(batches * size, len(pixels))
        chosen = torch.linspace(0, len(pixels) - 1, count, dtype=torch.float64).round().long()
        return [
            TokenBatch(patches(pixels[part], self.spec.patch).to(dtype), classes[part]) for part in chosen.split(size)
        ]

    def loss(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """Cross-entropy in nats."""
        self._check(prediction, batch)
        return cross_entropy(prediction, batch.targets, reduction="none")

    def error(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """1 where the largest logit is not the right class's."""
        self._check(prediction, batch)
        return (prediction.argmax(dim=1) != batch.targets).float()

    def details(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> dict[str, Float[Tensor, " B"]]:
        """Cross-entropy in nats."""
        return {"cross_entropy": self.loss(prediction, batch)}

    def levels(self, examples: int) -> dict[str, float]:
        """Logistic regression on the same pixels, on all test images."""
        return {"logistic": logistic_error(self)}

    @property
    def _background(self) -> float:
        mean, deviation = self._scale
        return -mean / deviation

    def _standardised(self, pixels: object) -> Float[Tensor, "T S S"]:
        mean, deviation = self._scale
        return (torch.as_tensor(pixels).float() - mean) / deviation

    def _check(self, prediction: Tensor, batch: TokenBatch) -> None:
        if prediction.shape != (len(batch), self.spec.interface.outputs):
            wanted = [len(batch), self.spec.interface.outputs]
            raise ShapeError(f"prediction: expected logits [batch, classes] = {wanted}, got {list(prediction.shape)}")


def patches(images: Float[Tensor, "B S S"], patch: int) -> Float[Tensor, "B N P"]:
    """Squares of ``patch`` x ``patch`` pixels, row by row, each as a vector of its pixels row by row."""
    count = images.shape[1] // patch
    return images.view(-1, count, patch, count, patch).transpose(2, 3).reshape(-1, count**2, patch**2)


def shifted(
    images: Float[Tensor, "B S S"], offsets: Int[Tensor, "2 B"], reach: int, background: float
) -> Float[Tensor, "B S S"]:
    """Image b moved up by ``offsets[0, b] - reach`` pixels and left by ``offsets[1, b] - reach``."""
    side = torch.arange(images.shape[1])
    wide = pad(images, (reach,) * 4, value=background)
    rows, columns = (offset[:, None] + side for offset in offsets)
    return wide[torch.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]


def logistic_regression(
    pixels: Float[Tensor, "T X"], classes: Int[Tensor, " T"], penalty: float = 1.0, *, rounds: int = 500
) -> tuple[Float[Tensor, "X C"], Float[Tensor, " C"]]:
    """Weights and intercepts of least ``sum of cross-entropies + penalty |W|^2 / 2``, by L-BFGS in float64.

    That is scikit-learn's ``LogisticRegression(C=1/penalty)``; intercepts are not penalised.
    """
    inputs = pixels.double()
    weights = torch.zeros(inputs.shape[1], int(classes.max()) + 1, dtype=torch.float64, requires_grad=True)
    intercepts = torch.zeros(weights.shape[1], dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([weights, intercepts], max_iter=rounds, line_search_fn="strong_wolfe")

    def closure() -> float:
        solver.zero_grad()
        misfit = cross_entropy(inputs @ weights + intercepts, classes, reduction="sum")
        # Over the number of images, so that the solver's stopping rules mean the same for any of them.
        loss = (misfit + penalty * weights.square().sum() / 2) / len(inputs)
        loss.backward()
        return float(loss.detach())

    solver.step(closure)
    return weights.detach(), intercepts.detach()


def logistic_error(task: ImagePatches, penalty: float = 1.0) -> float:
    """The share of test images that a logistic regression on the same pixels misclassifies.

    100 rounds, as many as scikit-learn's default: half a minute for MNIST on two cores.
    """
    (pixels, classes), (test, test_classes) = task.training, task.test
    weights, intercepts = logistic_regression(pixels.flatten(1), classes, penalty, rounds=100)
    answers = (test.flatten(1).double() @ weights + intercepts).argmax(dim=1)
    return float((answers != test_classes).double().mean())
