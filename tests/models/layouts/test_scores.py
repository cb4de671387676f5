"""Weights, scale, positions and norms of an audited layer give the scores the model itself computes."""

import json

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModel

from model_scores import predicted_scores, recorded_inputs, recorded_softmax
from rankwise.models.files.source import open_model
from rankwise.models.layouts import load_layer, place
from tiny_heads import heads_of
from tiny_models import CONFIGS, VOCAB, randomised, tiny_model

TOKENS = 12
# their scores have a term of the distance alone besides QK
BIASED = {"t5": "cross", "falcon-alibi": None}


def run(model):
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(3, VOCAB, (1, TOKENS), generator=generator)
    kind = model.config.model_type
    with torch.no_grad():
        if kind == "vit":
            model(torch.randn(1, 3, 16, 16, generator=generator))
        elif kind == "whisper":
            model(torch.randn(1, 8, 32, generator=generator), decoder_input_ids=tokens)
        elif kind == "t5":
            model(input_ids=tokens, decoder_input_ids=tokens)
        else:
            model(tokens)


def assert_predicts(name, model, directory, only=None, eps=None):
    source = open_model(directory)
    layers = {ref.name: ref for ref in place(source).layers}
    modules = [(layer.name, layer.module) for layer in heads_of(name, model)]
    if getattr(model.config, "use_bidirectional_attention", False):
        modules = [(layer.replace("decoder", "encoder"), module) for layer, module in modules]
    assert [layer for layer, _ in modules] == list(layers)
    with recorded_inputs(modules) as inputs, recorded_softmax() as softmaxes:
        run(model)
    assert len(softmaxes) == len(layers)
    for ref, theirs in zip(layers.values(), softmaxes, strict=True):
        if only is not None and ref.part != only:
            continue
        ours = predicted_scores(load_layer(source, ref), *inputs[ref.name], eps)
        theirs = theirs[0].double().numpy()
        visible = theirs > -1e30
        back = np.arange(theirs.shape[-2])[:, None] - np.arange(theirs.shape[-1])
        seen = np.abs(back) < (ref.window or np.inf)
        assert (visible == (seen if ref.mask == "full" else seen & (back >= 0))).all()
        np.testing.assert_allclose(ours[visible], theirs[visible], rtol=1e-4, atol=1e-4 * np.abs(theirs[visible]).max())


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in BIASED or BIASED[name]])
def test_the_audited_weights_predict_the_models_own_scores(name, tmp_path):
    changes = {"sliding_window": 5} if name in ("mistral", "gemma2", "gemma3") else {}
    model = tiny_model(name, **changes)
    model.save_pretrained(tmp_path)
    eps = getattr(model.config, "rms_norm_eps", None)
    assert_predicts(name, model, tmp_path, only=BIASED.get(name), eps=eps)


def test_a_window_on_both_sides(tmp_path):
    """EmbeddingGemma: 8 stands for 4 keys on either side."""
    model = tiny_model("gemma3", use_bidirectional_attention=True, sliding_window=8)
    model.save_pretrained(tmp_path)
    assert_predicts("gemma3", model, tmp_path, eps=model.config.rms_norm_eps)
    for layer in place(open_model(tmp_path)).layers:
        assert (layer.mask, layer.window) == ("full", 5)


YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}
ROPES = {
    "llama3": ("llama", {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
    "linear": ("llama", {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}),
    "yarn": ("llama", YARN),
    "yarn-deepseek": ("deepseek-v3", YARN | {"mscale": 0.7, "mscale_all_dim": 1.2}),
    "yarn-qwen": ("qwen3", YARN | {"attention_factor": 1.3}),
}  # fmt: skip


@pytest.mark.parametrize("sort", ROPES)
def test_stretched_rotary_positions_too(sort, tmp_path):
    name, parameters = ROPES[sort]
    model = tiny_model(name, rope_parameters=parameters)
    model.save_pretrained(tmp_path)
    assert_predicts(name, model, tmp_path, eps=model.config.rms_norm_eps)


# what google/gemma-3-4b states of its text part, with fewer and smaller layers
GEMMA_3_AS_PUBLISHED = {
    "hidden_size": 40, "intermediate_size": 44, "model_type": "gemma3_text", "num_hidden_layers": 6,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 8,
}  # fmt: skip


@pytest.mark.parametrize("stated", [GEMMA_3_AS_PUBLISHED, GEMMA_3_AS_PUBLISHED | {"num_attention_heads": 4}])
def test_gemma_3_whose_text_part_leaves_its_familys_defaults_unsaid(stated, tmp_path):
    config = transformers.Gemma3TextConfig(**stated, vocab_size=VOCAB)
    model = randomised(AutoModel.from_config(config, attn_implementation="eager"), seed=0)
    model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": stated}))
    assert_predicts("gemma3", model, tmp_path, eps=config.rms_norm_eps)
    *near, far = place(open_model(tmp_path)).layers
    turning = model.rotary_emb
    for layer in near:
        assert (layer.mask, layer.window) == ("window", 8)
        np.testing.assert_allclose(layer.rope.frequencies, turning.sliding_attention_inv_freq, rtol=1e-6)
    assert far.mask == "causal"
    np.testing.assert_allclose(far.rope.frequencies, turning.full_attention_inv_freq, rtol=1e-6)
