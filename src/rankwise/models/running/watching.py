"""Attention blocks of ``transformers`` models, watched while they work.

``transformers`` lets every model call a registered attention function. Ours lets the model's own eager function do the
work and hands what went in and came out to a visitor: queries and keys as they are multiplied (after rotary positions
and norms), the mask, the probabilities. Nothing is kept when the visitor returns, so memory does not grow with layers.
The mask's function is registered too; without it a causal model would quietly see the future.

Models that multiply their heads themselves (Falcon, Bloom) are watched by hooks on the modules that return
probabilities; for those queries and keys stay unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from rankwise.errors import InvalidInputError
from rankwise.models.running.attention_call import AttentionCall, Visitor

_WATCHED = "rankwise_watched_eager"


@dataclass(frozen=True)
class Blocks:
    """The attending modules by path, one entry per run of a module (ALBERT runs one layer twelve times).

    ``own_function``: whether they call the registered attention function, or must be hooked.
    """

    modules: tuple[tuple[str, nn.Module], ...]
    own_function: bool


class Watch:
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


_active: list[Watch] = []


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
def watching(model: nn.Module, blocks: Blocks, visit: Visitor) -> Iterator[Watch]:
    """Call ``visit`` after the work of each of the ``blocks``, whenever the model runs in this context."""
    watch = Watch({module: name for name, module in blocks.modules}, visit)
    modules = dict.fromkeys(module for _, module in blocks.modules)
    hooks = [module.register_forward_pre_hook(watch.remember_inputs, with_kwargs=True) for module in modules]
    try:
        if blocks.own_function:
            _active.append(watch)
            try:
                with _registered(model):
                    yield watch
            finally:
                _active.pop()
        else:
            hooks += [module.register_forward_hook(watch.returned, with_kwargs=True) for module in modules]
            yield watch
    finally:
        for hook in hooks:
            hook.remove()


class _Probe(Watch):
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


def find_blocks(model: nn.Module, run: Callable[..., Any]) -> Blocks:
    """The attending modules of a model; ``run`` lets a few tokens through it, with further options of its forward."""
    paths = {module: name for name, module in model.named_modules()}
    if model._can_set_attn_implementation():  # type: ignore[operator]
        probe = _Probe()
        _active.append(probe)
        try:
            with _registered(model):
                run()
        finally:
            _active.pop()
        if probe.found:
            return Blocks(tuple((paths[module], module) for module in probe.found), own_function=True)
    probe = _Probe()
    hooks = [module.register_forward_hook(probe.returned, with_kwargs=True) for module in model.modules()]
    try:
        run(output_attentions=True)
    finally:
        for hook in hooks:
            hook.remove()
    return Blocks(tuple((paths[module], module) for module in probe.found), own_function=False)


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
