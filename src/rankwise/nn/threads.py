"""Many small matrices: on a busy machine several threads wait for each other at every one of them.

So each is computed on one thread, and threads take different matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

_MOST_WORKERS = 8
T = TypeVar("T")
U = TypeVar("U")


@contextmanager
def one_thread() -> Iterator[int]:
    """Let torch compute on one thread, and afterwards on as many as before, which is what it gives."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def one_thread_each(function: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """``function`` of every item, one thread for each, as many at once as torch has threads (8 at most)."""
    with one_thread() as threads:
        if threads == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(threads, _MOST_WORKERS)) as pool:
            return list(pool.map(function, items))
