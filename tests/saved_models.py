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
