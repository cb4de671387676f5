"""Tiny models on disk: with language heads, to be loaded, run and cut."""

import torch
import transformers

from tiny_models import CONFIGS

_HEADS = {"llama": "LlamaForCausalLM", "gpt2": "GPT2LMHeadModel", "mistral": "MistralForCausalLM"}


def tiny_language_model(name, *, seed=0, **changes):
    """A random causal language model whose attention is far from uniform."""
    kind, fields = CONFIGS[name]
    torch.manual_seed(seed)
    model = getattr(transformers, _HEADS[name])._from_config(
        getattr(transformers, kind)(**fields | changes), attn_implementation="eager"
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    return model.eval()


def saved(model, folder):
    """The folder ``model`` was saved to."""
    model.save_pretrained(folder)
    return folder


def tokens(texts=3, length=12, seed=0, vocabulary=50):
    return torch.randint(3, vocabulary, (texts, length), generator=torch.Generator().manual_seed(seed))


def saved_byte_model(directory, dim=8, seed=0):
    """A tiny GPT-2 on disk whose tokens are bytes, with its tokenizer: it can be run on any text."""
    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    model = tiny_language_model(
        "gpt2", seed=seed, vocab_size=260, n_positions=256, n_embd=dim, n_head=2, n_layer=2, **ends
    )
    _byte_tokenizer().save_pretrained(saved(model, directory))
    return directory


def _byte_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
