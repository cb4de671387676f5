"""Generation at a long context, measured: tokens per second, memory at its peak, and bytes of the cache."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
from rankwise.reduce.linear_modules import replaced
from rankwise.reduce.pieces import MaskedPieces

_NEW_TOKENS = 16
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Generation:
    """One model's generation after one context."""

    tokens_per_second: float
    peak_megabytes: float
    cache_bytes: int


def measure_generation(model: Any, context: Int64[Tensor, "1 N"]) -> Generation:
    """Read ``context`` into a cache, then generate greedily; the context's own pass is not timed."""
    gc.collect()
    with torch.no_grad(), _peak_memory() as peak:
        output = model(input_ids=context, use_cache=True, logits_to_keep=1)
        cache, token = output.past_key_values, output.logits[:, -1:].argmax(-1)
        del output
        start = time.perf_counter()
        for _ in range(_NEW_TOKENS):
            output = model(input_ids=token, past_key_values=cache, use_cache=True)
            token = output.logits[:, -1:].argmax(-1)
        seconds = time.perf_counter() - start
    return Generation(_NEW_TOKENS / seconds, peak[0] / 1e6, cache_bytes(cache))


def compare_generation(
    running: RunningModel, installed: Installed, pieces: MaskedPieces, context: int, progress: Progress = silent
) -> GenerationReport | None:
    """Generation with the original and with the cuts ``installed`` in ``running``; None where nothing is cached."""
    sites = [cut.site for cut in installed.cuts if cut.site.kind != "heads" and cut.site.cached]
    if not sites or pieces.real is not None:
        return None
    most = context if running.longest is None else min(context, running.longest - _NEW_TOKENS)
    stream = pieces.tokens.flatten()[None, :most]
    progress("generate: the original", 0, 1)
    replaced(running.model, installed.originals)
    try:
        before = measure_generation(running.model, stream)
    finally:
        replaced(running.model, installed.modules)
    progress("generate: the reduced model", 0, 1)
    with latent_caching(running.model, sites):
        after = measure_generation(running.model, stream)
    return GenerationReport(
        context=stream.shape[1],
        tokens_per_second=Change(before=before.tokens_per_second, after=after.tokens_per_second),
        peak_megabytes=Change(before=before.peak_megabytes, after=after.peak_megabytes),
        cache_bytes=Change(before=before.cache_bytes, after=after.cache_bytes),
    )


@contextmanager
def _peak_memory() -> Iterator[list[float]]:
    """Bytes of resident memory above those at the beginning, sampled every two milliseconds; [0] where unknown."""
    highest, done = [0.0], threading.Event()
    if not _STATM.exists():
        yield highest
        return
    page = 4096
    before = int(_STATM.read_text().split()[1])

    def watch() -> None:
        while not done.wait(0.002):
            highest[0] = max(highest[0], page * float(int(_STATM.read_text().split()[1]) - before))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield highest
    finally:
        done.set()
        thread.join()
