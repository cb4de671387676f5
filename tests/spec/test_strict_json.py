import os
import time

import pytest

from rankwise.errors import InvalidInputError, SpecError
from rankwise.spec.strict_json import MAX_BYTES, parse_strictly, read_json_object


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected strict JSON"),
        (b"{", "expected strict JSON"),
        (b"hidden_size = 64", "expected strict JSON"),
        (b"\xff\xfe{}", "expected JSON"),
        (b"PK\x03\x04 not a config", "expected strict JSON"),
        (b"[1, 2]", "expected a JSON object of keys and values, got a list"),
        (b'"text"', "got a str"),
        (b"null", "got a NoneType"),
        (b'{"a": 1, "b": 2, "a": 1}', "a: duplicate key"),
        (b'{"deep": {"x": 1, "x": 2}}', "deep.x: duplicate key"),
        (b'{"a": NaN}', "expected finite numbers, got NaN"),
        (b'{"a": ' + b"9" * 5000 + b"}", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        (b'{"a": "' + b"x" * (10 * 2**20) + b'"}', "expected a JSON file of at most 8 MB, got a larger file"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_is_not_a_json_object_is_refused(tmp_path, content, message):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message) as refused:
        read_json_object(path)
    assert str(refused.value).startswith(str(path))
    assert len(str(refused.value)) < 1000


def test_what_is_no_readable_file_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="got no such file"):
        read_json_object(tmp_path / "absent.json")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInputError, match="not a regular file"):
        read_json_object(tmp_path / "pipe")
    with pytest.raises(InvalidInputError, match="not a regular file"):
        read_json_object(tmp_path)
    with pytest.raises(InvalidInputError, match="expected a JSON file, got: File name too long"):
        read_json_object(tmp_path / ("x" * 5000))
    with pytest.raises(InvalidInputError, match="got: embedded null byte"):
        read_json_object(tmp_path / "nul\0byte")


def test_a_file_that_cannot_be_opened_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    path.write_text("{}")

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", denied)
    with pytest.raises(InvalidInputError, match="expected a JSON file, got: Permission denied"):
        read_json_object(path)


def test_infinity_and_byte_order_marks_are_tolerated(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b'\xef\xbb\xbf{"time_step_limit": [0.0, Infinity]}')
    assert read_json_object(path) == {"time_step_limit": [0.0, float("inf")]}


def test_a_file_of_just_the_largest_size_is_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a": "' + b"x" * (MAX_BYTES - 9) + b'"}')
    assert len(read_json_object(path)["a"]) == MAX_BYTES - 9


def test_duplicate_keys_are_found_in_linear_time(tmp_path):
    """A megabyte of keys took a minute and a half when every key was looked for among all others."""
    keys = ",".join(f'"{number}":0' for number in range(100_000))
    (tmp_path / "long.json").write_text("{" + keys + "}")
    assert len(read_json_object(tmp_path / "long.json")) == 100_000
    (tmp_path / "twice.json").write_text("{" + keys + ',"99999":1}')
    with pytest.raises(InvalidInputError, match="99999: duplicate key"):
        read_json_object(tmp_path / "twice.json")


def test_doubled_keys_are_found_in_linear_time():
    """Depth times width: 1 MB of nested JSON took 97 s when every value had its path written out."""
    deep = '{"k' + "x" * 60 + '":'
    text = deep * 400 + "[" + ",".join(["[]"] * 300_000) + "]" + "}" * 400
    began = time.process_time()
    parse_strictly(text)
    with pytest.raises(SpecError, match=r"\.a: duplicate key"):
        parse_strictly(deep * 400 + "[" + ",".join(["[]"] * 300_000) + ',{"a":1,"b":2,"a":3}]' + "}" * 400)
    assert time.process_time() - began < 5


def test_the_path_of_a_doubled_key_is_told():
    with pytest.raises(SpecError, match=r"^a\.b\[1\]\.c: duplicate key$"):
        parse_strictly('{"a": {"b": [{}, {"c": 1, "d": 2, "c": 3}]}}')
