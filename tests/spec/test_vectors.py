import hashlib

import pytest

from rankwise.errors import InvalidInputError
from rankwise.spec import NeighborSpec, RunSpec, VectorFile, from_plain, parse_toml, plain, to_toml
from spec_examples import small_run

SHA = "0123456789abcdef" * 4


def task(**fields):
    return NeighborSpec(name="farthest", dim=8, points=4, distribution="rows", **fields)


def run_on(file):
    return small_run(task=task(vectors_from=file))


def test_a_runs_id_depends_on_the_content_and_not_on_the_place():
    here, there = (VectorFile(sha256=SHA, path=path) for path in ("here.npy", "there.npy"))
    assert run_on(here).id == run_on(there).id
    assert run_on(here) != run_on(there)
    assert run_on(VectorFile(sha256=SHA[::-1], path="here.npy")).id != run_on(here).id
    assert run_on(VectorFile(sha256=SHA, path="here.npy", tensor="words")).id != run_on(here).id


def test_runs_without_a_file_keep_their_ids():
    assert "vectors_from" not in plain(small_run())["task"]


def test_it_survives_toml_and_plain_values():
    run = run_on(VectorFile(sha256=SHA, path="a/b.safetensors", tensor="words"))
    assert parse_toml(RunSpec, to_toml(run)) == run
    assert from_plain(RunSpec, plain(run)) == run


def test_the_hash_is_that_of_the_bytes(tmp_path):
    (tmp_path / "v.npy").write_bytes(b"some bytes")
    assert VectorFile.of(tmp_path / "v.npy").sha256 == hashlib.sha256(b"some bytes").hexdigest()
    with pytest.raises(InvalidInputError, match=r"none.npy: expected a readable file of vectors, got no such file"):
        VectorFile.of(tmp_path / "none.npy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VectorFile(sha256="ABC", path="v.npy"), "sha256: expected 64 lower-case hexadecimal digits"),
        (lambda: VectorFile(sha256=SHA, path=""), "path: expected the place of the file"),
        (lambda: task(), "vectors_from: expected a file exactly when distribution = 'rows', .* without one"),
        (
            lambda: NeighborSpec(name="nearest", dim=8, points=4, vectors_from=VectorFile(sha256=SHA, path="v.npy")),
            "vectors_from: expected a file exactly when distribution = 'rows', got distribution = 'uniform' with one",
        ),
    ],
)
def test_what_cannot_be_meant(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
