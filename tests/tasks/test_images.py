import gzip
import struct

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from rankwise.errors import InvalidInputError
from rankwise.spec import ImagesSpec
from rankwise.tasks.image_files import read_digits, read_mnist
from rankwise.tasks.images import ImagePatches, logistic_error, logistic_regression, patches, shifted


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def small_mnist():
    rng = np.random.default_rng(0)
    return {
        part: (rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), rng.integers(0, 10, count).astype(np.uint8))
        for part, count in (("train", 12), ("test", 5))
    }


def write_idx(directory, packed=False, joint="-"):
    for part, (pixels, classes) in small_mnist().items():
        stem = {"train": "train", "test": "t10k"}[part]
        for what, array in (("images", pixels), ("labels", classes)):
            content = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
            name = f"{stem}-{what}{joint}idx{array.ndim}-ubyte"
            (directory / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)


def write_csv(directory, header=False):
    for part, (pixels, classes) in small_mnist().items():
        lines = [",".join(map(str, (c, *p.flatten()))) for p, c in zip(pixels, classes, strict=True)]
        top = ["label," + ",".join(f"p{i}" for i in range(784))] if header else []
        (directory / f"mnist_{part}.csv").write_text("\n".join(top + lines) + "\n")


@pytest.mark.parametrize(
    "write",
    [
        write_idx,
        lambda d: write_idx(d, packed=True),
        lambda d: write_idx(d, joint="."),
        write_csv,
        lambda d: write_csv(d, header=True),
    ],
)
def test_every_form_of_mnist_reads_the_same(tmp_path, write):
    write(tmp_path)
    images, truth = read_mnist(str(tmp_path)), small_mnist()
    assert np.array_equal(images.training, truth["train"][0])
    assert np.array_equal(images.test_classes, truth["test"][1])
    reference = tmp_path / "again"
    reference.mkdir()
    write_idx(reference)
    assert read_mnist(str(reference)).sha256 == images.sha256


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d: (d / "t10k-labels-idx1-ubyte").unlink(), "expected t10k-labels-idx1-ubyte"),
        (lambda d: (d / "train-images-idx3-ubyte").write_bytes(b""), "got an empty file"),
        (lambda d: (d / "train-images-idx3-ubyte").write_bytes(b"garbage" * 99), "expected an idx file of bytes"),
        (lambda d: (d / "train-labels-idx1-ubyte").write_bytes(bytes((0, 0, 8, 1, 0, 0, 0, 9))), "after the header"),
        (lambda d: (d / "x_train.csv").write_text("1,2,3\n"), "expected rows of 785 numbers"),
        (lambda d: (d / "x_train.csv").write_text("1,2,x\n"), "expected equal rows of numbers from 0 to 255"),
        (lambda d: (d / "x_train.csv").write_text("1,2,3\n4,5\n"), "expected equal rows of numbers from 0 to 255"),
        (lambda d: (d / "x_train.csv").write_text("1,2,300\n"), "expected equal rows of numbers from 0 to 255"),
        (lambda d: (d / "x_train.csv").write_text("label,pixel\n"), "expected rows of 785 numbers, got none"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, damage, words):
    write_idx(tmp_path)
    damage(tmp_path)
    with pytest.raises(InvalidInputError, match=words):
        read_mnist(str(tmp_path))


def test_a_missing_directory_and_other_data_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="expected a directory with MNIST"):
        read_mnist(str(tmp_path / "nowhere"))
    write_idx(tmp_path)
    with pytest.raises(InvalidInputError, match=r"task\.sha256: expected data of SHA-256 0000"):
        ImagePatches(ImagesSpec(source="mnist", patch=4, path=str(tmp_path), sha256="0" * 64))
    with pytest.raises(InvalidInputError, match="path: expected the data's path"):
        ImagesSpec(source="mnist", patch=4)
    with pytest.raises(InvalidInputError, match="patch: expected a divisor of the side of 8"):
        ImagesSpec(source="digits", patch=3)


def test_patches_hold_every_pixel_in_its_square():
    image = torch.arange(16.0).view(1, 4, 4)
    assert patches(image, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert torch.equal(patches(image, 1).flatten(), image.flatten())


def test_images_move_by_their_own_offset():
    image = torch.zeros(3, 4, 4)
    image[:, 1, 1] = 1.0
    moved = shifted(image, torch.tensor([[1, 0, 2], [1, 1, 2]]), 1, -5.0)
    assert [tuple(one.eq(1).nonzero()[0].tolist()) for one in moved] == [(1, 1), (2, 1), (0, 0)]
    assert moved[1, 0].tolist() == [-5.0] * 4


def test_digits_are_split_without_overlap_and_standardised():
    images = read_digits()
    assert (len(images.training), len(images.test)) == (1438, 359)
    task = ImagePatches(ImagesSpec(source="digits", patch=2))
    pixels, _ = task.training
    assert abs(pixels.mean()) < 1e-5
    assert abs(pixels.std() - 1) < 1e-3
    batch = task.training_batch(4, generator(), step=0, dtype=torch.float32)
    assert batch.tokens.shape == (4, 16, 4)
    shown = task.held_out(9, 100, generator(), dtype=torch.float32)
    assert [len(part) for part in shown] == [100, 100, 100, 59]
    assert torch.equal(torch.cat([part.targets for part in shown]), torch.from_numpy(images.test_classes))


def test_a_wrong_class_is_an_error_and_right_ones_are_not():
    task = ImagePatches(ImagesSpec(source="digits", patch=2))
    batch = task.training_batch(3, generator(), step=0, dtype=torch.float32)
    logits = 30 * torch.nn.functional.one_hot(batch.targets, 10).float()
    assert task.error(logits, batch).tolist() == [0, 0, 0]
    logits[1] = -logits[1]
    assert task.error(logits, batch).tolist() == [0, 1, 0]
    assert task.loss(logits, batch)[0] < 1e-6


@pytest.mark.parametrize("penalty", [1.0, 10.0])
def test_logistic_regression_is_scikit_learns(penalty):
    task = ImagePatches(ImagesSpec(source="digits", patch=2))
    (pixels, classes), (test, test_classes) = task.training, task.test
    inputs, held_out = pixels.flatten(1).double(), test.flatten(1).double()
    weights, intercepts = logistic_regression(inputs, classes, penalty)
    theirs = LogisticRegression(C=1 / penalty, tol=1e-6, max_iter=2000).fit(inputs.numpy(), classes.numpy())
    ours = (held_out @ weights + intercepts).log_softmax(dim=1)
    np.testing.assert_allclose(ours.numpy(), theirs.predict_log_proba(held_out.numpy()), atol=0.05)
    wrong = 1 - theirs.score(held_out.numpy(), test_classes.numpy())
    assert logistic_error(task, penalty) == pytest.approx(wrong, abs=1.5 / 359)
