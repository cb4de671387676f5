import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.spec import VectorFile
from rankwise.tasks import vector_file
from rankwise.tasks.vector_file import load_vectors, read_matrix

MATRIX = np.arange(12, dtype=np.float64).reshape(4, 3) + 0.1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, ">f8"])
def test_npy_of_any_number_type(tmp_path, dtype):
    np.save(tmp_path / "v.npy", MATRIX.astype(dtype))
    found = read_matrix(tmp_path / "v.npy")
    assert found.dtype in (torch.float32, torch.float64)
    np.testing.assert_allclose(found.numpy(), MATRIX.astype(dtype).astype(np.float64), rtol=1e-6)


def test_the_only_matrix_of_a_safetensors_file_or_the_named_one(tmp_path):
    path = tmp_path / "v.safetensors"
    save_file({"words": torch.eye(3, dtype=torch.bfloat16), "scale": torch.ones(3)}, path)
    assert torch.equal(read_matrix(path), torch.eye(3))
    save_file({"keys": torch.eye(3), "queries": 2 * torch.eye(3)}, path)
    assert torch.equal(read_matrix(path, "queries"), 2 * torch.eye(3))
    with pytest.raises(InvalidInputError, match=r"expected one matrix, got 2; choose .* tensor = 'keys', 'queries'"):
        read_matrix(path)
    with pytest.raises(InvalidInputError, match=r"expected a tensor 'values', got keys, queries"):
        read_matrix(path, "values")


def write(path, kind):
    if kind == "pickle inside":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif kind == "pickle":
        path.write_bytes(pickle.dumps([1, 2]))
    elif kind == "text":
        path.write_text("0.1 0.2")
    elif kind == "words":
        np.save(path, np.array([["a", "b"]]))
    elif kind == "complex":
        np.save(path, MATRIX.astype(complex))
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        np.save(path, np.zeros((2, 3, 4)))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pickle inside", "expected a .npy file of numbers, no pickle, got"),
        ("pickle", "expected a .npy file of numbers, no pickle, got"),
        ("text", "expected a .npy file of numbers, no pickle, got"),
        ("empty", "expected a .npy file of numbers, no pickle, got"),
        ("words", "expected real numbers, got <U1"),
        ("complex", "expected real numbers, got complex128"),
        ("cube", r"expected a matrix \[vectors, dim\], got shape \[2, 3, 4\]"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(tmp_path, kind, message):
    write(tmp_path / "v.npy", kind)
    with pytest.raises(InvalidInputError, match=message):
        read_matrix(tmp_path / "v.npy")


def test_other_files_and_missing_ones_are_refused(tmp_path):
    (tmp_path / "v.txt").write_text("0.1 0.2")
    with pytest.raises(InvalidInputError, match=r"expected a .npy or .safetensors file, got '.txt'; convert it"):
        read_matrix(tmp_path / "v.txt")
    (tmp_path / "v.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InvalidInputError, match="expected a safetensors file, got"):
        read_matrix(tmp_path / "v.safetensors")
    for name in ("none.npy", "none.safetensors"):
        with pytest.raises(InvalidInputError, match="no such file"):
            read_matrix(tmp_path / name)
    np.save(tmp_path / "v.npy", MATRIX)
    with pytest.raises(InvalidInputError, match=r"tensor: expected none for v\.npy"):
        read_matrix(tmp_path / "v.npy", "words")
    save_file({"words": torch.ones(3, 2, dtype=torch.bool)}, tmp_path / "v.safetensors")
    with pytest.raises(InvalidInputError, match=r"expected real numbers, got torch\.bool"):
        read_matrix(tmp_path / "v.safetensors")
    save_file({"words": torch.ones(3)}, tmp_path / "v.safetensors")
    with pytest.raises(ShapeError, match=r"expected a matrix \[vectors, dim\], got shape \[3\]"):
        read_matrix(tmp_path / "v.safetensors", "words")


def test_a_file_that_changed_since_it_was_named_is_refused(tmp_path):
    path = tmp_path / "v.npy"
    np.save(path, MATRIX)
    file = VectorFile.of(path)
    assert load_vectors(file).shape == (4, 3)
    np.save(path, MATRIX + 1)
    vector_file._checked_vectors.cache_clear()  # as in a process that has not read it yet
    with pytest.raises(InvalidInputError, match=r"expected the content that the run was planned with \(SHA-256"):
        load_vectors(file)
