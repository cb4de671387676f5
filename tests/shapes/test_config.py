"""Configs of real families against the models that transformers builds from them."""

import json
import re

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.shapes import LatentShape, published_shapes, read_config, shape_of_config
from rankwise.shapes.family_defaults import FAMILY_DEFAULTS

transformers.logging.set_verbosity_error()  # it has remarks about special tokens outside a vocabulary of 7

small = st.integers(1, 5)
even = st.integers(1, 4).map(lambda half: 2 * half)


@st.composite
def sizes(draw):
    """Numbers that differ where transformers allows it: kv_heads divides heads, heads divide the dimension."""
    kv_heads, group = draw(small), draw(small)
    return {
        "kv": kv_heads,
        "H": kv_heads * group,
        "L": draw(st.integers(1, 3)),
        "r": draw(even),
        "d": kv_heads * group * draw(small),
        "w": draw(st.integers(1, 40)),
    }


def llama_like(kind, **fixed):
    def build(n):
        return kind(hidden_size=n["d"], num_hidden_layers=n["L"], num_attention_heads=n["H"],
                    num_key_value_heads=n["kv"], head_dim=n["r"], intermediate_size=n["w"], vocab_size=7,
                    **fixed)  # fmt: skip

    return build, ["d", "L", "H", "kv", "r", "w"], "layers.{}.self_attn"


def standard(kind, attention, *, dim, layers, heads, mlp, **fixed):
    def build(n):
        return kind(**{dim: n["H"] * n["r"], layers: n["L"], heads: n["H"], mlp: n["w"]}, **fixed)

    return build, ["standard", "L", "H", "w"], attention


def falcon(n):
    return transformers.FalconConfig(
        hidden_size=n["H"] * n["r"], num_hidden_layers=n["L"], num_attention_heads=n["H"], vocab_size=7,
        ffn_hidden_size=n["w"], new_decoder_architecture=True, num_kv_heads=n["kv"],
    )  # fmt: skip


def t5(n):
    return transformers.T5Config(d_model=n["d"], d_kv=n["r"], num_heads=n["H"], num_layers=n["L"] + 1, d_ff=n["w"],
                                 num_decoder_layers=n["L"], vocab_size=7)  # fmt: skip


def whisper(n):
    return transformers.WhisperConfig(
        d_model=n["H"] * n["r"], decoder_attention_heads=n["H"], decoder_layers=n["L"], decoder_ffn_dim=n["w"],
        encoder_attention_heads=1, encoder_layers=n["L"] + 1, encoder_ffn_dim=n["w"] + 1, vocab_size=7, pad_token_id=0,
        num_mel_bins=2, max_source_positions=4, max_target_positions=4,
    )  # fmt: skip


NAMES = {
    "dim": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "mlp": "intermediate_size",
}

FAMILIES = {
    "llama": llama_like(transformers.LlamaConfig),
    "mistral": llama_like(transformers.MistralConfig),
    "qwen3": llama_like(transformers.Qwen3Config),
    "gemma3": llama_like(transformers.Gemma3TextConfig, pad_token_id=0),
    "gpt2": standard(transformers.GPT2Config, "h.{}.attn", dim="n_embd", layers="n_layer", heads="n_head",
                     mlp="n_inner", vocab_size=7, n_positions=4),
    "bert": standard(transformers.BertConfig, "encoder.layer.{}.attention", **NAMES, vocab_size=7, pad_token_id=0),
    "vit": standard(transformers.ViTConfig, "layers.{}.attention", **NAMES, image_size=4, patch_size=2),
    "neox": standard(transformers.GPTNeoXConfig, "layers.{}.attention", **NAMES, vocab_size=7),
    "distilbert": standard(transformers.DistilBertConfig, "transformer.layer.{}.attention", dim="dim",
                           layers="n_layers", heads="n_heads", mlp="hidden_dim", vocab_size=7),
    "falcon": (falcon, ["standard", "L", "H", "kv", "w"], "h.{}.self_attention"),
    "t5": (t5, ["d", "L", "H", "r", "w"], "decoder.block.{}.layer.0.SelfAttention"),
    "whisper": (whisper, ["standard", "L", "H", "w"], "decoder.layers.{}.self_attn"),
}  # fmt: skip


def build_on_meta(config):
    with torch.device("meta"):
        return transformers.AutoModel.from_config(config)


def place(config, folder):
    config.save_pretrained(folder)
    return read_config(folder / "config.json")


def attention_weights(model, path, layer):
    """All matrices of one attention module; T5 keeps its table of relative positions there, which is not one."""
    parameters = model.get_submodule(path.format(layer)).named_parameters()
    return {name: p for name, p in parameters if p.ndim == 2 and "relative" not in name}


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=12)
@given(n=sizes())
def test_random_configs_are_placed_like_the_model_built_from_them(tmp_path_factory, family, n):
    build, fields, path = FAMILIES[family]
    config = build(n)
    shape = place(config, tmp_path_factory.mktemp(family))
    dim = n["d"] if "d" in fields else n["H"] * n["r"]
    kv_heads = n["kv"] if "kv" in fields else n["H"]
    assert (shape.dim, shape.layers, shape.heads, shape.kv_heads) == (dim, n["L"], n["H"], kv_heads)
    assert (shape.rank, shape.value_rank, shape.mlp_width) == (n["r"], n["r"], n["w"])
    assert shape.cached_layers == n["L"]
    assert shape.name == config.model_type
    weights = attention_weights(build_on_meta(config), path, n["L"] - 1)
    assert shape.stored_parameters == sum(weight.numel() for weight in weights.values())


@settings(max_examples=12)
@given(n=sizes(), nope=small, rope=even, latent=small, query_latent=st.none() | small)
def test_latent_attention_is_placed_like_deepseek_v3(tmp_path_factory, n, nope, rope, latent, query_latent):
    config = transformers.DeepseekV3Config(
        hidden_size=n["d"], num_hidden_layers=n["L"], num_attention_heads=n["H"], num_key_value_heads=n["H"],
        vocab_size=7, q_lora_rank=query_latent, kv_lora_rank=latent, qk_nope_head_dim=nope, qk_rope_head_dim=rope,
        v_head_dim=n["r"], intermediate_size=n["w"], moe_intermediate_size=4, n_routed_experts=2, n_group=1,
        topk_group=1, num_experts_per_tok=1, first_k_dense_replace=n["L"], bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    shape = place(config, tmp_path_factory.mktemp("deepseek"))
    assert shape.latent == LatentShape(keyvalue=latent, rope=rope, query=query_latent)
    assert (shape.rank, shape.value_rank, shape.heads, shape.dim) == (nope + rope, n["r"], n["H"], n["d"])
    weights = attention_weights(build_on_meta(config), "layers.{}.self_attn", 0)
    assert shape.stored_parameters == sum(weight.numel() for weight in weights.values())
    assert shape.kv_bytes_per_token == 2 * n["L"] * weights["kv_a_proj_with_mqa.weight"].shape[0]


def cached_numbers(config, tokens=3):
    """Numbers that transformers itself keeps for each token while it generates."""
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        cache = model(torch.zeros(1, tokens, dtype=torch.long), use_cache=True).past_key_values
    held = [
        tensor for layer in cache.layers for tensor in (getattr(layer, "keys", None), getattr(layer, "values", None))
    ]
    return sum(tensor.numel() for tensor in held if isinstance(tensor, torch.Tensor)) / tokens


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # transformers' StarCoder uses it
@pytest.mark.parametrize(
    "config",
    [
        transformers.GPT2Config(n_embd=12, n_head=3, n_layer=2, vocab_size=7, n_positions=8),
        llama_like(transformers.LlamaConfig)[0]({"d": 12, "L": 3, "H": 6, "kv": 2, "r": 4, "w": 8}),
        llama_like(transformers.Gemma3TextConfig, sliding_window=8, pad_token_id=0)[0](
            {"d": 12, "L": 7, "H": 4, "kv": 2, "r": 6, "w": 8}
        ),
        transformers.FalconConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, vocab_size=7),
        transformers.GPTBigCodeConfig(n_embd=24, n_head=4, n_layer=2, vocab_size=7, n_positions=8),
        transformers.GPTBigCodeConfig(n_embd=24, n_head=4, n_layer=2, vocab_size=7, n_positions=8, multi_query=False),
        transformers.Qwen3NextConfig(
            hidden_size=16, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=7,
            linear_key_head_dim=4, linear_value_head_dim=4, linear_num_key_heads=2, linear_num_value_heads=2,
            num_experts=2, num_experts_per_tok=1, moe_intermediate_size=4, shared_expert_intermediate_size=4,
        ),
    ],
    ids=["gpt2", "llama", "gemma3", "falcon-7b", "starcoder", "starcoder-mha", "qwen3-next"],
)  # fmt: skip
def test_cache_bytes_are_what_transformers_keeps(config, tmp_path):
    assert place(config, tmp_path).kv_bytes_per_token == 2 * cached_numbers(config)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (transformers.Qwen3NextConfig, {"num_hidden_layers": 10, "full_attention_interval": 3}),
        (transformers.NemotronHConfig, {"num_hidden_layers": 6, "hybrid_override_pattern": "M-*ME*"}),
    ],
)
def test_hybrids_attend_where_transformers_says(kind, said):
    shape = shape_of_config({"hidden_size": 64, "num_attention_heads": 4} | said)
    assert shape.cached_layers == kind(**said).layer_types.count("full_attention")


def test_models_of_several_parts_are_placed_by_their_text(tmp_path):
    text = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 5, "intermediate_size": 8}
    clip = place(transformers.CLIPConfig(text_config=text), tmp_path / "clip")
    assert (clip.dim, clip.heads, clip.layers, clip.rank, clip.name) == (24, 4, 5, 6, "clip")
    gemma = transformers.Gemma3Config(text_config={"hidden_size": 18, "num_attention_heads": 6,
                                                   "num_key_value_heads": 3, "head_dim": 8})  # fmt: skip
    shape = place(gemma, tmp_path / "gemma")
    assert (shape.dim, shape.heads, shape.kv_heads, shape.rank) == (18, 6, 3, 8)


PLAIN = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.mark.parametrize(
    ("keys", "kv_heads"),
    [
        ({}, 4),
        ({"num_key_value_heads": 2}, 2),
        ({"num_key_value_heads": None}, 4),
        ({"multi_query": True}, 1),
        ({"multi_query": False}, 4),
        ({"multi_query": True, "num_kv_heads": 4}, 1),  # Falcon 7B
        ({"multi_query": True, "num_kv_heads": 2, "new_decoder_architecture": True}, 2),  # Falcon 40B
        ({"new_decoder_architecture": True, "multi_query": True}, 4),
        ({"n_head_kv": 2}, 2),
        ({"multi_query_attention": True, "multi_query_group_num": 2}, 2),  # ChatGLM
        ({"attn_config": {"kv_n_heads": 2}}, 2),  # DBRX
    ],
)
def test_ways_to_share_keys_and_values(keys, kv_heads):
    assert shape_of_config(PLAIN | keys).kv_heads == kv_heads


@pytest.mark.parametrize("key", ["head_dim", "d_kv", "d_head", "kv_channels", "dim_head"])
def test_an_explicit_head_dimension_is_read_before_it_is_derived(key):
    assert shape_of_config(PLAIN).rank == 16
    assert shape_of_config(PLAIN | {key: None}).rank == 16
    assert shape_of_config(PLAIN | {key: 48}).rank == 48
    assert shape_of_config(PLAIN | {key: 48}).rank_share == 3
    assert shape_of_config({**PLAIN, "num_attention_heads": 5, key: 48}).rank == 48


def test_a_decoder_is_placed_by_its_own_numbers_and_an_auxiliary_one_is_not():
    bart = {"d_model": 24, "decoder_layers": 2, "decoder_attention_heads": 3, "decoder_ffn_dim": 5,
            "encoder_layers": 6, "num_hidden_layers": 6, "num_attention_heads": 4, "encoder_ffn_dim": 9}  # fmt: skip
    shape = shape_of_config(bart)
    assert (shape.layers, shape.heads, shape.rank, shape.mlp_width) == (2, 3, 8, 5)
    masked_autoencoder = PLAIN | {"decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 16}
    assert shape_of_config(masked_autoencoder) == shape_of_config(PLAIN)
    moonshine = {"hidden_size": 24, "decoder_num_hidden_layers": 2, "decoder_num_attention_heads": 4,
                 "decoder_num_key_value_heads": 2}  # fmt: skip
    shape = shape_of_config(moonshine)
    assert (shape.layers, shape.heads, shape.kv_heads, shape.rank) == (2, 4, 2, 6)


def test_a_value_head_of_its_own_size():
    shape = shape_of_config(PLAIN | {"head_dim": 24, "v_head_dim": 16})
    assert (shape.rank, shape.value_rank) == (24, 16)


def test_the_width_of_an_mlp_that_is_not_stated():
    gpt2 = {"n_embd": 64, "n_layer": 2, "n_head": 4}
    assert shape_of_config(gpt2).mlp_width == 256
    assert shape_of_config(gpt2 | {"n_inner": None}).mlp_width == 256
    assert shape_of_config(gpt2 | {"n_inner": 100}).mlp_width == 100
    assert shape_of_config(PLAIN).mlp_width is None
    assert shape_of_config(PLAIN | {"hidden_dim": None}).mlp_width is None
    assert shape_of_config(PLAIN | {"intermediate_size": [8, 16]}).mlp_width is None


@pytest.mark.parametrize(
    ("keys", "cached", "note"),
    [
        ({"layer_types": ["full_attention", "linear_attention"]}, 1, None),
        ({"layer_types": ["sliding_attention", "full_attention"]}, 2, None),
        ({"layers_block_type": ["mamba", "mamba"]}, 0, None),
        ({"num_kv_shared_layers": 1}, 1, None),
        ({"layer_types": ["full_attention", "new_thing"]}, None, "'new_thing' keep a state"),
        ({"per_layer_config": {"1": {"head_dim": 8}}}, None, "another shape .per_layer_config."),
        ({"per_layer_config": {}}, 2, None),
        ({"num_attention_heads_per_layer": [4, 4]}, 2, None),
        ({"num_attention_heads_per_layer": [4, 8]}, None, "num_attention_heads_per_layer"),
        ({"swa_head_dim": 16, "head_dim": 32}, None, "swa_head_dim"),
        ({"attn_layer_period": 8}, None, "attn_layer_period"),
        ({"num_hidden_layers": 9, "full_attention_interval": 4}, 2, None),
        ({"full_attention_interval": 4, "layer_types": ["full_attention", "full_attention"]}, 2, None),
        ({"num_hidden_layers": 7, "hybrid_override_pattern": "M-M*-E*"}, 2, None),
        ({"hybrid_override_pattern": "M?"}, None, "layers of the kind '.' keep a state"),
        ({"attn_type_list": [0, 1]}, None, "attn_type_list"),
        ({"linear_attn_config": {"full_attn_layers": [2]}}, None, "linear_attn_config"),
    ],
)
def test_layers_that_are_not_alike(keys, cached, note):
    shape = shape_of_config(PLAIN | keys)
    assert shape.cached_layers == cached
    assert (shape.kv_bytes_per_token is None) == (cached is None)
    assert shape.note is None if note is None else re.search(note, shape.note)


LATENT = PLAIN | {"kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 3}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, r"model dimension \(hidden_size.*number of layers.*number of heads \(.*num_attention_heads"),
        ({"hidden_size": 8, "num_hidden_layers": 2}, r"got none: the number of heads"),
        ({"text_config": {"hidden_size": 8}}, "expected in text_config one of each"),
        ({"text_config": [1]}, r"text_config: expected an object of keys and values, got \[1\]"),
        ({"text_config": PLAIN | {"head_dim": 0}}, "text_config.head_dim: expected a whole number from 1"),
        (PLAIN | {"hidden_size": -64}, "hidden_size: expected a whole number from 1 to 16777216, got -64"),
        (PLAIN | {"hidden_size": True}, "hidden_size: .* got True"),
        (PLAIN | {"hidden_size": 64.0}, "hidden_size: .* got 64.0"),
        (PLAIN | {"hidden_size": "64"}, "hidden_size: .* got '64'"),
        (PLAIN | {"num_attention_heads": 10**9}, "num_attention_heads: .* got 1000000000"),
        (PLAIN | {"num_hidden_layers": 0}, "num_hidden_layers: .* got 0"),
        (PLAIN | {"num_attention_heads": [4, 4]}, r"num_attention_heads: .* got \[4, 4\]"),
        (PLAIN | {"num_attention_heads": 5}, "head_dim: expected the key, because 5 heads do not divide .* 64"),
        (PLAIN | {"num_key_value_heads": 3}, "num_key_value_heads: expected a divisor of the 4 heads, got 3"),
        (PLAIN | {"attn_config": {"kv_n_heads": 3}}, "attn_config.kv_n_heads: expected a divisor"),
        (PLAIN | {"num_key_value_heads": 0}, "num_key_value_heads: expected a whole number from 1"),
        (PLAIN | {"multi_query": 1}, "multi_query: expected true or false, got 1"),
        (PLAIN | {"n_embd": 32}, "n_embd: expected the same number as hidden_size = 64, got 32"),
        (PLAIN | {"intermediate_size": False}, "intermediate_size: .* got False"),
        (PLAIN | {"layer_types": ["full_attention"]}, "layer_types: expected one name for each of the 2 layers"),
        (PLAIN | {"layer_types": "full"}, "layer_types: expected a list of names, got 'full'"),
        (PLAIN | {"full_attention_interval": 0}, "full_attention_interval: expected a whole number from 1"),
        (PLAIN | {"hybrid_override_pattern": "M"}, "hybrid_override_pattern: expected one letter for each of the 2"),
        (PLAIN | {"hybrid_override_pattern": ["M", "*"]}, "hybrid_override_pattern: expected one letter for each"),
        (PLAIN | {"num_kv_shared_layers": 2}, "num_kv_shared_layers: expected fewer than the 2 layers"),
        (PLAIN | {"num_kv_shared_layers": 1, "layer_types": ["mamba", "mamba"]}, "fewer than the 0 layers"),
        (PLAIN | {"state_size": 16}, "state_size: expected attention .*state-space models have none"),
        (LATENT | {"qk_rope_head_dim": None}, "qk_rope_head_dim: expected a whole number .* got nothing"),
        (LATENT | {"v_head_dim": None}, "v_head_dim: expected a whole number .* got nothing"),
        (LATENT | {"qk_rope_head_dim": 0, "qk_nope_head_dim": 0}, "qk_nope_head_dim: expected a head of at least one"),
        (LATENT | {"q_lora_rank": -1}, "q_lora_rank: .* got -1"),
    ],
)
def test_nonsense_is_refused_by_key(config, message):
    with pytest.raises(InvalidInputError, match=message):
        shape_of_config(config)


@pytest.mark.parametrize("key", ["head_ratio", "true_hidden_size", "attention_hidden_size", "qk_dim_factor"])
def test_attention_that_does_not_read_the_model_dimension_is_refused(key):
    with pytest.raises(InvalidInputError, match=f"{key}: expected attention over the model dimension"):
        shape_of_config(PLAIN | {key: 2})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-2, 70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
known_keys = st.sampled_from(
    ["hidden_size", "n_embd", "d_model", "num_hidden_layers", "n_layer", "num_layers", "num_attention_heads", "n_head",
     "n_heads", "head_dim", "d_kv", "num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query",
     "new_decoder_architecture", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
     "intermediate_size", "layer_types", "text_config", "attn_config", "model_type", "_name_or_path",
     "num_kv_shared_layers", "per_layer_config", "num_attention_heads_per_layer", "swa_head_dim"]
)  # fmt: skip


@settings(max_examples=120)
@given(st.dictionaries(known_keys, json_values, max_size=8), st.booleans())
def test_any_object_is_placed_with_sane_numbers_or_refused(config, complete):
    try:
        shape = shape_of_config(PLAIN | config if complete else config)
    except InvalidInputError:
        return  # any other exception fails the test
    numbers = (shape.dim, shape.layers, shape.heads, shape.kv_heads, shape.rank, shape.value_rank)
    assert all(type(number) is int and number >= 1 for number in numbers)
    assert shape.heads % shape.kv_heads == 0
    assert shape.stored_parameters > 0
    assert shape.kv_bytes_per_token is None or shape.kv_bytes_per_token >= 0
    assert shape.name.isprintable()


def test_a_hostile_name_stays_one_short_printable_line():
    shape = shape_of_config(PLAIN | {"_name_or_path": "\x1b[31m<b>\n" + "x" * 500})
    assert shape.name.isprintable()
    assert shape.name.startswith("\ufffd[31m<b>\ufffdxxx")
    assert len(shape.name) == 60
    assert shape_of_config(PLAIN | {"_name_or_path": "", "model_type": 3}).name == "your model"


def test_published_models_and_configs_are_the_same_kind_of_thing():
    gpt2 = shape_of_config({"n_embd": 768, "n_layer": 12, "n_head": 12})
    published = next(shape for shape in published_shapes() if shape.name.startswith("GPT, "))
    for column in ("dim", "layers", "mlp_width", "mlp_depth", "rank", "value_rank", "heads", "kv_bytes_per_token"):
        assert getattr(gpt2, column) == getattr(published, column)


def test_a_folder_stands_for_the_config_in_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PLAIN))
    assert read_config(tmp_path) == read_config(str(tmp_path / "config.json"))
    assert read_config(tmp_path).name == tmp_path.name


def test_complaints_about_a_file_start_with_its_path(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(PLAIN | {"head_dim": -1}))
    with pytest.raises(InvalidInputError, match=r"config\.json: head_dim: expected .* got -1"):
        read_config(path)
    with pytest.raises(InvalidInputError, match="File name too long"):
        read_config("x" * 5000)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("gemma", transformers.GemmaConfig),
        ("gemma2", transformers.Gemma2Config),
        ("gemma3_text", transformers.Gemma3TextConfig),
    ],
)
def test_what_a_family_leaves_unsaid_is_what_transformers_takes(family, kind):
    theirs = kind()
    for key, value in FAMILY_DEFAULTS[family].items():
        if key == "rope_theta":
            assert value == theirs.rope_parameters["full_attention"]["rope_theta"]
        elif key == "rope_local_base_freq":
            assert value == theirs.rope_parameters["sliding_attention"]["rope_theta"]
        elif key == "sliding_window_pattern":
            assert value == 1 + theirs.layer_types.index("full_attention")
        else:
            assert value == getattr(theirs, key)


@pytest.mark.parametrize("family", [{"model_type": "gemma3_text"}, {}])
def test_a_text_part_that_states_little(family):
    """google/gemma-3-4b names no heads, google/gemma-3-12b no head dimension."""
    four = {"hidden_size": 2560, "intermediate_size": 10_240, "num_hidden_layers": 34}
    shape = shape_of_config({"model_type": "gemma3", "text_config": family | four})
    assert (shape.dim, shape.heads, shape.kv_heads, shape.rank, shape.layers) == (2560, 8, 4, 256, 34)
    twelve = {"hidden_size": 3840, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8}
    shape = shape_of_config({"model_type": "gemma3", "text_config": family | twelve})
    assert (shape.heads, shape.kv_heads, shape.rank) == (16, 8, 256)
