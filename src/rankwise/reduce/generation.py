"""Generation at a long context, measured: tokens per second, memory at its peak, and bytes of the cache."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from rankwise.models import RunningModel
from rankwise.progress import Progress, silent
from rankwise.reduce.cutting import Installed
from rankwise.reduce.document import Change, GenerationReport
from rankwise.reduce.latent_cache import cache_bytes, latent_caching
from rankwise.reduce.latent_modules import LatentPlan
from rankwise.reduce.linear_modules import replaced
from rankwise.reduce.pieces import MaskedPieces

NEW_TOKENS = 16
_PROCESS = Path("/proc/self")


@dataclass(frozen=True)
class Generation:
    """One model's generation after one context."""

    tokens_per_second: float
    peak_megabytes: float | None
    """On top of the loaded model; None where the system does not tell."""
    cache_bytes: int


def measure_generation(model: Any, context: Int64[Tensor, "1 N"]) -> Generation:
    """Read ``context`` into a cache, then generate greedily; the context's own pass is not timed."""
    gc.collect()
    with torch.no_grad(), _peak_memory() as peak:
        output = model(input_ids=context, use_cache=True, logits_to_keep=1)
        cache, token = output.past_key_values, output.logits[:, -1:].argmax(-1)
        del output
        start = time.perf_counter()
        for _ in range(NEW_TOKENS):
            output = model(input_ids=token, past_key_values=cache, use_cache=True)
            token = output.logits[:, -1:].argmax(-1)
        seconds = time.perf_counter() - start
    return Generation(NEW_TOKENS / seconds, peak[0] / 1e6 if peak else None, cache_bytes(cache))


def compare_generation(
    running: RunningModel, installed: Installed, pieces: MaskedPieces, context: int, progress: Progress = silent
) -> GenerationReport | None:
    """Generation with the original and with the cuts ``installed`` in ``running``; None where nothing is cached."""
    sites = [cut.site for cut in installed.cuts if cut.site.kind != "heads" and cut.site.cached]
    if not sites or pieces.real is not None:
        return None
    most = context if running.longest is None else min(context, running.longest - NEW_TOKENS)
    stream = pieces.tokens.flatten()[None, :most]
    progress("generate: the original", 0, 1)
    replaced(running.model, installed.originals)
    try:
        before = measure_generation(running.model, stream)
    finally:
        replaced(running.model, installed.modules)
    progress("generate: the reduced model", 0, 1)
    latents = [cut.site for cut in installed.cuts if isinstance(cut, LatentPlan)]
    with latent_caching(running.model, latents) if latents else nullcontext():
        after = measure_generation(running.model, stream)
    peaks = before.peak_megabytes, after.peak_megabytes
    return GenerationReport(
        context=stream.shape[1],
        tokens_per_second=Change(before=before.tokens_per_second, after=after.tokens_per_second),
        peak_megabytes=None if peaks[0] is None or peaks[1] is None else Change(before=peaks[0], after=peaks[1]),
        cache_bytes=Change(before=before.cache_bytes, after=after.cache_bytes),
    )


@contextmanager
def _peak_memory() -> Iterator[list[float]]:
    """Bytes of resident memory at the peak, above those at the beginning; stays empty where the system does not tell.

    Memory that Python freed before is given back to the system first: taken again unseen, it would hide what is new.
    """
    peak: list[float] = []
    try:
        ctypes.CDLL(None).malloc_trim(0)
        (_PROCESS / "clear_refs").write_text("5")  # forget the highest value so far (proc(5))
        before = _status("VmRSS")
    except (OSError, AttributeError):
        yield peak
        return
    yield peak
    peak.append(_status("VmHWM") - before)


def _status(field: str) -> float:
    """A size of this process, in bytes."""
    lines = (_PROCESS / "status").read_text(encoding="ascii").splitlines()
    return 1024 * float(next(line for line in lines if line.startswith(f"{field}:")).split()[1])
