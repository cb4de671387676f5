import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.sweep.engines.engine import Checkpointed, Continued, Failed, Finished, Lost, Progress, Returned, Started
from rankwise.sweep.engines.wire import accept_checkpoint, checkpoint_files, decode_events, encode_events

words = st.text(max_size=20)
seconds = st.floats(0, 1e9)
tables = st.dictionaries(words, words | st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=3)
events = st.one_of(
    st.builds(Started, run_id=words, versions=st.dictionaries(words, words, max_size=2), machine=tables),
    st.builds(Progress, run_id=words, values=tables),
    st.builds(Continued, run_id=words, seconds=seconds),
    st.builds(Checkpointed, run_id=words, path=words, sha256=words, step=st.integers()),
    st.builds(Finished, run_id=words, result=tables, seconds=seconds),
    st.builds(Failed, run_id=words, status=st.sampled_from(["failed"]), reason=words, traceback=words, seconds=seconds),
    st.builds(Returned, run_id=words, seconds=seconds),
    st.builds(Lost, run_id=words, reason=words, log=words, seconds=seconds),
)


@given(st.lists(events, max_size=5), st.lists(words, max_size=2))
def test_what_is_said_is_heard(told, files):
    assert decode_events(encode_events(told, files)) == (told, files)


def test_numbers_that_json_has_no_word_for_do_not_cross():
    with pytest.raises(ValueError, match="JSON"):
        encode_events([Finished(run_id="a", result={"error": float("nan")}, seconds=0.0)])


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": "x"},
        {"seconds": True},
        {"seconds": None},
        {"result": []},
        {"result": "x"},
        {"run_id": 3},
        {"more": 1},
    ],
)
def test_values_of_another_type_are_refused(change):
    said = {"event": "Finished", "run_id": "a", "result": {}, "seconds": 1.0} | change
    with pytest.raises((ValueError, TypeError)):
        decode_events(json.dumps({"events": [said], "files": []}).encode())


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_message_has_finite_numbers(number):
    said = '{"events": [{"event": "Finished", "run_id": "a", "result": {"e": 7.5}, "seconds": 1}], "files": []}'
    decode_events(said.encode())
    with pytest.raises(ValueError, match="finite"):
        decode_events(said.replace("7.5", number).encode())


def checkpoint(data, name="1.safetensors"):
    return Checkpointed(run_id="a", path=f"/node/{name}", sha256=hashlib.sha256(data).hexdigest(), step=1)


def test_a_checkpoint_replaces_the_one_before_it(tmp_path):
    for data in (b"one", b"two"):
        name = f"{data.decode()}.safetensors"
        kept = accept_checkpoint(tmp_path / "a", name, data, checkpoint(data))
        assert kept.path == str(tmp_path / "a" / name)
    assert checkpoint_files(tmp_path / "a") == {"two.safetensors": b"two"}


@pytest.mark.parametrize("name", ["../x.safetensors", "/tmp/x.safetensors", "a/b.safetensors", "x.bin", "x", ".."])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    assert accept_checkpoint(tmp_path / "a", name, b"data", checkpoint(b"data")) is None
    assert list(tmp_path.rglob("*")) == []


def test_bytes_that_changed_on_the_way_are_refused(tmp_path):
    assert accept_checkpoint(tmp_path, "1.safetensors", b"dat4", checkpoint(b"data")) is None
    assert list(tmp_path.iterdir()) == []
