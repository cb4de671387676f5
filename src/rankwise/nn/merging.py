"""When is it cheaper to multiply W_Q^T W_K or W_O W_V first?

Through rank R, a query costs D R and a key C R multiplications a head; through the merged D x C form a query costs D C
and a key nothing. Multiplications are counted both ways for the sizes of a call: B batch, I queries, J keys.
"""

from __future__ import annotations

from rankwise.spec import AttentionSpec

Sizes = tuple[int, int, int, int]
"""(B, H, I, J) of a call."""


def merged_scores_pay(spec: AttentionSpec, sizes: Sizes) -> bool:
    """Keys = the context itself, queries through ``W_K^T W_Q``; not where rotations or norms stand between the two, nor
    for structured forms, which are cheap because nobody multiplies them out."""
    if spec.rope is not None or spec.qk_norm or spec.score_form != "low_rank":
        return False
    B, H, I, J = sizes
    D, C, G, R = spec.dim, spec.source_dim, spec.key_heads, spec.rank
    apart = B * (I * H * R * D + J * G * R * C + I * J * H * R)
    merged = B * (I * H * D * C + I * J * H * C) + H * D * R * C
    return merged < apart


def merged_values_pay(spec: AttentionSpec, sizes: Sizes) -> bool:
    """Values = the context itself, the output through ``W_O W_V``."""
    B, H, I, J = sizes
    D, C, G, V = spec.dim, spec.source_dim, spec.key_heads, spec.value_dim
    apart = B * (J * G * V * C + I * J * H * V + I * H * V * D)
    merged = B * (I * J * H * C + I * H * C * D) + H * C * V * D
    return merged < apart
