"""Token ids and texts as pieces of one length."""

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.models.running.texts import text_sequences, texts_a_pass, token_sequences


class Words:
    """Every word is a token, its length the id; 101 and 102 enclose a piece."""

    def __call__(self, text, *, add_special_tokens=True, verbose):
        ids = [len(word) for word in text.split()]
        return {"input_ids": [101, *ids, 102] if add_special_tokens else ids}


def written(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    return tmp_path / name


def test_pieces_are_whole_and_taken_from_files_in_turn(tmp_path):
    first = written(tmp_path, "a.txt", "a " * 7)
    second = written(tmp_path, "b.txt", "bbb " * 6)
    pieces = text_sequences([first, second], Words(), length=5)
    assert pieces.tokens.tolist() == [[101, 1, 1, 1, 102], [101, 3, 3, 3, 102]] * 2
    assert pieces.sources == ("a.txt", "b.txt")
    assert pieces.used == pytest.approx(12 / 13, rel=0.1)
    assert len(text_sequences([first, second], Words(), length=5, limit=3).tokens) == 3


class SpacesAndWords:
    """Cuts as GPT-2 does: a word with the space before it, other white space together; its length is the id."""

    def __call__(self, text, *, add_special_tokens=True, verbose):
        return {"input_ids": [len(part) for part in re.findall(r" ?[^\s]+|\s+(?!\S)|\s+", text)]}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_long_text_has_the_tokens_of_the_whole_however_its_lines_end(tmp_path, end):
    lines = [f" {'word ' * (1 + at % 7)}= {at} = " for at in range(30_000)]
    path = tmp_path / "long.txt"
    path.write_bytes(end.join(lines).encode())
    whole = SpacesAndWords()("\n".join(lines), verbose=False)["input_ids"]
    found = text_sequences([path], SpacesAndWords(), length=50).tokens.flatten().tolist()
    assert found == whole[: len(found)]
    assert len(whole) - len(found) < 50


def test_tokenizers_written_in_python_give_every_piece_too(tmp_path):
    transformers = pytest.importorskip("transformers")
    file, tokenizer = written(tmp_path, "a.txt", "abcdefghij" * 5), transformers.ByT5Tokenizer()
    pieces = text_sequences([file], tokenizer, length=16).tokens
    assert pieces.shape == (3, 16)
    assert "".join(tokenizer.batch_decode(pieces, skip_special_tokens=True)) == ("abcdefghij" * 5)[:45]
    assert pieces[:, -1].tolist() == [tokenizer.eos_token_id] * 3
    with pytest.raises(InvalidInputError, match="expected at least 64 tokens, got 51"):
        text_sequences([file], tokenizer, length=64)


@pytest.mark.parametrize(
    ("content", "said"), [("short", "choose --length 3"), ("\udcff", "UTF-8")], ids=["short", "bytes"]
)
def test_texts_that_cannot_be_used_say_why(tmp_path, content, said):
    path = tmp_path / "t.txt"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidInputError, match=said):
        text_sequences([path], Words(), length=8)


def test_a_model_without_a_tokenizer_points_to_tokens(tmp_path):
    with pytest.raises(InvalidInputError, match="--tokens"):
        text_sequences([written(tmp_path, "a.txt", "a")], None, length=4)


@given(rows=st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=5))
def test_ids_come_back_from_json_and_npy(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("ids")
    np.save(folder / "ids.npy", np.array(rows))
    (folder / "ids.json").write_text(json.dumps(rows))
    for name in ("ids.npy", "ids.json"):
        assert torch.equal(token_sequences(folder / name, vocabulary=10).tokens, torch.tensor(rows))


def test_one_long_list_is_cut(tmp_path):
    path = written(tmp_path, "ids.json", json.dumps(list(range(10))))
    assert token_sequences(path, vocabulary=10, length=4).tokens.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("content", "said"),
    [("[[1,2],[3]]", "one length"), ("[1, 99]", "vocabulary"), ("[-1, 2]", "vocabulary"), ('["a", "b"]', "integer ids"),
     ("{}", "list"), ("nonsense", "JSON or .npy"), ("[1.5, 2]", "integer ids"), ("[[1]]", "at least two"),
     ("[[1, true]]", "true or false")],
)  # fmt: skip
def test_ids_that_cannot_be_meant_are_refused(tmp_path, content, said):
    with pytest.raises(InvalidInputError, match=said):
        token_sequences(written(tmp_path, "ids.json", content), vocabulary=10)


def test_pickled_arrays_are_not_opened(tmp_path):
    np.save(tmp_path / "ids.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInputError, match="npy"):
        token_sequences(tmp_path / "ids.npy", vocabulary=10)


def test_a_pass_takes_as_many_texts_as_memory_allows():
    assert [texts_a_pass(numbers) for numbers in (1, 2**24, 2**25, 2**27, 2**30)] == [8, 8, 4, 1, 1]
    assert texts_a_pass(2**30, least=2) == 2
