"""The options that map a layout by hand, alike in ``rankwise audit`` and ``rankwise reduce``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rankwise.errors import InvalidInputError

if TYPE_CHECKING:
    from rankwise.models import TensorNames


def given_names(
    q: str | None, k: str | None, v: str | None, o: str | None, heads: int | None, kv_heads: int | None,
    head_dim: int | None, transposed: bool, causal: bool, order: Literal["turn", "head"] | None,
    norm: str | None = None,
) -> TensorNames | None:  # fmt: skip
    """What the options name; None where none is given."""
    from rankwise.models import TensorNames

    given = {"q": q, "k": k, "v": v, "o": o, "heads": heads, "kv-heads": kv_heads, "head-dim": head_dim,
             "order": order, "norm": norm}  # fmt: skip
    if transposed or causal or any(value is not None for value in given.values()):
        missing = [f"--{name}" for name in ("q", "k", "heads") if given[name] is None]
        if q is None or k is None or heads is None:
            raise InvalidInputError(f"expected --q, --k and --heads together, got none of: {', '.join(missing)}")
        return TensorNames(
            q=q, k=k, v=v, o=o, heads=heads, kv_heads=kv_heads, rank=head_dim, transposed=transposed, causal=causal,
            order=order, norm=norm,
        )  # fmt: skip
    return None
