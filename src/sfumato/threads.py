"""A few calls at a time in threads of this process, results in the order of the calls."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

_MOST = 4


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual() -> int:
    """How many threads to work with: as many as there are cores, at most four."""
    return min(_MOST, cores())


def in_order(function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], threads: int) -> Iterator[Result]:
    """``function(*call)`` for each of the calls, which are read as they are needed, two more than threads.

    One thread is this one. Of several, left early, this may be ended by the collector in one of themselves, so they are
    not waited for then.
    """
    if threads == 1:
        for call in calls:
            yield function(*call)
            del call  # what it was about is not needed while the next one is read
        return
    pool = ThreadPoolExecutor(threads)
    try:
        waiting: deque[Future[Result]] = deque()
        for call in calls:
            waiting.append(pool.submit(function, *call))
            if len(waiting) > threads + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        pool.shutdown()  # so that no thread is left, and none is counted, when all is done
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
