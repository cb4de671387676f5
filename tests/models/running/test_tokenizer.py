"""The tokenizer fits the model, or texts are refused."""

import json

import numpy as np
import pytest
import torch
import transformers

from rankwise.cli import main
from rankwise.models.running.model import load_running, running_from
from rankwise.models.running.texts import text_sequences
from saved_models import saved
from word_tokenizer import word_tokenizer

_SIZES = {"vocab_size": 3000, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 8,
          "num_hidden_layers": 1, "max_position_embeddings": 40, "pad_token_id": 0}  # fmt: skip
_T5 = {"vocab_size": 3000, "d_model": 16, "d_kv": 8, "d_ff": 8, "num_layers": 1, "num_heads": 2}


@pytest.mark.parametrize("family", ["Bert", "Roberta", "XLMRoberta", "Electra", "T5"])
def test_stand_in_tokenizers_are_refused(family, tmp_path, capsys):
    config = getattr(transformers, f"{family}Config")(**_T5 if family == "T5" else _SIZES)
    folder = saved(getattr(transformers, f"{family}Model")._from_config(config), tmp_path / "m")
    made_up = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert len(made_up) < 200  # what would have been measured with
    running = load_running(folder)
    assert running.tokenizer is None
    (tmp_path / "t.txt").write_text("many words of a text " * 50)
    assert main(["need", "--model", str(folder), "--text", str(tmp_path / "t.txt"), "--json"]) == 2
    said = capsys.readouterr().err
    assert f"a tokenizer of {len(made_up)} tokens for a model of 3000 embeddings" in said
    assert "--tokens" in said


def masked_model(folder, tokens):
    model = transformers.BertForMaskedLM._from_config(transformers.BertConfig(**_SIZES | {"vocab_size": 100}))
    word_tokenizer(tokens).save_pretrained(folder)
    return saved(model, folder)


@pytest.mark.parametrize(("tokens", "fits"), [(80, False), (92, True), (100, True), (108, True), (120, False)])
def test_a_tokenizer_has_about_as_many_tokens_as_the_model_has_embeddings(tokens, fits, tmp_path):
    running = load_running(masked_model(tmp_path / "m", tokens))
    assert (running.tokenizer is not None) == fits
    assert (running.no_tokenizer_because is None) == fits


def test_the_mask_token_is_the_models_own(tmp_path):
    running = load_running(masked_model(tmp_path / "m", 100))
    assert (running.objective, running.mask_token) == ("masked", 4)
    assert load_running(masked_model(tmp_path / "n", 20)).mask_token is None
    stated = transformers.EsmConfig(vocab_size=33, hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
                                    intermediate_size=8, pad_token_id=1, mask_token_id=32)  # fmt: skip
    esm = transformers.EsmForMaskedLM._from_config(stated, attn_implementation="eager")
    assert running_from(esm, objective="masked").mask_token == 32


def test_the_share_of_unknown_tokens_is_told_and_warned_of(tmp_path, capsys):
    folder = masked_model(tmp_path / "m", 100)
    (tmp_path / "known.txt").write_text(" ".join(f"w{at % 90}" for at in range(400)))
    (tmp_path / "unknown.txt").write_text(" ".join(f"w{at % 90}" if at % 10 else "what" for at in range(400)))
    shares = {}
    for name in ("known", "unknown"):
        text, out = tmp_path / f"{name}.txt", tmp_path / f"{name}.json"
        page = tmp_path / f"{name}.html"
        arguments = ["audit", str(folder), "--text", str(text), "--length", "22", "-o", str(out), "--page", str(page)]
        assert main(arguments) == 0
        told = capsys.readouterr().out
        sanity = json.loads(out.read_text())["attention"]["sanity"]
        shares[name] = sanity["unknown_share"]
        assert f"unknown tokens {shares[name]:.1%}" in told
        assert ("above 2%" in told) == (name == "unknown")
        assert ("above 2%" in page.read_text()) == (name == "unknown")
        assert sanity["text_used"] == pytest.approx(8 * 20 / 400, rel=0.02)
        assert sanity["uniform_loss"] == pytest.approx(np.log(100))
    assert shares == {"known": 0.0, "unknown": pytest.approx(0.1 * 20 / 22, abs=0.01)}


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "gemma3"])
@pytest.mark.parametrize(("stated", "begins"), [(True, True), (False, False), (None, True)])
def test_gguf_files_say_whether_texts_begin_with_bos(architecture, stated, begins, tmp_path):
    pytest.importorskip("accelerate", reason="running GGUF files needs the extra gguf")
    path = gemma_like(tmp_path / "m.gguf", stated, architecture)
    running = load_running(path)
    (tmp_path / "t.txt").write_text("a b c d e " * 30)
    pieces = text_sequences([tmp_path / "t.txt"], running.tokenizer, length=10, without=running.no_tokenizer_because)
    assert (pieces.tokens[:, 0] == 2).all() == begins
    assert not (pieces.tokens[:, 1:] == 2).any()


def gemma_like(path, adds_bos, architecture):
    """A tiny language model with a SentencePiece vocabulary whose BOS is token 2."""
    gguf = pytest.importorskip("gguf", reason="GGUF files need the extra gguf")
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(32)
    writer.add_context_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(16)
    letters = [f"▁{letter}" for letter in "abcde"] + list("abcde▁")
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 260 + [-1.0 - at for at in range(len(letters))])
    writer.add_token_types([3] * 3 + [2] + [6] * 256 + [1] * len(letters))
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    if adds_bos is not None:
        writer.add_add_bos_token(adds_bos)
    rng = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), 64), "output_norm": (64,),
              "blk.0.attn_norm": (64,), "blk.0.ffn_norm": (64,), "blk.0.attn_q": (64, 64), "blk.0.attn_k": (32, 64),
              "blk.0.attn_v": (32, 64), "blk.0.attn_output": (64, 64), "blk.0.ffn_gate": (32, 64),
              "blk.0.ffn_up": (32, 64), "blk.0.ffn_down": (64, 32)}  # fmt: skip
    if architecture == "llama":
        shapes["output"] = (len(tokens), 64)
    else:
        writer.add_key_length(16)
        writer.add_value_length(16)
        shapes |= {"blk.0.post_attention_norm": (64,), "blk.0.post_ffw_norm": (64,)}
    if architecture == "gemma3":
        shapes |= {"blk.0.attn_q_norm": (16,), "blk.0.attn_k_norm": (16,)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_text_is_tokenised_only_as_far_as_needed(tmp_path):
    class Counting:
        seen = 0

        def __call__(self, text, *, add_special_tokens=True, verbose=False):
            Counting.seen += len(text)
            return {"input_ids": [5] * len(text.split())}

    (tmp_path / "t.txt").write_text("word " * 2_000_000)
    pieces = text_sequences([tmp_path / "t.txt"], Counting(), length=100, limit=8)
    assert torch.equal(pieces.tokens, torch.full((8, 100), 5))
    assert Counting.seen < 300_000
    assert pieces.used == pytest.approx(800 / 2_000_000, rel=0.01)
