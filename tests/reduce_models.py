"""Tiny causal models of every decoder layout, as ``reduce`` meets them."""

from pathlib import Path

import torch
import transformers

from rankwise.models.running.model import RunningModel
from rankwise.reduce.pieces import MaskedPieces
from saved_models import tokens
from tiny_models import CONFIGS, randomised

DECODERS = {
    "llama": "LlamaForCausalLM",
    "llama-biased": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt-neox": "GPTNeoXForCausalLM",
    "falcon-multi-query": "FalconForCausalLM",
    "falcon-grouped": "FalconForCausalLM",
    "deepseek-v2": "DeepseekV2ForCausalLM",
    "deepseek-v3": "DeepseekV3ForCausalLM",
}
ENCODERS = ("bert", "roberta", "distilbert", "t5")


def causal_model(name):
    """A random model with attention that is far from uniform."""
    kind, fields = CONFIGS[name]
    config = getattr(transformers, kind)(**fields)
    torch.manual_seed(0)
    model = getattr(transformers, DECODERS[name])._from_config(config, attn_implementation="eager")
    return RunningModel(Path(name), randomised(model, 1).eval(), None, "causal")


def encoder(name):
    kind, fields = CONFIGS[name]
    config = getattr(transformers, kind)(**fields)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager")
    return RunningModel(Path(name), randomised(model, 1).eval(), None, "embedding")


def pieces(texts=6, length=12, seed=0):
    return MaskedPieces(tokens(texts, length, seed), ("made up",))
