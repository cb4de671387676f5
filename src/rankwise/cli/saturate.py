"""``rankwise saturate``: the rank random attention stays below on average, and the head dimension that reaches it."""

from __future__ import annotations

from typing import Any, Literal

from rankwise.cli.output import console, print_json


def saturate(
    *,
    length: int,
    mask: Literal["full", "causal", "window"] = "full",
    window: int | None = None,
    keys: Literal["gaussian", "unit"] = "gaussian",
    deficit: float = 0.1,
    json: bool = False,
) -> None:
    """Barrier and saturation of a random head: its mean hardmax rank, and the head dimension where it stops growing.

    Example: rankwise saturate --length 1024 --mask causal

    Args:
        length: Number of tokens.
        mask: full, causal or window (the latest --window tokens).
        window: Width of the window; with --mask causal it makes it a window.
        keys: gaussian (ordinary attention at initialisation) or unit (keys with a norm of their own, gain 1).
        deficit: How far below the barrier still counts as saturated, between 0 and 1.
        json: Print one JSON object instead of text.
    """
    from rankwise.theory import hardmax_rank_mean, hardmax_rank_var, saturation_dim, visible_reach

    reach = visible_reach(length, mask, window)
    barrier = hardmax_rank_mean(length, mask, window)
    variance = None if reach not in (None, length) else hardmax_rank_var(length, "full" if reach is None else "causal")
    found = saturation_dim(length, deficit, mask=mask, keys=keys, window=window)
    answer: dict[str, Any] = {
        "barrier": barrier,
        "barrier_fraction": barrier / length,
        "variance": variance,
        "saturation_dim": found.value,
        "status": found.status,
    }
    if json:
        print_json(answer)
        return
    sees = "full mask" if reach is None else "causal mask" if reach == length else f"window of {reach}"
    spread = "" if variance is None else f", standard deviation {variance**0.5:.4g}"
    out = console()
    out.print(f"{length} tokens, {sees}, {keys} keys")
    out.print(f"  barrier     {barrier:.6g} distinct columns, {barrier / length:.4f} of the length{spread}")
    out.print(f"  saturation  head_dim {found.value} reaches {100 * (1 - deficit):g} % of the barrier ({found.status})")
    out.print(
        "It means: at random initialisation a head's hardmax rank stays below the barrier on average and hardly grows "
        f"beyond head_dim {found.value}. It does not say what a trained head has or what a task needs."
    )
