"""Ctrl-C once asks, twice insists; SIGTERM and a closed terminal ask the same way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_ASKING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@dataclass
class StopRequest:
    """How often someone has asked to stop."""

    times: int = 0

    @property
    def asked(self) -> bool:
        """Whether to checkpoint and stop."""
        return self.times > 0


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """The first signal sets the request, the second raises ``KeyboardInterrupt``, later ones find it being obeyed."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread may handle signals
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        request.times += 1
        if request.times == 2:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, on_signal) for number in _ASKING}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
