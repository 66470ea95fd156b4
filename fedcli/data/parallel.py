"""Work spread over all cores, with results in the order of the items."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, islice
from typing import TypeVar

from .. import console
from ..errors import FedcliError

A = TypeVar("A")
B = TypeVar("B")

_work: tuple[Callable, Sequence] | None = None  # of a worker process, written once as it starts


def in_order(
    function: Callable, items: Sequence[A], *, label: str, jobs: int = 0, run: int | None = None
) -> Iterator[B]:
    """Yield function(item) for each item, in order, under a progress bar.

    function must be picklable and depend on its item only, so the number of jobs changes no result. A FedcliError that
    it raises reaches the caller.

    Args:
        jobs: processes, 0 for one per core, never more than four per core.
        run: function takes a sequence of up to so many consecutive items, and returns as many results.
    """
    jobs = min(jobs or cores(), 4 * cores(), len(items))
    if jobs <= 1 and not run:
        yield from console.progress(map(function, items), label=label, total=len(items))
        return
    of_run = function if run else partial(_each, function)
    size = max(1, min(run or 32, len(items) // (4 * max(jobs, 1))))
    runs = [slice(start, start + size) for start in range(0, len(items), size)]
    if jobs <= 1:
        results = chain.from_iterable(of_run(items[part]) for part in runs)
        yield from console.progress(results, label=label, total=len(items))
        return
    # forked children share the imports and the items; they start before the bar so that no thread is alive
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(of_run, items)) as pool:
        work = (pool.submit(_work_on, part) for part in runs)
        waiting = deque(islice(work, 3 * jobs))  # so far may the workers run ahead of the reader
        try:
            yield from console.progress(_drain(waiting, work), label=label, total=len(items))
        except BrokenProcessPool:
            raise FedcliError(
                "a worker process was killed", "it may have run out of memory; try fewer --jobs"
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)  # a live worker would hold our files open


def _drain(waiting: deque[Future], work: Iterator[Future]) -> Iterator:
    while waiting:
        yield from waiting.popleft().result()
        waiting.extend(islice(work, 1))


def _each(function: Callable[[A], B], items: Sequence[A]) -> list[B]:
    return [function(item) for item in items]


def _work_on(part: slice) -> list:
    of_run, items = _work
    return of_run(items[part])


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin(of_run: Callable[[Sequence[A]], list[B]], items: Sequence[A]) -> None:
    global _work
    _work = of_run, items
    follow_parent()


def follow_parent() -> None:
    """In a worker process: leave Ctrl-C to the parent, and end when it ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()  # a killed parent cannot stop us, and we hold its locks
    os._exit(1)
