import hashlib
import math
from collections import Counter
from itertools import pairwise

import pytest
import torch

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.spec import TextSpec
from rankwise.tasks.data_files import read_corpus
from rankwise.tasks.text import Text, bigram_bits, unigram_bits


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def text_task(tmp_path, content, context=4):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    return Text(TextSpec(context=context, sha256=hashlib.sha256(content).hexdigest(), path=str(path)))


@pytest.fixture
def prose(tmp_path):
    words = [f"{'abcdefgh'[(i * i) % 8]}{i % 7} of the {i % 13}\n" for i in range(400)]
    return text_task(tmp_path, "".join(words).encode())


def test_targets_are_the_next_bytes_and_come_from_the_right_part(prose):
    corpus = prose.corpus
    assert len(corpus.held_out) == (len(corpus.training) + len(corpus.held_out)) // 10
    batch = prose.training_batch(50, generator(), step=3, dtype=torch.float32)
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        assert torch.equal(tokens[1:], targets[:-1])
        assert bytes([*tokens.tolist(), targets[-1].item()]) in corpus.training
    for part in prose.held_out(3, 7, generator(), dtype=torch.float32):
        for tokens, targets in zip(part.tokens, part.targets, strict=True):
            assert bytes([*tokens.tolist(), targets[-1].item()]) in corpus.held_out


def test_held_out_windows_are_the_same_for_every_run_and_do_not_overlap(prose):
    one, other = (prose.held_out(1000, 64, generator(seed), dtype=torch.float32) for seed in (0, 1))
    assert torch.equal(one[0].tokens, other[0].tokens)
    count = sum(map(len, one))
    assert count == (len(prose.corpus.held_out) - 1) // 4
    assert sum(map(len, prose.held_out(2, 3, generator(), dtype=torch.float32))) == 6


def test_bits_of_a_sure_and_of_an_ignorant_model(prose):
    batch = prose.training_batch(5, generator(), step=0, dtype=torch.float32)
    assert prose.error(torch.zeros(5, 4, 256), batch).tolist() == pytest.approx([8.0] * 5)
    sure = 100 * torch.nn.functional.one_hot(batch.targets, 256).float()
    assert prose.error(sure, batch).max() < 1e-6
    sure[:, :2] = 0
    assert prose.error(sure, batch).tolist() == pytest.approx([4.0] * 5)
    assert prose.details(sure, batch)["later_half"].max() < 1e-6
    with pytest.raises(ShapeError, match=r"expected logits \[batch, context, 256\]"):
        prose.error(sure[:, :, :10], batch)


def test_the_tables_agree_with_counting_in_python(prose):
    text, batches = prose.corpus.training, prose.held_out(10, 16, generator(), dtype=torch.float32)
    single, pairs = Counter(text), Counter(pairwise(text))
    total = len(text) + 256
    unigram, bigram = [], []
    for batch in batches:
        for before, after in zip(batch.tokens.flatten().tolist(), batch.targets.flatten().tolist(), strict=True):
            p = (single[after] + 1) / total
            unigram.append(-math.log2(p))
            seen = sum(count for (a, _), count in pairs.items() if a == before)
            bigram.append(-math.log2((pairs[before, after] + p) / (seen + 1)))
    assert unigram_bits(prose, batches) == pytest.approx(sum(unigram) / len(unigram))
    assert bigram_bits(prose, batches) == pytest.approx(sum(bigram) / len(bigram))
    assert bigram_bits(prose, batches) < unigram_bits(prose, batches)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "expected a text file, got no such file"),
        (b"", "expected a text file, got an empty file"),
        (bytes(range(256)) * 20, "expected UTF-8 text, got a binary file"),
        (b"some text\0and more" * 99, "got a binary file .the byte 0x00 at position 9"),
        (b"too short", "expected at least 5 bytes of held-out text for context = 4, got 0"),
    ],
)
def test_unusable_files_are_refused_before_anything_runs(tmp_path, content, words):
    if content is None:
        with pytest.raises(InvalidInputError, match=words):
            Text(TextSpec(context=4, sha256="0" * 64, path=str(tmp_path / "nowhere.txt")))
    else:
        with pytest.raises(InvalidInputError, match=words):
            text_task(tmp_path, content)


def test_a_directory_is_not_a_text(tmp_path):
    with pytest.raises(InvalidInputError, match="not a regular file"):
        read_corpus(str(tmp_path))


def test_changed_data_is_another_run(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("hello world " * 50)
    with pytest.raises(InvalidInputError, match=r"task.sha256: expected data of SHA-256 0000.* the data has changed"):
        Text(TextSpec(context=4, sha256="0" * 64, path=str(path)))
    with pytest.raises(InvalidInputError, match="64 lower-case hexadecimal"):
        TextSpec(context=4, sha256="abc")


def test_the_standard_library_is_always_there_and_always_the_same():
    corpus, again = read_corpus(), read_corpus()
    assert corpus is again
    assert len(corpus.training) > 5_000_000
    assert b"def " in corpus.held_out
    assert b"_sysconfigdata" not in corpus.sha256.encode()
    task = Text(TextSpec(context=32, sha256=corpus.sha256))
    batches = task.held_out(4, 64, generator(), dtype=torch.float32)
    assert 4 < unigram_bits(task, batches) < 5.5
    assert 3 < bigram_bits(task, batches) < 4.2
