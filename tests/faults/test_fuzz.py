"""Fuzzing: every reader of foreign bytes, on valid files broken at random and on noise: it reads them or raises one of
our errors; no crash, no hang, memory bounded."""

import importlib
import json
import random
import resource
import shutil
import time
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from hostile_edits import spoilt_document, spoilt_gguf, spoilt_npy, spoilt_safetensors
from rankwise.audit.report import read_report
from rankwise.errors import RankwiseError
from rankwise.models.files.source import open_model
from rankwise.models.running.texts import token_sequences
from rankwise.need.document import read_need
from rankwise.shapes.config import read_config
from rankwise.spec import RunSpec, SweepSpec, plain, read_spec, to_toml
from rankwise.sweep.engines.engine import Finished
from rankwise.sweep.engines.wire import decode_events, encode_events
from rankwise.sweep.store import open_store, read_store
from rankwise.tasks.vector_file import read_matrix
from rankwise.train.checkpoint import State, read_checkpoint, write_checkpoint
from spec_examples import seeds_sweep, small_run

RESULTS = Path(__file__).parents[2] / "results"
SECONDS = 60.0  # in all, shared by the readers
MEMORY = 256 * 2**20


@dataclass(frozen=True)
class Reader:
    """How one kind of file is read, what a good one looks like, and words that belong in it."""

    name: str
    read: Any
    good: Any  # a function of a directory: the bytes of a valid file
    words: tuple[bytes, ...] = ()
    complaints: tuple[type[Exception], ...] = (RankwiseError,)
    needs: str | None = None
    spoil: Any = None  # a function of the bytes and a source of chance: one change by meaning (see ``hostile_edits``)


def _spec(path):
    read_spec(SweepSpec, path)


def _run(path):
    read_spec(RunSpec, path)


def _store(path):
    with read_store(path.parent) as store:
        store.counts()
        for row in store.rows():
            assert isinstance(row.spec, dict)


def _good_store(directory):
    with open_store(directory / "made") as store, store.transaction():
        store.add((f"{index:016x}", json.dumps(plain(small_run(seed=index)))) for index in range(5))
        store.finish(f"{0:016x}", {"error": 0.5, "curve": [1, 2]}, 1.0)
    data = (directory / "made" / "runs.db").read_bytes()
    shutil.rmtree(directory / "made")
    return data


def _model(path):
    source = open_model(path)
    for name, info in list(source.tensors.items())[:3]:
        if np.prod([float(size) for size in info.shape]) < 1e6:
            source.read(name)


def _good_safetensors(_):
    return save({"a.weight": np.ones((3, 4), np.float32), "b": np.zeros(5, np.float16)}, {"format": "pt"})


def _good_gguf(directory):
    gguf = pytest.importorskip("gguf", reason="GGUF files are read with the extra 'gguf'")
    writer = gguf.GGUFWriter(directory / "x.gguf", "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_head_count(4)
    writer.add_tensor("blk.0.attn_q.weight", np.ones((32, 32), np.float32))
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()
    data = (directory / "x.gguf").read_bytes()
    (directory / "x.gguf").unlink()
    return data


def _checkpoint(path):
    read_checkpoint(path.parent, "ab")


def _good_checkpoint(directory):
    state = State(run_id="ab", step=3, tensors={"w": torch.ones(2, 3)}, values={"curve": [1.0]})
    path, _ = write_checkpoint(directory, state)
    data = path.read_bytes()
    path.unlink()
    return data


def _vectors(path):
    importlib.import_module("rankwise.need.vectors").read_vectors(path)


def _good_npy(_):
    out = BytesIO()
    np.save(out, np.ones((6, 4), np.float32))
    return out.getvalue()


def _good_ids(_):
    out = BytesIO()
    np.save(out, np.arange(40))
    return out.getvalue()


def _text(path):
    module = importlib.import_module("rankwise.tasks.data_files")
    module._file.cache_clear()
    module.read_corpus(str(path))


def _tokens(path):
    token_sequences(path, vocabulary=50, length=4)


def _kept(name):
    """A document that the command line wrote, as ``results/`` keeps it, with its longest lists cut."""

    def shortened(value):
        if isinstance(value, dict):
            return {key: shortened(item) for key, item in value.items()}
        return [shortened(item) for item in value[:2]] if isinstance(value, list) else value

    return lambda _: json.dumps(shortened(json.loads((RESULTS / name).read_text()))).encode()


def _wire(path):
    decode_events(path.read_bytes())


_CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "head_dim": 16,
}
_NUMBERS = (b"-1", b"0", b"1e999", b"NaN", b"18446744073709551615", b"9" * 400, b"1.5", b"true", b"null", b'"x"')
_JSON = (*_NUMBERS, b"{", b"[", b"]", b"}", b'"', b",", b"[" * 2000, b'{"a":' * 500, b"\\ud800")
_BINARY = (
    b"\xff" * 8,
    b"\0" * 8,
    b"\x80\x04",
    b"PK\x03\x04",
    (2**60).to_bytes(8, "little"),
    (2**31).to_bytes(4, "little"),
)
_NPY = (*_BINARY, b"|O", b"<f8", b"(1,1)", b"99999999999", b"'descr'", b"(")

READERS = [
    Reader(
        "spec.toml", _spec, lambda _: to_toml(seeds_sweep(2)).encode(), (*_NUMBERS, b"[[", b"a." * 50, b'"""', b"\n")
    ),
    Reader("run.json", _run, lambda _: json.dumps(plain(small_run())).encode(), _JSON, spoil=spoilt_document),
    Reader("config.json", read_config, lambda _: json.dumps(_CONFIG).encode(), _JSON, spoil=spoilt_document),
    Reader("runs.db", _store, _good_store, (*_BINARY, b"pending", b"nonsense", b"{}")),
    Reader("00000003.safetensors", _checkpoint, _good_checkpoint, (*_BINARY, *_JSON), spoil=spoilt_safetensors),
    Reader(
        "model.safetensors",
        _model,
        _good_safetensors,
        (*_BINARY, *_JSON, b"BF16", b"F8_E4M3", b"../../x"),
        spoil=spoilt_safetensors,
    ),
    Reader("model.gguf", _model, _good_gguf, _BINARY, spoil=spoilt_gguf),
    Reader(
        "vectors.npy",
        _vectors,
        _good_npy,
        _NPY,
        needs="rankwise.need.vectors",
        spoil=spoilt_npy,
    ),
    Reader("text.txt", _text, lambda _: b"some text, twice over. " * 40, _BINARY, needs="rankwise.tasks.data_files"),
    Reader(
        "vectors.safetensors",
        read_matrix,
        lambda _: save({"keys": np.ones((6, 4), np.float32)}),
        (*_BINARY, *_JSON),
        spoil=spoilt_safetensors,
    ),
    Reader("points.npy", read_matrix, _good_npy, _NPY, spoil=spoilt_npy),
    Reader("tokens.json", _tokens, lambda _: json.dumps([list(range(20))] * 3).encode(), _JSON, spoil=spoilt_document),
    Reader("audit.json", read_report, _kept("audit-minilm.json"), _JSON, spoil=spoilt_document),
    Reader("need.json", read_need, _kept("need-minilm.json"), _JSON, spoil=spoilt_document),
    Reader(
        "message",
        _wire,
        lambda _: encode_events([Finished(run_id="a", result={"error": 0.5}, seconds=1.0)], ["x"]),
        _JSON,
        complaints=(ValueError, KeyError, TypeError, RecursionError, AttributeError),
        spoil=spoilt_document,
    ),
]


class File:
    """Bytes whose failure report fits on a screen."""

    def __init__(self, data):
        self.data = data

    def __repr__(self):
        return f"File({self.data[:200]!r}, {len(self.data)} bytes)"


@st.composite
def broken(draw, good, words, spoil=None):
    """A good file, changed in a few places or, in every second try, by meaning; now and then noise."""
    if spoil is not None and draw(st.booleans()):
        return File(spoil(good, random.Random(draw(st.integers(0, 2**64))))[0])
    if draw(st.integers(0, 19)) == 0:
        return File(draw(st.binary(max_size=200)))
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 12))
        change = draw(st.sampled_from(["flip", "cut", "end", "noise", "word", "double"]))
        if change == "flip" and start < len(data):
            data[start] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del data[start : start + length]
        elif change == "end":
            del data[start:]
        elif change == "noise":
            data[start : start + length] = draw(st.binary(max_size=12))
        elif change == "word":
            data[start : start + length] = draw(st.sampled_from(words or (b"\0",)))
        elif change == "double":
            data[start:start] = data[start : start + 40 * length]
    return File(bytes(data))


def _named_after_its_hash(path, data):
    """A checkpoint is looked at only if its name says its hash."""
    import hashlib

    return path.with_name(f"00000003.{hashlib.sha256(data).hexdigest()}.safetensors")


def hammer(reader, directory, *, rounds, examples, until=float("inf")):
    """Feed broken files to a reader; how many."""
    good = reader.good(directory)
    tries = longest = 0
    for number in range(rounds):
        if time.monotonic() > until:
            break

        @seed(number)
        @settings(
            max_examples=examples,
            database=None,
            derandomize=False,
            deadline=timedelta(seconds=30),
            suppress_health_check=list(HealthCheck),
        )
        @given(broken(good, reader.words, reader.spoil))
        def one_round(file):
            nonlocal tries, longest
            tries, data = tries + 1, file.data
            path = directory / reader.name
            if reader.read is _checkpoint:
                path = _named_after_its_hash(path, data)
            path.write_bytes(data)
            try:
                reader.read(path)
            except reader.complaints as complaint:
                longest = max(longest, len(str(complaint)))
            finally:
                for left in directory.iterdir():
                    left.unlink()

        one_round()
    assert longest < 5000, "a complaint that nobody would read"
    return tries


def require(reader):
    if reader.needs is not None:
        pytest.importorskip(reader.needs, reason=f"{reader.needs} is not part of this version")


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_hundred_broken_files(reader, tmp_path, record_property):
    require(reader)
    record_property("tries", hammer(reader, tmp_path, rounds=1, examples=100))


@pytest.mark.faults
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_fuzz(reader, tmp_path, record_property):
    """As many as fit into this reader's share of a minute."""
    require(reader)
    hammer(reader, tmp_path, rounds=1, examples=50)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    until = time.monotonic() + SECONDS / len(READERS)
    tries = hammer(reader, tmp_path, rounds=10_000, examples=100, until=until)
    record_property("tries", tries)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


def test_a_reader_that_crashes_would_be_found(tmp_path):
    """The fuzzer itself: a planted bug behind one changed byte."""

    def careless(path):
        if path.read_bytes()[:4] != b"good":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hammer(Reader("x", careless, lambda _: b"good bytes"), tmp_path, rounds=1, examples=100)


def test_every_file_of_the_table_reads_when_it_is_whole(tmp_path):
    for reader in READERS:
        if reader.needs is None and reader.read is not _checkpoint and reader.name != "model.gguf":
            path = tmp_path / reader.name
            path.write_bytes(reader.good(tmp_path))
            reader.read(path)
            path.unlink()
    assert Path(tmp_path).exists()
