"""A running model, watched one attention block at a time.

``transformers`` lets every model call a registered attention function. Ours lets the model's own eager function do the
work and hands what went in and came out to a visitor: queries and keys as they are multiplied (after rotary positions
and norms), the mask, the probabilities. Nothing is kept when the visitor returns, so memory does not grow with layers.
The mask's function is registered too; without it a causal model would quietly see the future.

Models that multiply their heads themselves (Falcon, Bloom) are watched by hooks on the modules that return
probabilities; for those queries and keys stay unknown.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.models.files.source import open_model
from rankwise.models.layouts.mapping import TensorNames
from rankwise.models.running.attention_call import AttentionCall, Visitor
from rankwise.models.running.loading import (
    Objective,
    load_pretrained,
    model_errors,
    objective_of,
    require_token_reader,
)
from rankwise.models.tensor_source import TensorSource, as_source

_WATCHED = "rankwise_watched_eager"


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
        with _watching(self, blocks, visit) as watch:
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

    def _attention_blocks(self) -> _Blocks:
        """Found by running four tokens once; remembered on the model."""
        known: _Blocks | None = self.model.__dict__.get("_rankwise_blocks")
        if known is None:
            known = _find_blocks(self)
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


@dataclass(frozen=True)
class _Blocks:
    """The attending modules by path, one entry per run of a module (ALBERT runs one layer twelve times).

    ``own_function``: whether they call the registered attention function, or must be hooked.
    """

    modules: tuple[tuple[str, nn.Module], ...]
    own_function: bool


class _Watch:
    """Collects one block's inputs from a hook and its work from the attention function, then calls the visitor."""

    def __init__(self, names: dict[nn.Module, str], visit: Visitor) -> None:
        self.names, self.visit, self.visits = names, visit, 0
        self.entering: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.visitor_failed: Exception | None = None

    def remember_inputs(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = args[0] if args else kwargs["hidden_states"]
        context = None
        for key in ("encoder_hidden_states", "key_value_states"):
            context = kwargs.get(key) if context is None else context
        if context is None and len(args) > 1 and _looks_like(args[1], inputs) and "ross" in type(module).__name__:
            context = args[1]
        self.entering[module] = (inputs, inputs if context is None else context)

    def report(self, module: nn.Module, probabilities: Tensor, **seen: Any) -> None:
        inputs, context = self.entering.pop(module)
        if not bool(probabilities.isfinite().all()):
            raise InvalidInputError(
                f"{self.names[module]}: expected attention of finite numbers, got NaN from the model's own code: its "
                f"weights or its config.json are damaged"
            )
        call = AttentionCall(
            index=self.visits,
            name=self.names[module],
            module=module,
            inputs=inputs,
            context=context,
            probabilities=probabilities,
            **{"queries": None, "keys": None, "values": None, "scale": None, "softcap": None, **seen},
        )
        self.visits += 1
        try:
            self.visit(call)
        except Exception as error:  # the visitor's, not the model's
            self.visitor_failed = error
            raise

    def returned(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Hook for models that return probabilities without calling the registered function."""
        probabilities = _probabilities_in(output)
        if probabilities is not None:
            # a single probability may be too small to be seen; what no head of any text sees is hidden
            visible = (probabilities > 0).any(0).any(0)
            self.report(module, probabilities, visible=None if bool(visible.all()) else visible)

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor]:
        """The model's own eager attention, with a look at both ends."""
        eager = sys.modules[type(module).__module__].__dict__["eager_attention_forward"]
        output, weights = eager(module, query, key, value, attention_mask, *args, **kwargs)
        if module in self.names:
            scale = kwargs.get("scaling")
            self.report(
                module,
                weights[..., : key.shape[2]],
                queries=query,
                keys=key,
                values=value,
                scale=float(query.shape[-1] ** -0.5 if scale is None else scale),
                softcap=kwargs.get("softcap"),
                visible=_visible(attention_mask),
            )
        return output, weights


_active: list[_Watch] = []


def _dispatch(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return _active[-1].attend(module, *args, **kwargs)


@contextmanager
def _registered(model: Any) -> Iterator[None]:
    """The watched function in place of eager attention, for one model, for a while."""
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(_WATCHED, _dispatch)
    AttentionMaskInterface.register(_WATCHED, eager_mask)
    model.set_attn_implementation(_WATCHED)
    try:
        yield
    finally:
        model.set_attn_implementation("eager")


@contextmanager
def _watching(running: RunningModel, blocks: _Blocks, visit: Visitor) -> Iterator[_Watch]:
    watch = _Watch({module: name for name, module in blocks.modules}, visit)
    modules = dict.fromkeys(module for _, module in blocks.modules)
    hooks = [module.register_forward_pre_hook(watch.remember_inputs, with_kwargs=True) for module in modules]
    try:
        if blocks.own_function:
            _active.append(watch)
            try:
                with _registered(running.model):
                    yield watch
            finally:
                _active.pop()
        else:
            hooks += [module.register_forward_hook(watch.returned, with_kwargs=True) for module in modules]
            yield watch
    finally:
        for hook in hooks:
            hook.remove()


class _Probe(_Watch):
    """Notes which modules attend."""

    def __init__(self) -> None:
        super().__init__({}, lambda call: None)
        self.found: list[nn.Module] = []

    def attend(self, module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.found.append(module)
        return super().attend(module, *args, **kwargs)

    def returned(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        # an outer module may hand through what an inner one returned; the inner one ends first
        probabilities = _probabilities_in(output)
        inner = set(module.modules())
        inner.discard(module)
        if probabilities is not None and not any(found in inner for found in self.found):
            self.found.append(module)


def _find_blocks(running: RunningModel) -> _Blocks:
    tokens = torch.arange(4).remainder(running.vocabulary)[None]
    paths = {module: name for name, module in running.model.named_modules()}
    if running.model._can_set_attn_implementation():  # type: ignore[operator]
        probe = _Probe()
        _active.append(probe)
        try:
            with _registered(running.model):
                running(tokens)
        finally:
            _active.pop()
        if probe.found:
            return _Blocks(tuple((paths[module], module) for module in probe.found), own_function=True)
    probe = _Probe()
    hooks = [module.register_forward_hook(probe.returned, with_kwargs=True) for module in running.model.modules()]
    try:
        running(tokens, output_attentions=True)
    finally:
        for hook in hooks:
            hook.remove()
    return _Blocks(tuple((paths[module], module) for module in probe.found), own_function=False)


def _probabilities_in(output: Any) -> Tensor | None:
    """The first tensor [T, H, N, M] in a tuple whose rows are probabilities."""
    if not isinstance(output, tuple):
        return None
    for part in output:
        if isinstance(part, Tensor) and part.ndim == 4 and part.is_floating_point() and part.shape[-1] > 1:
            totals = part.sum(-1)
            if bool((part >= 0).all()) and torch.allclose(totals, torch.ones_like(totals), atol=1e-4):
                return part
    return None


def _looks_like(other: Any, inputs: Tensor) -> bool:
    return isinstance(other, Tensor) and other.ndim == 3 and other.shape[0] == inputs.shape[0]


def _visible(mask: Tensor | None) -> Bool[Tensor, "..."] | None:
    """Eager masks are added to the logits: 0 where a query may look, a very negative number elsewhere."""
    if mask is None:
        return None
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return None if bool(seen.all()) else seen
