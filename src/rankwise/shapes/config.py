"""Placing any Hugging Face ``config.json``: which key says what, family by family.

Three rules settle most configs. Head dimension: an explicit key is read first, ``dim / heads`` is derived last. Shared
keys and values: the multi-query switch in the families that have one, then an explicit number, else one for each head.
Latent attention (``kv_lora_rank``) has dimensions of its own, and its ``head_dim`` means only the rotary part.
Encoder-decoder models are placed by their decoder, models of several parts by their text part.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError
from rankwise.shapes.family_defaults import with_family_defaults
from rankwise.shapes.shape import LatentShape, ModelShape
from rankwise.spec import read_json_object

_LARGEST = 2**24
"""No dimension, layer or head count of a real model comes near; larger numbers are mistakes."""

# Keys of one meaning, the one that counts first. The decoder's own come before the model's, because there the model's
# describe the encoder; only Moonshine's come last, because in masked autoencoders they name an auxiliary decoder.
_DIM = ("hidden_size", "n_embd", "d_model", "dim", "emb_dim")
_LAYERS = ("num_decoder_layers", "decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers",
           "decoder_num_hidden_layers")  # fmt: skip
_HEADS = ("decoder_attention_heads", "num_decoder_attention_heads", "num_attention_heads", "n_head", "n_heads",
          "num_heads", "attention_heads", "decoder_num_attention_heads")  # fmt: skip
_KV_HEADS = ("num_key_value_heads", "decoder_num_key_value_heads")
_SYNONYMS = (
    ("hidden_size", "n_embd", "d_model", "dim"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
)
_RANK = ("head_dim", "d_kv", "d_head", "attention_head_dim", "attention_head_size", "dim_head", "kv_channels")
_MLP = ("decoder_ffn_dim", "intermediate_size", "n_inner", "d_ff", "ffn_dim", "hidden_dim", "ffn_hidden_size",
        "d_inner", "dff", "dim_ff", "mlp_dim")  # fmt: skip
_PARTS = ("text_config", "language_config", "llm_config", "thinker_config", "decoder")

_CACHING = {"full_attention", "sliding_attention", "chunked_attention", "window_attention", "indexed_attention",
            "attention", "hybrid", "hybrid_sliding"}  # fmt: skip
_STATELESS = {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "mlp", "moe"}

_LETTERS = {"M": "mamba", "E": "moe", "*": "full_attention", "-": "mlp"}

_ELSEWHERE = {
    "head_ratio": "ConvBERT gives some heads to convolutions",
    "true_hidden_size": "MobileBERT attends inside a bottleneck",
    "attention_hidden_size": "Zamba attends to two vectors side by side",
    "qk_dim_factor": "xLSTM has none",
    "state_size": "state-space models have none",
}


def read_config(path: Path | str) -> ModelShape:
    """The shape of the model whose ``config.json`` (or folder that holds one) is at ``path``."""
    path = Path(path)
    with suppress(OSError):  # what is wrong with the path is said when it is read
        path = path / "config.json" if path.is_dir() else path
    config = read_json_object(path)
    try:
        return shape_of_config(config, name=path.resolve().parent.name)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None


def shape_of_config(config: Mapping[str, Any], *, name: str = "") -> ModelShape:
    """The shape that a configuration describes; ``name`` is used when the configuration has none."""
    part = ConfigPart(config)
    while not part.has(*_HEADS) and (nested := next((key for key in _PARTS if part.has(key)), None)):
        part = part.nested(nested)
    part = part.with_defaults_of(part.values.get("model_type", config.get("model_type")))
    part.require(("the model dimension", _DIM), ("the number of layers", _LAYERS), ("the number of heads", _HEADS))
    for synonyms in _SYNONYMS:
        part.refuse_contradiction(synonyms)
    for key, reason in _ELSEWHERE.items():
        if part.has(key):
            raise part.wrong(key, f"attention over the model dimension ({reason})", part.values[key])
    dim, layers, heads = part.number(*_DIM), part.number(*_LAYERS), part.number(*_HEADS)
    latent = _latent(part)
    if latent is None:
        rank, kv_heads = _rank(part, dim, heads), _kv_heads(part, heads)
        value_rank = part.number("v_head_dim", default=rank)
    else:
        rank = part.number("qk_nope_head_dim", minimum=0) + latent.rope
        value_rank, kv_heads = part.number("v_head_dim"), heads
        if rank == 0:
            raise part.wrong("qk_nope_head_dim", "a head of at least one coordinate, rotary or not", 0)
    cached_layers, note = _cached_layers(part, layers)
    return ModelShape(
        name=_name(config, part.values, name),
        dim=dim,
        layers=layers,
        heads=heads,
        rank=rank,
        value_rank=value_rank,
        kv_heads=kv_heads,
        cached_layers=cached_layers,
        mlp_width=_mlp_width(part, dim),
        mlp_depth=2,
        latent=latent,
        note=note,
    )


class ConfigPart:
    """A JSON object with its path from the top, so that every complaint names the whole key."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self.values, self.path = values, path

    def has(self, *keys: str) -> bool:
        """Whether one of the keys is there; null means absent."""
        return any(self.values.get(key) is not None for key in keys)

    def nested(self, key: str) -> ConfigPart:
        if not isinstance(self.values[key], Mapping):
            raise self.wrong(key, "an object of keys and values", self.values[key])
        return ConfigPart(self.values[key], f"{self.path}{key}.")

    def with_defaults_of(self, family: object) -> ConfigPart:
        """The same part with the keys that its family (``model_type``) leaves unsaid."""
        return ConfigPart(with_family_defaults(self.values, family), self.path)

    def require(self, *wanted: tuple[str, tuple[str, ...]]) -> None:
        missing = [f"{meaning} ({', '.join(keys)})" for meaning, keys in wanted if not self.has(*keys)]
        if missing:
            where = f"in {self.path[:-1]} " if self.path else ""
            raise InvalidInputError(f"expected {where}one of each of these keys, got none: {'; '.join(missing)}")

    def refuse_contradiction(self, synonyms: tuple[str, ...]) -> None:
        stated = {key: self.values[key] for key in synonyms if self.has(key)}
        for key, value in stated.items():
            first = next(iter(stated))
            if value != stated[first]:
                raise self.wrong(key, f"the same number as {first} = {reprlib.repr(stated[first])}", value)

    def number(self, *keys: str, minimum: int = 1, default: int | None = None) -> int:
        """The whole number under the first of ``keys`` that is there."""
        for key in keys:
            value = self.values.get(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _LARGEST:
                raise self.wrong(key, f"a whole number from {minimum} to {_LARGEST}", value)
            return value
        if default is None:
            raise self.wrong(keys[0], f"a whole number from {minimum} to {_LARGEST}", None)
        return default

    def switch(self, key: str) -> bool:
        """The boolean under ``key``, false when it is not there."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return bool(value)

    def wrong(self, key: str, expected: str, got: object) -> InvalidInputError:
        shown = "nothing" if got is None else reprlib.repr(got)
        return InvalidInputError(f"{self.path}{key}: expected {expected}, got {shown}")


def _rank(part: ConfigPart, dim: int, heads: int) -> int:
    if part.has(*_RANK):
        return part.number(*_RANK)
    if dim % heads:
        raise InvalidInputError(
            f"{part.path}head_dim: expected the key, because {heads} heads do not divide the dimension {dim}, "
            f"got nothing"
        )
    return dim // heads


def _kv_heads(part: ConfigPart, heads: int) -> int:
    if part.switch("new_decoder_architecture"):  # Falcon 40B and later, whatever they say under multi_query
        key = "num_kv_heads"
    elif part.switch("multi_query_attention"):  # ChatGLM
        key = "multi_query_group_num"
    elif part.has("n_head_kv"):  # the first Falcons
        key = "n_head_kv"
    elif "multi_query" in part.values:
        # Falcon 7B also states num_kv_heads and StarCoder num_key_value_heads, but there only the switch counts.
        return 1 if part.switch("multi_query") else heads
    elif part.has("attn_config") and part.nested("attn_config").has("kv_n_heads"):  # MPT, DBRX
        part, key = part.nested("attn_config"), "kv_n_heads"
    else:
        key = next((key for key in _KV_HEADS if part.has(key)), _KV_HEADS[0])
    kv_heads = part.number(key, default=heads)
    if heads % kv_heads:
        raise part.wrong(key, f"a divisor of the {heads} heads", kv_heads)
    return kv_heads


def _latent(part: ConfigPart) -> LatentShape | None:
    if not part.has("kv_lora_rank"):
        return None
    return LatentShape(
        keyvalue=part.number("kv_lora_rank"),
        rope=part.number("qk_rope_head_dim", minimum=0),
        query=part.number("q_lora_rank") if part.has("q_lora_rank") else None,
    )


def _mlp_width(part: ConfigPart, dim: int) -> int | None:
    """None when the config does not tell one width for all layers."""
    stated = next((key for key in _MLP if part.has(key)), None)
    if stated is not None:
        return None if isinstance(part.values[stated], list) else part.number(stated)
    # GPT-2, GPT-Neo and Falcon mean four times the dimension when they say null; GPT-2 also when it says nothing.
    unset = any(key in part.values for key in ("n_embd", "n_inner", "intermediate_size", "ffn_hidden_size"))
    return 4 * dim if unset else None


def _cached_layers(part: ConfigPart, layers: int) -> tuple[int | None, str | None]:
    """How many layers keep keys and values of every token, and what to say when the row cannot show all of them."""
    differing = [key for key in _DIFFERING if _differs(part, key)]
    if differing:
        return None, f"some layers have another shape ({', '.join(differing)}); the row shows the common one"
    cached = layers
    kinds = _layer_kinds(part, layers)
    if kinds is not None:
        unknown = sorted(set(kinds) - _CACHING - _STATELESS)
        if unknown:
            return None, f"layers of the kind {reprlib.repr(unknown[0])} keep a state the row does not count"
        cached = sum(kind in _CACHING for kind in kinds)
    shared = part.number("num_kv_shared_layers", minimum=0, default=0)
    if shared and shared >= cached:
        raise part.wrong("num_kv_shared_layers", f"fewer than the {cached} layers with keys and values", shared)
    return cached - shared, None


def _layer_kinds(part: ConfigPart, layers: int) -> list[str] | None:
    """The kind of each layer, listed, by a pattern or by a period; None when nothing is said."""
    for key in ("layer_types", "layers_block_type"):
        kinds = part.values.get(key)
        if kinds is None:
            continue
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise part.wrong(key, "a list of names", kinds)
        if len(kinds) != layers:
            raise part.wrong(key, f"one name for each of the {layers} layers", kinds)
        return kinds
    pattern = part.values.get("hybrid_override_pattern")  # Nemotron-H
    if pattern is not None:
        if not isinstance(pattern, str) or len(pattern) != layers:
            raise part.wrong("hybrid_override_pattern", f"one letter for each of the {layers} layers", pattern)
        return [_LETTERS.get(letter, letter) for letter in pattern]
    if part.has("full_attention_interval"):  # Qwen3-Next: the last of each so many layers attends
        interval = part.number("full_attention_interval")
        return ["linear_attention" if layer % interval else "full_attention" for layer in range(1, layers + 1)]
    return None


_DIFFERING: dict[str, tuple[str, ...]] = {
    # key -> the keys it would have to agree with; none: its presence is enough
    "per_layer_config": (),
    "block_configs": (),
    "block_types": (),
    "attn_layer_period": (),
    "attn_layer_indices": (),
    "attn_type_list": (),
    "linear_attn_config": (),
    "cross_attention_layers": (),
    "num_attention_heads_per_layer": _HEADS,
    "num_key_value_heads_per_layer": _KV_HEADS,
    "num_sliding_attention_heads": _HEADS,
    "swa_num_attention_heads": _HEADS,
    "swa_num_key_value_heads": _KV_HEADS,
    "swa_head_dim": _RANK,
}


def _differs(part: ConfigPart, key: str) -> bool:
    value = part.values.get(key)
    if value is None or value == [] or value == {}:
        return False
    common = next((part.values[other] for other in _DIFFERING[key] if part.has(other)), None)
    return any(entry != common for entry in value) if isinstance(value, list) else value != common


def _name(config: Mapping[str, Any], values: Mapping[str, Any], fallback: str) -> str:
    """A printable name on one short line, whatever the file says."""
    stated = (config.get("_name_or_path"), config.get("model_type"), values.get("model_type"), fallback)
    name = next((value for value in stated if isinstance(value, str) and value.strip()), "your model")
    printable = "".join(character if character.isprintable() else "\ufffd" for character in name)
    return printable if len(printable) <= 60 else printable[:59] + "…"
