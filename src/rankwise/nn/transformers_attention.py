"""rankwise as an attention implementation inside ``transformers`` models (their ``AttentionInterface``).

Legend: B batch, I queries, J keys (with a cache more than I), H heads, G key/value heads, R rank, V value rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, MissingExtraError, require_choice
from rankwise.nn.masks import structural_mask, token_positions
from rankwise.nn.mixing import choice_weights, choose, hardmax_choice, softmax_mix, softmax_weights, weighted_sum

Observer = Callable[[nn.Module, Tensor], None]
"""Called with a model's attention module and its attention matrices [B, H, I, J]."""

# What some models add to plain attention. Ignoring one would change their outputs without a word.
_NOT_DONE_HERE = ("softcap", "s_aux", "position_bias", "cu_seq_lens_q")


def register_attention(
    name: str = "rankwise",
    *,
    scores: Literal["softmax", "hardmax"] = "softmax",
    observer: Observer | None = None,
) -> None:
    """Make ``attn_implementation=name`` (or ``model.set_attn_implementation(name)``) compute attention here.

    Projections, rotary positions and the cache stay the model's; ``softmax`` gives the numbers of its ``eager``
    implementation, ``hardmax`` lets every query read its best key alone. ``observer(module, weights)`` sees the
    attention matrices of every layer as it runs (then, and with ``output_attentions``, they are really formed).
    Soft-capped scores, attention sinks and position biases are refused, not ignored. Registering a name again
    replaces it. Needs the extra ``audit``.
    """
    require_choice("scores", scores, ("softmax", "hardmax"))
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError:
        raise MissingExtraError("audit", "attention inside transformers models") from None

    def forward(
        module: nn.Module,
        query: Float[Tensor, "B H I R"],
        key: Float[Tensor, "B G J R"],
        value: Float[Tensor, "B G J V"],
        attention_mask: Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        **options: Any,
    ) -> tuple[Float[Tensor, "B I H V"], Float[Tensor, "B H I J"] | None]:
        _refuse(name, options)
        causal = options.get("is_causal")
        visible = _visible(
            attention_mask, query, key, causal=getattr(module, "is_causal", True) if causal is None else causal
        )
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        queries, keys, values = (tensor.transpose(1, 2) for tensor in (query * scale, key, value))
        weights = None
        wanted = observer is not None or bool(options.get("output_attentions"))
        if scores == "hardmax":
            choice = hardmax_choice(queries, keys, visible)
            mixed = choose(choice, values, dropout)
            weights = choice_weights(choice, keys.shape[1], query.dtype) if wanted else None
        elif wanted:
            weights = softmax_weights(queries, keys, visible)
            mixed = weighted_sum(weights, values, dropout)
        else:
            mixed = softmax_mix(queries, keys, values, visible, dropout=dropout)
        if observer is not None and weights is not None:
            observer(module, weights.detach())
        return mixed.contiguous(), weights

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, sdpa_mask)  # booleans, True = visible, as here


def _refuse(name: str, options: dict[str, Any]) -> None:
    for option in _NOT_DONE_HERE:
        if options.get(option) is not None:
            raise InvalidInputError(
                f"{name}: this model uses {option!r} in its attention, which is not done here; "
                'load it with attn_implementation="eager"'
            )


def _visible(
    mask: Tensor | None, query: Float[Tensor, "B H I R"], key: Float[Tensor, "B G J R"], *, causal: bool
) -> Tensor | None:
    """The mask as booleans. None from ``transformers`` means: plain causal, or all of them for a single query."""
    if mask is None:
        queries, keys = query.shape[2], key.shape[2]
        if not causal or queries == 1:
            return None
        asking, asked = (token_positions(None, count, query.device) for count in (queries, keys))
        structure = structural_mask(asking, asked, causal=True, window=None)
        return None if structure is None else structure[:, None]
    if mask.dtype != torch.bool:
        mask = mask >= 0  # additive: 0 where visible, hugely negative where not
    return mask[..., : key.shape[2]]
