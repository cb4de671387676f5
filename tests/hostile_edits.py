"""Documents broken by meaning, not by bytes: values of other types, nulls, doubled keys, sizes that lie."""

import copy
import json
import math
import os
import re
import struct
from dataclasses import dataclass
from typing import Any

VALUES = (
    None, True, False, 0, 1, -1, 2, 7, 3.5, -0.25, 1e308, 5e-324, 10**9, 2**31, 2**63, 2**64, 10**400,
    math.inf, -math.inf, math.nan, "", "x", "16", "../../x", "\ud800", "\u202egnp", "</script>", "x" * 20_000, "\0",
    [], [1], [None], [[]], ["x"], {}, {"a": 1}, [0] * 3000,
)  # fmt: skip
NESTED = "[" * 3000 + "]" * 3000


class Doubled(list):
    """The pairs of an object, some of whose keys may stand there twice."""


@dataclass
class Edit:
    """One change of a document: what kind, where, and to what."""

    kind: str
    path: tuple = ()
    value: Any = None

    def __str__(self):
        value = repr(self.value)
        return f"{self.kind} {'.'.join(map(str, self.path))} {value if len(value) < 80 else value[:80] + '...'}"


def edited(document, random):
    """A copy of ``document`` with one change, and the change."""
    document = copy.deepcopy(document)
    path = random.choice(list(paths(document)))
    kind = random.choice(
        ["value", "value", "value", "null", "remove", "double", "add", "scale", "wrap", "quote", "swap"]
    )
    holder, key = _at(document, path[:-1]), path[-1]
    old = holder[key]
    if kind == "double" and isinstance(holder, dict):
        pairs = Doubled([*holder.items(), (key, random.choice([old, *VALUES]))])
        return _replaced(document, path[:-1], pairs), Edit(kind, path)
    if kind == "add" and isinstance(holder, dict):
        holder[f"{key}_"] = old
        return document, Edit(kind, (*path[:-1], f"{key}_"), old)
    if kind == "remove":
        del holder[key]
        return document, Edit(kind, path)
    if kind == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
        new = random.choice([2 * old, old + 1, -old, old / 2, old // 2, old * 10**6])
    elif kind == "wrap":
        new = [old]
    elif kind == "quote":
        new = str(old)[:50]
    elif kind == "swap":
        new = copy.deepcopy(_at(document, random.choice(list(paths(document)))))
    elif kind == "null":
        new = None
    else:
        kind, new = "value", random.choice(VALUES)
    holder[key] = new
    return document, Edit(kind, path, new)


def paths(document, start=()):
    """The ways to every value of a document."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*start, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*start, key))


def spelt(document):
    """The document as JSON: doubled keys stay doubled, and what JSON has no word for is written as python does."""
    if isinstance(document, Doubled):
        return "{" + ", ".join(f"{json.dumps(key)}: {spelt(value)}" for key, value in document) + "}"
    if isinstance(document, dict):
        return spelt(Doubled(document.items()))
    if isinstance(document, list):
        return "[" + ", ".join(map(spelt, document)) + "]"
    if isinstance(document, int) and abs(document) > 10**300:
        return "1" + "0" * 400
    return json.dumps(document)


def found(document, path):
    """The value at ``path``, or ``KeyError``."""
    for key in path:
        try:
            document = document[key]
        except (LookupError, TypeError):
            raise KeyError(path) from None
    return document


def same(one, other):
    """Whether two values are equal, numbers to five digits, and of one kind: 1 is 1.0, but not True or "1"."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or math.isclose(one, other, rel_tol=1e-5)
    return one == other


def spoilt_document(data, random):
    """One change of a JSON document."""
    broken, edit = edited(json.loads(data), random)
    return spelt(broken).encode(), edit


def spoilt_safetensors(data, random):
    """A typed change of the header, whose own length is sometimes another lie."""
    size = int.from_bytes(data[:8], "little")
    broken, edit = edited(json.loads(data[8 : 8 + size]), random)
    header = spelt(broken).encode()
    said = random.choice([len(header)] * 6 + [0, 1, len(header) + 1, 2**40, 2**63])
    return said.to_bytes(8, "little") + header + data[8 + size :], edit


SHAPES = (
    "(6, 60)", "(360,)", "(60, 7)", "(0, 6)", "(60, 0)", "(2**40, 6)", "(1099511627776, 6)", "(-60, 6)", "(-60, -6)",
    "(60.0, 6)", "(True, 360)", "None", "'x'", "(60, 6, 1)", "()", "(" + "1," * 65 + ")", "(4294967296, 4294967296)",
    "(36, 10)", "[60, 6]", "(59, 6)",
)  # fmt: skip
TYPES = (">f4", "<f2", "<f8", "<i4", "|O", "<c8", "|b1", "<U4", "<M8[s]", "|V4", "f4,f4", "[]", "", "<f16")


def spoilt_npy(data, random):
    """Another type, order or shape than the numbers that follow have, or a header that is none."""
    size = struct.unpack("<H", data[8:10])[0]
    shape, kind, order = re.search(rb"\(\d[^)]*\)", data)[0].decode(), "<f4", "False"
    for which in random.sample(["shape", "kind", "order", "words"], random.choice([1, 1, 2])):
        shape = random.choice(SHAPES) if which == "shape" else shape
        kind = random.choice(TYPES) if which == "kind" else kind
        order = random.choice(["True", "0", "None", "'x'"]) if which == "order" else order
        words = which == "words"
    header = f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}}}"
    others = [header * 2, header[:-1], "__import__('os')", "{}", "[" * 5000, header.replace("'shape'", "'descr'")]
    header = (random.choice(others) if words else header).encode() + b"\n"
    said = random.choice([len(header)] * 6 + [0, 65535])
    return data[:8] + struct.pack("<H", said) + header + data[10 + size :], Edit("header", (), header.decode()[:100])


def spoilt_gguf(data, random):
    """A number of the metadata, or of a tensor's description, turned into another."""
    data = bytearray(data)
    end = data.find(b"blk.0.attn_q") + 200
    numbers = [at for at in range(4, end - 8) if 0 < int.from_bytes(data[at : at + 4], "little") < 4096]
    at = random.choice(numbers)
    new = random.choice([0, 1, 2, 3, 5, 7, 8, 9, 12, 31, 33, 64, 2**16, 2**31 - 1, 2**31, 2**32 - 1])
    data[at : at + 4] = new.to_bytes(4, "little")
    return bytes(data), Edit("number", (at,), new)


PLACES = ("pipe", "folder", "device", "dangling link", "loop", "empty", "nested")


def put_something_else(path, kind):
    """What is no document in the place of one."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "dangling link":
        path.symlink_to(path.with_name("nowhere"))
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_text(NESTED if kind == "nested" else "")


def _at(document, path):
    for key in path:
        document = document[key]
    return document


def _replaced(document, path, value):
    if not path:
        return value
    _at(document, path[:-1])[path[-1]] = value
    return document
