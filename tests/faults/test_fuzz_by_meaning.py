"""Fuzzing by meaning: every command on documents with values of another type, nulls, doubled keys, sizes that lie, and
pipes, folders and devices in their place: an answer that follows from what the file says, or exit 2 or 3; no traceback,
no hang, memory bounded."""

import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from hostile_edits import (
    PLACES,
    VALUES,
    Edit,
    found,
    put_something_else,
    same,
    spelt,
    spoilt_document,
    spoilt_gguf,
    spoilt_npy,
    spoilt_safetensors,
)
from rankwise.audit.report import read_report
from rankwise.choose.document import read_choice
from rankwise.cli import main
from rankwise.models.files.source import open_model
from rankwise.need.document import read_need
from rankwise.reduce import read_reduction
from rankwise.shapes.family_defaults import FAMILY_DEFAULTS
from rankwise.spec import SweepSpec, plain, read_spec
from rankwise.sweep.store import open_store
from saved_models import tiny_language_model, tokens
from spec_examples import seeds_sweep, small_run
from tiny_models import tiny_model

RESULTS = Path(__file__).parents[2] / "results"
SECONDS = 60.0  # in all, shared by the targets
PATIENCE = 60
MEMORY = 1 << 30


class Hang(BaseException):
    """A command that did not answer in time."""


@dataclass(frozen=True)
class Target:
    """A file that a command reads: how a good one is made, how it is broken, and what an answer must agree with."""

    name: str
    make: Any  # a function of a folder: puts good files there
    file: str
    command: tuple[str, ...]
    spoil: Any  # a function of the file and a source of chance: breaks the file, and says how
    agrees: Any = None  # a function of folder, edit and answer: raises where the answer does not follow from the file


def answered(arguments):
    """Exit code, stdout and stderr of a command in this process; whatever it raises is a finding."""

    def too_long(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(PATIENCE)
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return code, out.getvalue(), err.getvalue()


def with_bytes(spoil):
    """The change of a file's bytes as a change of the file."""

    def change(file, random):
        data, edit = spoil(file.read_bytes(), random)
        file.write_bytes(data)
        return edit

    return change


document, header_of_safetensors, header_of_npy, metadata_of_gguf = map(
    with_bytes, (spoilt_document, spoilt_safetensors, spoilt_npy, spoilt_gguf)
)


def must_refuse(edit):
    return edit.kind in ("double", "place")


def stated(read):
    """That a reader took the changed value as it stands: nothing is bent into what was expected."""

    def check(folder, edit, answer):
        if edit.kind in ("remove", "add", "place") or not edit.path or edit.value is None:
            return  # null means absent
        told = read(folder)
        try:
            taken = found(told, edit.path)
        except KeyError:
            raise AssertionError(f"left out of what was read: {told!s:.200}") from None
        else:
            assert same(taken, edit.value), f"read as {taken!r:.100}"

    return check


def null_is_absent(command):
    """That a null means what a missing key means, where the family has no default of its own to unset."""

    def check(folder, edit, answer):
        defaults = {key for family in FAMILY_DEFAULTS.values() for key in family}
        if edit.kind == "null" and edit.path[-1] not in defaults and isinstance(edit.path[-1], str):
            file = folder / "config.json"
            config = json.loads(file.read_text())
            del found(config, edit.path[:-1])[edit.path[-1]]
            file.write_text(spelt(config))
            assert answered([word.format(folder) for word in command]) == (0, answer, "")

    return check


def sizes_fit(folder, edit, answer):
    """That layers of an audit have the sizes of the stored matrices."""
    shapes = {info.shape for info in open_model(folder).tensors.values()}
    for layer in json.loads(answer)["layers"]:
        assert any(layer["dim"] in shape for shape in shapes), "a dimension that no matrix has"
        rows = layer["heads"] * layer["rank"]
        assert any(rows in shape or 3 * rows in shape for shape in shapes), "heads that no matrix holds"
        for head in layer.get("heads_report", []):
            assert all(0 <= value <= layer["rank"] for value in head.values() if isinstance(value, int | float))


# --- the files


def _sweep(folder):
    (folder / "sweep.json").write_text(json.dumps(plain(seeds_sweep(2))))


def _config(name):
    def make(folder):
        tiny_model(name).config.save_pretrained(folder)

    return make


def _model(name):
    def make(folder):
        (tiny_language_model if name in ("llama", "gpt2") else tiny_model)(name).save_pretrained(folder)
        (folder / "ids.json").write_text(json.dumps(tokens().tolist()))

    return make


def _sharded(folder):
    model = tiny_model("llama")
    model.save_pretrained(folder, max_shard_size="20KB")


def _kept(name):
    def shortened(value):
        if isinstance(value, dict):
            return {key: shortened(item) for key, item in value.items()}
        return [shortened(item) for item in value[:2]] if isinstance(value, list) else value

    def make(folder):
        (folder / "x.json").write_text(json.dumps(shortened(json.loads((RESULTS / name).read_text()))))

    return make


def _audited(folder):
    """The audit of a model that was also run."""
    _model("llama")(folder / "model")
    ids = str(folder / "model" / "ids.json")
    code, _, err = answered(["audit", str(folder / "model"), "--tokens", ids, "-o", str(folder / "x.json"), "--json"])
    assert code == 0, err
    shutil.rmtree(folder / "model")


def _store(folder):
    with open_store(folder / "store") as store, store.transaction():
        store.add((f"{index:016x}", json.dumps(plain(small_run(seed=index)))) for index in range(4))
        for index in range(3):
            store.begin(f"{index:016x}", {"python": "3"}, {"cpus": 2})
        store.finish(f"{0:016x}", {"error": 0.5, "curve": [1, 2]}, 1.0)
        store.fail(f"{1:016x}", "failed", "no luck", "log", 1.0)
    Path(folder / "store" / "driver.lock").unlink(missing_ok=True)


def _vectors(folder):
    rows = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
    np.save(folder / "x.npy", rows)
    (folder / "x.safetensors").write_bytes(save_safetensors({"keys": rows, "other": rows[:3]}))


def _gguf(folder):
    gguf = pytest.importorskip("gguf", reason="GGUF files are read with the extra 'gguf'")
    writer = gguf.GGUFWriter(folder / "x.gguf", "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_context_length(64)
    writer.add_rope_dimension_count(8)
    rng = np.random.default_rng(0)
    shapes = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32), "attn_norm": (32,)}
    for name, shape in shapes.items():
        writer.add_tensor(f"blk.0.{name}.weight", rng.normal(size=shape).astype(np.float32))
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()


# --- how they are broken


CELLS = (
    None, 0, -1, 2**62, 1.5, "", "x", "{}", "[]", "null", "NaN", "{" * 3000, b"\xff\xfe", "done", "pending",
    '{"error": "x"}', '{"error": 1e999}', '{"error": 0.25, "error": 1}', b"\xed\xa0\x80", "x" * 20_000,
)  # fmt: skip


def cell_of_a_store(file, random):
    """A value of another type in a cell of the table."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(runs)")]
        column, value = random.choice(columns), random.choice(CELLS)
        with contextlib.suppress(sqlite3.IntegrityError, sqlite3.OperationalError):  # the schema itself refuses some
            db.execute(f"UPDATE runs SET {column} = ? WHERE position = ?", (value, random.randrange(4)))
    return Edit("cell", (column,), value)


# --- what an answer must agree with


def as_numpy(folder, edit, answer):
    """numpy, asked without pickles, reads the same number of vectors of the same dimension."""
    rows = np.load(folder / "x.npy", allow_pickle=False)
    (measured,) = json.loads(answer)["measurements"]
    assert rows.shape == (measured["keys"], measured["dim"])


def as_safetensors(folder, edit, answer):
    keys = load_safetensors((folder / "x.safetensors").read_bytes())["keys"]
    (measured,) = json.loads(answer)["measurements"]
    assert keys.shape == (measured["keys"], measured["dim"])


def same_outcomes(folder, edit, answer):
    """Results that are shown are those that were stored: of a changed cell nothing is believed that the hash covers."""
    rows = json.loads(answer)
    for row in rows if isinstance(rows, list) else []:
        if row["status"] == "done":
            assert row["result"]["error"] == 0.5


def _shown(option):
    return ("report", option, "{}/x.json", "-o", "{}/p.html", "--json")


def _advised(option):
    return ("advise", option, "{}/x.json", "--dim", "384", "--heads", "12", "--json")


_AUDIT = ("audit", "{}", "--json")
_ADVISE = ("advise", "--config", "{}/config.json", "--json")
_PLACE = ("models", "--config", "{}/config.json", "--json")
_RUN = (*_AUDIT, "--tokens", "{}/ids.json")
_KEPT_AUDIT, _KEPT_NEED = _kept("audit-minilm.json"), _kept("need-minilm.json")
_KEPT_REDUCTION, _KEPT_CHOICE = _kept("reduce-minilm.json"), _kept("choose-parameters.json")
_AS_AUDIT = stated(lambda folder: read_report(folder / "x.json").to_json())
_AS_NEED = stated(lambda folder: read_need(folder / "x.json").to_json())
_AS_REDUCTION = stated(lambda folder: read_reduction(folder / "x.json").to_json())
_AS_CHOICE = stated(lambda folder: read_choice(folder / "x.json").to_json())
_AS_SWEEP = stated(lambda folder: plain(read_spec(SweepSpec, folder / "sweep.json")))
_STORE, _KEYS = "store/runs.db", "x.safetensors"

TARGETS = [
    Target("a sweep", _sweep, "sweep.json", ("sweep", "{}/sweep.json", "--dry-run", "--json"), document, _AS_SWEEP),
    *(
        Target(f"config of {name}", _config(name), "config.json", _ADVISE, document, null_is_absent(_ADVISE))
        for name in ("llama", "gpt2", "deepseek-v3", "gemma3", "whisper")
    ),
    Target("config, placed", _config("llama"), "config.json", _PLACE, document),
    *(
        Target(f"config of {name}, audited", _model(name), "config.json", _AUDIT, document, sizes_fit)
        for name in ("llama", "gpt2", "bert", "deepseek-v3")
    ),
    Target("config, run", _model("llama"), "config.json", _RUN, document, sizes_fit),
    Target("weights", _model("llama"), "model.safetensors", _AUDIT, header_of_safetensors, sizes_fit),
    Target("index of shards", _sharded, "model.safetensors.index.json", _AUDIT, document, sizes_fit),
    Target("weights of GGUF", _gguf, "x.gguf", ("audit", "{}/x.gguf", "--json"), metadata_of_gguf),
    Target("token ids", _model("gpt2"), "ids.json", _RUN, document),
    Target("an audit", _KEPT_AUDIT, "x.json", ("advise", "--audit", "{}/x.json", "--json"), document, _AS_AUDIT),
    Target("an audit, shown", _KEPT_AUDIT, "x.json", _shown("--audit"), document, _AS_AUDIT),
    Target("attention, shown", _audited, "x.json", _shown("--audit"), document, _AS_AUDIT),
    Target("a need", _KEPT_NEED, "x.json", _advised("--need"), document, _AS_NEED),
    Target("a need, shown", _KEPT_NEED, "x.json", _shown("--need"), document, _AS_NEED),
    Target("a reduction", _KEPT_REDUCTION, "x.json", _advised("--reduce"), document, _AS_REDUCTION),
    Target("a reduction, shown", _KEPT_REDUCTION, "x.json", _shown("--reduce"), document, _AS_REDUCTION),
    Target("a choice", _KEPT_CHOICE, "x.json", _advised("--choose"), document, _AS_CHOICE),
    Target("a choice, shown", _KEPT_CHOICE, "x.json", _shown("--choose"), document, _AS_CHOICE),
    Target("a store", _store, _STORE, ("results", "--store", "{}/store", "--json"), cell_of_a_store, same_outcomes),
    Target("a store, shown", _store, _STORE, ("report", "{}/store", "-o", "{}/p.html", "--json"), cell_of_a_store),
    Target("a store, counted", _store, _STORE, ("status", "--store", "{}/store", "--json"), cell_of_a_store),
    Target("vectors", _vectors, "x.npy", ("need", "{}/x.npy", "--steps", "0", "--json"), header_of_npy, as_numpy),
    Target(
        "vectors in safetensors",
        _vectors,
        _KEYS,
        ("need", "{}/x.safetensors", "--steps", "0", "--json"),
        header_of_safetensors,
        as_safetensors,
    ),
]


class Good:
    """Good files of a target, made once and copied for every try."""

    def __init__(self, target, folder):
        self.target, self.whole, self.work = target, folder / "whole", folder / "work"
        self.whole.mkdir(parents=True)
        target.make(self.whole)

    def attempt(self, number):
        """Break the file as ``number`` says, ask the command, and compare its answer with the file; the edit."""
        chance, target = random.Random(f"{self.target.name}/{number}"), self.target
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.whole, self.work)
        file = self.work / target.file
        if chance.random() < 0.03:
            kind = chance.choice(PLACES)
            file.unlink()
            put_something_else(file, kind)
            edit = Edit("place", (), kind)
        else:
            edit = target.spoil(file, chance)
        try:
            self._judge(edit)
        except BaseException as error:
            raise AssertionError(f"{target.name}, number {number}: {edit}: {type(error).__name__}: {error}") from error
        return edit

    def _judge(self, edit):
        code, out, err = answered([word.format(self.work) for word in self.target.command])
        assert code in (0, 2, 3), f"exit {code}: {err[-500:]}"
        assert "Traceback" not in err
        assert len(err) < 5000, "a complaint that nobody would read"
        if code:
            assert not out, "an answer and an error"
            return
        assert not must_refuse(edit), f"accepted: {out[:200]}"

        def refuse(name):
            raise AssertionError(f"{name} in an answer")

        json.loads(out, parse_constant=refuse)
        if self.target.agrees is not None:
            self.target.agrees(self.work, edit, out)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    made = {}

    def make(target):
        if target.name not in made:
            made[target.name] = Good(target, tmp_path_factory.mktemp("fuzz"))
            code, _, err = answered([word.format(made[target.name].whole) for word in target.command])
            assert code == 0, err
        return made[target.name]

    return make


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FOUND = [
    ("a store", 5063), ("a store", 5092), ("a store, shown", 5081), ("vectors", 5035), ("a choice", 5067),
    ("config of gemma3", 5126), ("config, run", 3), ("config, run", 5106), ("config of llama, audited", 0),
    ("config of gpt2, audited", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "number"), FOUND)
def test_what_was_a_traceback_once_is_a_message(name, number, good):
    good(next(target for target in TARGETS if target.name == name)).attempt(number)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_few_broken_documents(target, good, record_property):
    files = good(target)
    for number in range(12):
        files.attempt(number)
    record_property("tries", 12)


@pytest.mark.faults
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_fuzz_by_meaning(target, good, record_property):
    """As many as fit into this target's share of a minute."""
    files = good(target)
    for number in range(1000, 1010):
        files.attempt(number)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    until, number = time.monotonic() + SECONDS / len(TARGETS), 2000
    while time.monotonic() < until:
        files.attempt(number)
        number += 1
    record_property("tries", number - 1990)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MEMORY


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nothing_else_is_taken_for_a_document(target, kind, good, tmp_path):
    """Pipes, folders, devices and links that lead nowhere, in the place of every file that a command reads."""
    work = tmp_path / "work"
    shutil.copytree(good(target).whole, work)
    file = work / target.file
    file.unlink()
    put_something_else(file, kind)
    code, out, err = answered([word.format(work) for word in target.command])
    assert code in (2, 3), err
    assert not out
    assert os.path.lexists(file)


def test_values_of_every_kind_are_tried():
    assert {type(value) for value in VALUES} == {type(None), bool, int, float, str, list, dict}
