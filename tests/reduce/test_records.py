"""Whole records, padded and masked, against a stream of the same records cut at one length."""

import json
import math
import random

import pytest
import torch
import transformers

from rankwise.cli import main
from rankwise.models.running.model import load_running
from rankwise.reduce.pieces import read_records
from saved_models import saved
from word_tokenizer import word_tokenizer

SHORT, LONG, SEP = 6, 12, 3
NORMED = 63**0.5  # the entry of a unit vector of 64 coordinates after its norm


def word(place, which):
    """One of the two words that may stand at a place of a record."""
    return f"w{2 * place + which}"


def written_records(path, count=80):
    """Records of 6 or 12 words; which of a place's two words comes, and which length, is a coin's."""
    coin = random.Random(0)
    lines = [" ".join(word(at, coin.randrange(2)) for at in range(coin.choice([SHORT, LONG]))) for _ in range(count)]
    path.write_text("\n".join(lines))
    return path, lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that knows by its position which two words may come, as if trained on whole records."""
    directory, tokenizer = tmp_path_factory.mktemp("records"), word_tokenizer(60)
    config = transformers.GPT2Config(
        vocab_size=60, n_positions=64, n_embd=64, n_head=4, n_layer=1, tie_word_embeddings=False, bos_token_id=None,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel._from_config(config)
    with torch.no_grad():
        for layer in (model.transformer.h[0].attn.c_proj, model.transformer.h[0].mlp.c_proj):
            layer.weight.mul_(0.01)
        model.transformer.wte.weight.zero_()
        model.transformer.wpe.weight.copy_(torch.eye(64))
        model.lm_head.weight.zero_()
        for place in range(64):
            if place < LONG:
                model.lm_head.weight[tokenizer.convert_tokens_to_ids([word(place, 0), word(place, 1)]), place] = 2.0
            if place in (SHORT, LONG):
                model.lm_head.weight[SEP, place] = 2.0 + (math.log(2) / NORMED if place == SHORT else 0)
            if place > LONG:  # never seen in training
                model.lm_head.weight[tokenizer.convert_tokens_to_ids(f"w{2 * LONG + place % 30}"), place] = 2.0
    tokenizer.save_pretrained(directory)
    return saved(model, directory)


def reduced(capsys, folder, *texts):
    arguments = ["reduce", str(folder), "--keep", "0.5", "--no-recall", "--context", "0", "--json", *map(str, texts)]
    code = main(arguments)
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def test_whole_records_have_the_right_loss_and_a_stream_of_them_is_warned_of(folder, tmp_path, capsys):
    """Right is log 2 per token: a coin per word, and one for the length, tossed where a word or the end may follow."""
    path, lines = written_records(tmp_path / "records.txt")
    whole = reduced(capsys, folder, "--records", path, "--pieces", "80")
    assert whole["texts"]["records"] is True
    assert whole["texts"]["evaluation"] == len(lines) - 20
    assert whole["original_loss"] == pytest.approx(math.log(2), abs=0.01)
    assert whole["warnings"] == []
    assert (whole["sanity"]["unknown_share"], whole["sanity"]["text_used"]) == (0.0, 1.0)
    assert whole["sanity"]["loss"] < whole["sanity"]["unigram_loss"]

    stream = reduced(capsys, folder, "--text", path, "--length", "32", "--pieces", "80")
    assert stream["texts"]["records"] is False
    assert stream["original_loss"] > math.log(60)
    (warning,) = stream["warnings"]
    assert "near or above that of a uniform guess" in warning
    assert "--records FILE" in warning

    assert main(["audit", str(folder), "--text", str(path), "--length", "32"]) == 0
    told = capsys.readouterr().out
    assert "Warning: the model's loss of" in told
    assert "of guessing by frequency" in told


def test_what_is_cut_off_records_is_told(folder, tmp_path):
    path, lines = written_records(tmp_path / "records.txt")
    running = load_running(folder)
    read = read_records(path, running, length=8, limit=10)
    assert read.tokens.shape == (10, 8)
    assert read.mask.all()
    lengths = [len(line.split()) for line in lines]
    kept = sum(words * 8 / (words + 2) for words in lengths[:10])  # of [CLS], the words and [SEP]
    assert read.used == pytest.approx(kept / sum(lengths), rel=0.1)
    assert read_records(path, running, length=14, limit=80).used == 1
    path.write_text("\n".join(" ".join(["w1"] * 100) for _ in range(4)))
    assert read_records(path, running, length=512, limit=10).tokens.shape == (4, 64)  # no longer than the model
