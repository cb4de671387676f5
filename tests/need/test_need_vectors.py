"""Files of vectors: what reads, and what is refused without running or allocating anything."""

import json
import pickle
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rankwise.need import vectors as need_vectors
from rankwise.need.vectors import read_vectors, tensor_names

VECTORS = np.random.default_rng(0).standard_normal((50, 6))


def npy(tmp_path, array, **options):
    path = tmp_path / "vectors.npy"
    np.save(path, array, **options)
    return path


def header(tmp_path, shape, dtype="<f4", data=b"\0" * 64):
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path = tmp_path / "lies.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)
    return path


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_reads_in_every_float_type_and_order(tmp_path, dtype, order):
    array = np.asarray(VECTORS, dtype=dtype, order=order)
    read = read_vectors(npy(tmp_path, array))
    assert read.total == 50
    np.testing.assert_array_equal(read.rows, array.astype(np.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_safetensors_reads_by_name(tmp_path, dtype):
    path = tmp_path / "vectors.safetensors"
    keys = torch.from_numpy(VECTORS).to(dtype)
    save_file({"keys": keys, "queries": keys + 1}, path)
    assert tensor_names(path) == ["keys", "queries"]
    assert torch.equal(read_vectors(path).rows, keys.float())
    assert torch.equal(read_vectors(path, "queries").rows, (keys + 1).float())


def test_large_files_are_sampled_and_looked_at_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(need_vectors, "_MOST_ROWS", 20)
    monkeypatch.setattr(need_vectors, "_BYTES_AT_ONCE", 7 * 4 * 6)
    seen = []
    read = read_vectors(npy(tmp_path, VECTORS), progress=lambda done, total: seen.append((done, total)))
    assert (read.total, len(read.rows)) == (50, 20)
    assert len({tuple(row) for row in read.rows.tolist()}) == 20
    assert {tuple(row) for row in read.rows.tolist()} <= {tuple(row) for row in VECTORS.astype(np.float32).tolist()}
    assert seen[-1] == (50, 50)
    for row in range(50):  # wherever it is, also in a row that is not kept
        broken = VECTORS.copy()
        broken[row, 3] = np.nan
        with pytest.raises(ValueError, match=rf"first in row {row}\)"):
            read_vectors(npy(tmp_path, broken))


@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_rows_too_small_for_float32_are_not_taken_for_zeros(tmp_path, kind):
    tiny = VECTORS.copy()
    tiny[7] *= 1e-60
    tiny[3] = 0  # a row of zeros is what it is
    path = tmp_path / f"vectors.{kind}"
    np.save(path, tiny) if kind == "npy" else save_file({"keys": torch.from_numpy(tiny)}, path)
    with pytest.raises(ValueError, match=r"that float32 can tell from 0, got smaller ones \(first in row 7\)"):
        read_vectors(path)
    tiny[7, 0] = 1.0  # one entry is enough for a direction
    np.save(path, tiny) if kind == "npy" else save_file({"keys": torch.from_numpy(tiny)}, path)
    assert read_vectors(path).rows[7].tolist() == [1, 0, 0, 0, 0, 0]


class Canary:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_is_not_opened(tmp_path):
    canary = tmp_path / "canary"
    objects = np.empty((2, 2), dtype=object)
    objects[:] = Canary(canary)
    with pytest.raises(ValueError, match="Python objects, which only a pickle could hold"):
        read_vectors(npy(tmp_path, objects, allow_pickle=True))
    for name in ("bare.npy", "bare.safetensors"):
        (tmp_path / name).write_bytes(pickle.dumps(Canary(canary)))
        with pytest.raises(ValueError, match="expected"):
            read_vectors(tmp_path / name)
    assert not canary.exists()


@pytest.mark.parametrize("shape", ["(2**60, 4)", "(1152921504606846976, 4)", "(4611686018427387904, 4)", "(-1, 4)"])
def test_a_header_that_lies_about_the_size(tmp_path, shape):
    path = header(tmp_path, shape)
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"expected|damaged"):
        read_vectors(path)
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_safetensors_headers_that_lie(tmp_path):
    path = tmp_path / "lies.safetensors"
    for head in (
        struct.pack("<Q", 2**60),
        b"",
        (lambda text: struct.pack("<Q", len(text)) + text)(
            json.dumps({"a": {"dtype": "F32", "shape": [10**12, 4], "data_offsets": [0, 16]}}).encode()
        ),
    ):
        path.write_bytes(head + b"\0" * 16)
        with pytest.raises(ValueError, match=r"lies.safetensors"):
            read_vectors(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(12).reshape(3, 4), "expected float16, float32 or float64, got int64"),
        (np.ones((3, 4), dtype=complex), "got complex128"),
        (np.ones((3, 4), dtype=bool), "got bool"),
        (np.array([["a", "b"]]), "got <U1"),
        (np.ones(5), r"\[rows, dim\], got \[5\]"),
        (np.ones((2, 3, 4)), r"reshape\(-1, dim\)"),
        (np.ones((5, 1)), "2 to 8192 numbers, got 1"),
        (np.ones((2, 9000), dtype=np.float32), "got 9000"),
        (np.full((3, 4), np.inf), "NaN or infinity"),
        (np.full((3, 4), 1e300), "NaN or infinity"),
    ],
)
def test_what_is_no_matrix_of_floats_is_refused(tmp_path, array, message):
    with pytest.raises(ValueError, match=message):
        read_vectors(npy(tmp_path, array))


def test_files_that_are_not_there_or_something_else(tmp_path):
    for name, content in {"a.txt": b"1 2", "b.npy": b"", "c.npy": b"\x93NUMPY\x01\x00", "d.npz": b"PK"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="expected"):
            read_vectors(tmp_path / name)
    for missing in (tmp_path / "none.npy", tmp_path):
        with pytest.raises(ValueError, match=r"expected a .npy or .safetensors file"):
            read_vectors(missing)
    cut = npy(tmp_path, VECTORS)
    cut.write_bytes(cut.read_bytes()[:-8])
    with pytest.raises(ValueError, match="cut short"):
        read_vectors(cut)


def test_tensor_names_are_asked_for_and_corrected(tmp_path):
    path = tmp_path / "two.safetensors"
    save_file({"layer.0": torch.ones(3, 4), "layer.1": torch.ones(3, 4), "ids": torch.ones(3, 4).long()}, path)
    with pytest.raises(ValueError, match=r"a tensor name, because there are 3: 'ids', 'layer.0', 'layer.1'"):
        read_vectors(path)
    with pytest.raises(ValueError, match=r"did you mean 'layer.0'\?"):
        read_vectors(path, "layer_0")
    with pytest.raises(ValueError, match="expected one of F64, F32, F16, BF16, got I64"):
        read_vectors(path, "ids")
    with pytest.raises(ValueError, match="holds one array"):
        read_vectors(npy(tmp_path, VECTORS), "layer.0")
