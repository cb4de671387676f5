"""A model of ``transformers`` that can be run on token ids, and watched one attention block at a time."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.models.files.source import open_model
from rankwise.models.layouts.mapping import TensorNames
from rankwise.models.running.attention_call import Visitor
from rankwise.models.running.loading import (
    Objective,
    load_pretrained,
    model_errors,
    objective_of,
    require_token_reader,
)
from rankwise.models.running.watching import Blocks, find_blocks, watching
from rankwise.models.tensor_source import TensorSource, as_source


@dataclass(frozen=True)
class RunningModel:
    """A model of ``transformers`` in eval mode, float32 and eager attention, and the tokenizer that belongs to it."""

    origin: Path | nn.Module
    """Where it came from: a folder, a file, or a module in memory, which may be ``model`` itself."""
    model: nn.Module
    tokenizer: Any
    """None where there is none that fits the model."""
    objective: Objective
    no_tokenizer_because: str | None = None
    names: TensorNames | None = None
    """Of its projections, where its layout is placed by hand."""

    @property
    def path(self) -> Path | None:
        """Its folder or file; None where it came from memory."""
        return self.origin if isinstance(self.origin, Path) else None

    @property
    def gguf(self) -> Path | None:
        """The GGUF file it was read from, if it was."""
        return self.path if self.path is not None and self.path.suffix == ".gguf" else None

    @property
    def source(self) -> TensorSource:
        """Its tensors in the types that they are stored in."""
        return open_model(self.origin) if isinstance(self.origin, Path) else as_source(self.origin)

    @property
    def name(self) -> str:
        """A short name for people."""
        return self.source.name

    @property
    def where(self) -> str:
        """Where it came from, for messages."""
        return self.source.origin if self.path is None else str(self.path)

    @property
    def config(self) -> Any:
        """The configuration of ``transformers``."""
        return self.model.config

    @property
    def vocabulary(self) -> int:
        """How many token ids the model knows."""
        embedding: nn.Embedding = self.model.get_input_embeddings()  # type: ignore[operator]
        return int(embedding.num_embeddings)

    @property
    def mask_token(self) -> int | None:
        """The id that stands for a hidden token: the tokenizer's, or the one the configuration states."""
        for stated in (self.tokenizer, self.config):
            token = getattr(stated, "mask_token_id", None)
            if isinstance(token, int) and 0 <= token < self.vocabulary:
                return token
        return None

    @property
    def longest(self) -> int | None:
        """How many tokens the model has positions for, where it says so."""
        text = self.config.get_text_config()
        for key in ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length"):
            found = getattr(text, key, None)
            if isinstance(found, int) and found > 0:
                return found - self._positions_before_the_first()
        return None

    def _positions_before_the_first(self) -> int:
        """RoBERTa and its kin count positions from after the padding id."""
        for name, module in self.model.named_modules():
            if isinstance(module, nn.Embedding) and "position" in name and module.padding_idx is not None:
                return int(module.padding_idx) + 1
        return 0

    def __call__(self, tokens: Int64[Tensor, "..."], **options: Any) -> Any:
        """The model's output for ``tokens`` [T, N]; encoder-decoder models get them on both sides."""
        return self._run(self.model, tokens, **options)

    def _run(self, model: nn.Module, tokens: Int64[Tensor, "..."], **options: Any) -> Any:
        self._require_tokens(tokens)
        if self.config.is_encoder_decoder:
            options["decoder_input_ids"] = tokens
        elif self.objective == "causal":
            options["use_cache"] = False
        with torch.no_grad(), model_errors(self.where, f"{type(self.model).__name__} to run on token ids alone"):
            return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **options)

    def watch(self, tokens: Int64[Tensor, "..."], visit: Visitor) -> Any:
        """Run ``tokens`` [T, N] and call ``visit`` after each attention block's work; returns what the head would get.

        The head itself is not run: its numbers, one per token and word of the vocabulary, may be more than all else.
        Blocks that run twice in a pass are visited twice, each time with the same ``name`` and the next ``index``.
        """
        self._require_tokens(tokens)
        blocks = self._attention_blocks()
        with watching(self.model, blocks, visit) as watch:
            options = {} if blocks.own_function else {"output_attentions": True}
            try:
                output = self._run(self.model.base_model, tokens, **options)  # type: ignore[arg-type]
            except InvalidInputError:
                if watch.visitor_failed is not None:
                    raise watch.visitor_failed from None
                raise
        if watch.visits == 0:
            raise InvalidInputError(
                f"{self.where}: expected attention probabilities from {type(self.model).__name__}, got none; a model "
                f"without eager attention cannot be watched"
            )
        return output

    def attention_names(self) -> tuple[str, ...]:
        """Paths of the modules that attend, in the order in which they run; one that runs twice stands there twice."""
        return tuple(name for name, _ in self._attention_blocks().modules)

    def _attention_blocks(self) -> Blocks:
        """Found by running four tokens once; remembered on the model."""
        known: Blocks | None = self.model.__dict__.get("_rankwise_blocks")
        if known is None:
            tokens = torch.arange(4).remainder(self.vocabulary)[None]
            known = find_blocks(self.model, lambda **options: self(tokens, **options))
            self.model.__dict__["_rankwise_blocks"] = known
        return known

    def _require_tokens(self, tokens: Tensor) -> None:
        if tokens.ndim != 2 or tokens.shape[0] < 1 or tokens.shape[1] < 1:
            raise ShapeError(f"tokens: expected [texts, tokens], got {list(tokens.shape)}")
        if self.longest is not None and tokens.shape[1] > self.longest:
            raise InvalidInputError(
                f"tokens: expected at most {self.longest} (the model has no more positions), got {tokens.shape[1]}; "
                f"choose --length {self.longest}"
            )
        if int(tokens.min()) < 0 or int(tokens.max()) >= self.vocabulary:
            raise InvalidInputError(
                f"tokens: expected ids from 0 to {self.vocabulary - 1}, got {int(tokens.min())} to {int(tokens.max())}"
            )


def load_running(path: Path) -> RunningModel:
    """The model in directory ``path`` (or the GGUF file ``path``), ready to be run; see ``loading``."""
    loaded = load_pretrained(path)
    return RunningModel(path, loaded.model, loaded.tokenizer, loaded.objective, loaded.no_tokenizer_because)


def running_from(model: Any, *, objective: Objective, tokenizer: Any = None) -> RunningModel:
    """A ``transformers`` model that is already in memory, put into eval mode and eager attention."""
    if model.config._attn_implementation != "eager" and model._can_set_attn_implementation():
        model.set_attn_implementation("eager")
    if model.config._attn_implementation != "eager":
        raise InvalidInputError(
            f"model: expected {type(model).__name__} with eager attention, got {model.config._attn_implementation!r}, "
            f"which it cannot change later; build it with attn_implementation='eager'"
        )
    return RunningModel(model, model.eval(), tokenizer, objective)


def running_copy(model: Any, *, tokenizer: Any = None) -> RunningModel:
    """A copy of a ``transformers`` model in memory, in float32 on the CPU; the model itself stays as it is."""
    if not hasattr(model, "set_attn_implementation"):
        raise InvalidInputError(
            f"model: expected one of transformers, to run it, got {type(model).__name__}; of any other module the "
            f"weights can be audited, without text and tokens"
        )
    where = as_source(model).origin
    require_token_reader(model, where)
    with model_errors(where, "a model that can be copied to float32"):
        copied = copy.deepcopy(model).float().cpu()
        copied.zero_grad(set_to_none=True)
        copied.__dict__.pop("_rankwise_blocks", None)
    running = running_from(copied, objective=objective_of([type(model).__name__]), tokenizer=tokenizer)
    return replace(running, origin=model, no_tokenizer_because="none with a model in memory (tokenizer=...)")
