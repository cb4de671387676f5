"""How long a reduction will take, from the time of one pass; said before anything long begins."""

from __future__ import annotations

import time

from rankwise.models import RunningModel
from rankwise.reduce.cost import measure_pieces
from rankwise.reduce.generation import NEW_TOKENS
from rankwise.reduce.healing import native_bfloat16
from rankwise.reduce.methods import METHODS
from rankwise.reduce.options import FRONTIER_SHARES, ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.recall import recall_lengths

_CALIBRATING = 5
"""Passes that calibration and the directions after it take, per pass over the texts that teach."""
_HEALING = {False: 4, True: 2}
"""The same of healing: the original's pass, the reduced model's, and one backward; less in native bfloat16."""
_BISECTION = 6
"""Passes over the texts that choose: the original's, and five shares of nineteen."""
_ONE_TOKEN = 16
"""Tokens of a long pass that take as long as one token that is generated."""

_WARM_UP = 32


def expected_minutes(
    running: RunningModel,
    options: ReductionOptions,
    calibration: MaskedPieces,
    selection: MaskedPieces | None,
    evaluation: MaskedPieces,
) -> float:
    """Minutes for all that ``options`` ask, calibration to the last measurement.

    A guess within a factor of two: ratios of passes above were counted on one model.
    """
    first = next(calibration.passes())
    measure_pieces(running, MaskedPieces(first.tokens[:1, :_WARM_UP], first.source))
    start = time.monotonic()
    measure_pieces(running, first)
    per_token = (time.monotonic() - start) / first.tokens.numel()
    tokens = _CALIBRATING * calibration.tokens.numel() + _HEALING[native_bfloat16()] * options.heal_tokens
    tokens += _BISECTION * (0 if selection is None else selection.tokens.numel())
    readings = 2 + options.heals + (len(FRONTIER_SHARES) * len(METHODS) if options.frontier else 0)
    readings -= options.frontier and options.keep in FRONTIER_SHARES  # one point of the frontier is the cut itself
    tokens += readings * evaluation.tokens.numel()
    if running.objective == "causal":
        tokens += 2 * sum(recall_lengths(running)) if options.recall else 0
        tokens += 2 * (options.context + NEW_TOKENS * _ONE_TOKEN) if options.context else 0
    return per_token * tokens / 60 + options.heal
