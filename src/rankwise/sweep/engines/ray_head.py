"""The head of a Ray cluster, which may die or freeze: asked by a thread of its own, so that the driver never waits.

A call of Ray that asks the head returns only with an answer, and no signal ends it. After a minute without one Ray ends
the process that asked, with a message of its own; the driver leaves before, by its own error.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from rankwise.errors import EngineError

_EVERY = 2.0
_PATIENCE = 30.0
_PAUSE = 1.0  # what a stopped driver (Ctrl-Z) slept through is no silence of the head
_abandoned = False


class RayHead:
    """What the head says about the cluster's nodes, every two seconds."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._nodes: list[dict[str, Any]] | None = None
        self._heard = threading.Event()
        self._ended = threading.Event()
        self._silence = 0.0
        self._looked = time.monotonic()
        threading.Thread(target=self._ask, daemon=True, name="rankwise-ray-head").start()

    def sizes(self) -> list[dict[str, float]]:
        """The resources of every living node; raises if the head has been silent for half a minute."""
        while self._nodes is None:
            self._heard.wait(_PAUSE)
            self._count_silence()
        self._count_silence()
        return [node["Resources"] for node in self._nodes if node["Alive"]]

    @property
    def answers(self) -> bool:
        """Whether it has answered lately."""
        return self._silence < 2 * _EVERY

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def _ask(self) -> None:
        while not self._ended.is_set():
            try:
                self._nodes = self._ray.nodes()
            except Exception:  # Ray is being shut down, or says in its way that the head is gone
                return
            self._heard.set()
            self._ended.wait(_EVERY)

    def _count_silence(self) -> None:
        now = time.monotonic()
        if self._heard.is_set():
            self._heard.clear()
            self._silence = 0.0
        else:
            self._silence += min(now - self._looked, _PAUSE)
        self._looked = now
        if self._silence > _PATIENCE and not self._ended.is_set():
            self._ended.set()
            raise EngineError(
                f"expected an answer from the head of the Ray cluster, got none for {_PATIENCE:g} s: it was ended or "
                f"hangs; finished runs are safe, and the same command continues when there is a cluster again"
            )


def within(seconds: float, action: Callable[[], object]) -> bool:
    """Whether ``action`` came to an end, by itself or by an error, in that time; it goes on alone otherwise."""
    ended = threading.Event()

    def act() -> None:
        try:
            action()
        except Exception:  # a cluster that is gone has nothing left to end
            return
        finally:
            ended.set()

    threading.Thread(target=act, daemon=True).start()
    return ended.wait(seconds)


def kill_own_processes(ray: Any) -> None:
    """Kill the processes of a Ray that this process has started, also frozen ones."""
    node = ray._private.worker._global_node
    if node is not None:
        node.kill_all_processes(check_alive=False, allow_graceful=False)


def abandon(ray: Any) -> None:
    """Leave without a farewell to a cluster whose head hangs: waiting for it, python would never end."""
    global _abandoned
    _abandoned = True
    atexit.unregister(ray._private.worker.shutdown)
    atexit.register(os._exit, 1)  # the threads that still wait for the head do not survive an orderly end


def ray_was_abandoned() -> bool:
    """Whether this process has to end by ``os._exit``."""
    return _abandoned
