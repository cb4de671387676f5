"""A local model, loaded so that nothing it says is executed and nothing is fetched.

``transformers`` builds the module from its own source; of the model only JSON and numbers are read: safetensors, or
GGUF, which it dequantises to float32. Pickled weights, code that comes with the model and files of other machines are
refused, and so is a checkpoint that leaves a weight at its random initial value: it would be measured as if trained.
"""

from __future__ import annotations

import io
import json
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from rankwise.errors import InvalidInputError, MissingExtraError, RankwiseError
from rankwise.models.files.hub import without_network
from rankwise.models.files.source import ModelSource, open_model
from rankwise.models.running.tokenizer import find_tokenizer

Objective = Literal["causal", "masked", "embedding"]
"""What the model was trained for: the next token, a hidden token, or a vector per text."""

_OBJECTIVES: tuple[tuple[str, Objective], ...] = (
    ("CausalLM", "causal"),
    ("LMHeadModel", "causal"),
    ("MaskedLM", "masked"),
)
_UNUSED_PARTS = ("pooler.",)  # a summary of the first token that neither attention nor mean pooling looks at
_NUMBERS_A_BYTE, _BUFFERS = 2, 2**24
"""The densest storage has four bits a number; tables of positions are made and not stored."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model in eval mode, float32, on the CPU, with eager attention, and what belongs to it."""

    model: Any
    tokenizer: Any
    """None where there is none that fits."""
    no_tokenizer_because: str | None
    objective: Objective


def load_pretrained(path: Path) -> Loaded:
    """The model of a directory with safetensors, or of one GGUF file.

    A language model without its head, as sentence encoders are often published, is loaded as an encoder, whatever its
    configuration calls it.
    """
    transformers = _transformers()
    if path.suffix == ".gguf":
        _require_gguf()
    stored = _require_weights(path)
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if path.suffix == ".gguf":
        source, options["gguf_file"] = path.parent, path.name
    else:
        source = path
    with (
        quiet(),
        without_network(),
        model_errors(path, "a model that transformers can build from its own source (weights alone: rankwise audit)"),
    ):
        config = transformers.AutoConfig.from_pretrained(source, **options)
        objective = _objective(config, gguf=path.suffix == ".gguf")
        model, missing = _built(transformers, source, options, config, objective, stored)
        if missing and objective != "embedding":
            headless, missing_below = _built(transformers, source, options, config, "embedding", stored)
            if not missing_below:
                model, missing, objective = headless, [], "embedding"
        if not missing:
            require_token_reader(model, path)
            gguf = stored.config if path.suffix == ".gguf" else None
            rows = model.get_input_embeddings().num_embeddings
            found = find_tokenizer(transformers, source, options, vocabulary=rows, gguf=gguf)
    if missing:
        raise InvalidInputError(
            f"{path}: expected weights for every part of {type(model).__name__}, got none for {len(missing)}, such as "
            f"{missing[0]}; they would keep random values, and nothing measured would mean anything"
        )
    return Loaded(
        model=model.eval(),
        tokenizer=found.tokenizer,
        no_tokenizer_because=found.missing_because,
        objective=objective,
    )


def _built(
    transformers: Any, source: Path, options: Mapping[str, Any], config: Any, objective: Objective, stored: ModelSource
) -> tuple[Any, list[str]]:
    """The model, and the weights that it would keep at random."""
    auto = {
        "causal": transformers.AutoModelForCausalLM,
        "masked": transformers.AutoModelForMaskedLM,
        "embedding": transformers.AutoModel,
    }[objective]
    _require_room(auto, config, stored)
    safetensors = {} if "gguf_file" in options else {"use_safetensors": True}
    model, info = auto.from_pretrained(
        source, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **options, **safetensors
    )
    return model, sorted(key for key in info["missing_keys"] if not any(part in key for part in _UNUSED_PARTS))


def _require_room(auto: Any, config: Any, stored: ModelSource) -> None:
    """That the config asks for no more numbers than the files hold, seen before any of them is allocated."""
    with torch.device("meta"):
        planned = auto.from_config(config)
    asked = sum(tensor.numel() for tensor in (*planned.parameters(), *planned.buffers()))
    held = _NUMBERS_A_BYTE * sum(file.path.stat().st_size for file in stored.files) + _BUFFERS
    if asked > held:
        raise InvalidInputError(
            f"{stored.path}: expected a configuration of at most {held:,} numbers, which files of this size can hold, "
            f"got one of {asked:,}; it belongs to another model"
        )


def require_token_reader(model: Any, where: Path | str) -> None:
    """Refuse a model of images or sounds."""
    if model.main_input_name != "input_ids":
        raise InvalidInputError(
            f"{where}: expected a model that reads tokens, got {type(model).__name__}, which reads "
            f"{model.main_input_name}; its weights can be audited without running it (no --text, no --tokens)"
        )


def _require_weights(path: Path) -> ModelSource:
    """The files, whose headers are sound (see ``models.files``) and whose config has no more layers than they hold."""
    if not path.exists():
        raise InvalidInputError(
            f"{path}: expected a model directory (config.json and safetensors) or a .gguf file on this machine, got "
            f"nothing there; a model that is to be run is never downloaded unasked (--download)"
        )
    if path.is_file() and path.suffix != ".gguf":
        raise InvalidInputError(
            f"{path}: expected a model directory or a .gguf file, got another file; a model is run from the directory "
            f"that holds its config.json, its weights and its tokenizer"
        )
    source = open_model(path)
    tensors = len(source.tensors)
    parts = [source.config, *(value for value in source.config.values() if isinstance(value, dict))]
    for key in ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"):
        for part in parts:
            layers = part.get(key)
            if isinstance(layers, int) and layers > tensors:  # they would all be built before anyone compares
                raise InvalidInputError(
                    f"{path}: expected at least one tensor a layer, got {tensors} tensors and {key} = "
                    f"{reprlib.repr(layers)} in config.json"
                )
    return source


def _objective(config: Any, *, gguf: bool) -> Objective:
    names = config.architectures or []
    if gguf and not names:
        return "causal"  # such files hold language models and do not name the class
    return objective_of(names)


def objective_of(names: Sequence[str]) -> Objective:
    """What a model of these classes was trained for."""
    for name in names:
        for ending, objective in _OBJECTIVES:
            if name.endswith(ending):
                return objective
    return "embedding"


@contextmanager
def model_errors(where: Path | str, expected: str) -> Iterator[None]:
    """What goes wrong inside ``transformers`` or a model's own code as a message, without its traceback."""
    try:
        yield
    except RankwiseError:
        raise
    except MemoryError:
        raise InvalidInputError(f"{where}: expected {expected} in the memory of this machine, got too little") from None
    except Exception as error:  # SafetensorError, RecursionError, whatever a model's code raises
        said = " ".join(str(error).split())
        raise InvalidInputError(f"{where}: expected {expected}, got {type(error).__name__}: {said[:400]}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no remarks of transformers (some go straight to stderr); its settings are put back."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("audit", "running a model") from None
    return transformers


def _require_gguf() -> None:
    try:
        import accelerate  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
        import gguf  # noqa: F401
    except ImportError:
        raise MissingExtraError("gguf", "running a GGUF file") from None


def save_dequantised(model: Any, tokenizer: Any, directory: Path) -> None:
    """A model read from GGUF as a directory of float32 safetensors, config and tokenizer, as if it had been one.

    ``save_pretrained`` refuses what was once quantised, although nothing quantised is left.
    """
    from safetensors.torch import save_model

    directory.mkdir(parents=True)
    save_model(model, str(directory / "model.safetensors"), {"format": "pt"})  # tied weights once
    stated = model.config.to_dict()
    stated.pop("quantization_config", None)
    stated["architectures"] = [type(model).__name__]
    (directory / "config.json").write_text(json.dumps(stated, indent=2) + "\n", encoding="utf-8")
    if tokenizer is not None:
        with quiet():
            tokenizer.save_pretrained(directory)
