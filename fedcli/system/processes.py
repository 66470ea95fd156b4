"""Worker processes: the one module that starts, feeds and ends them.

A worker is connected by a pipe of its own and served by a thread of this process, so a killed one
is noticed by the call that it was on, and no other waits for it. Workers leave Ctrl-C to this
process and end when it ends. Arrays go through memory that both ends share, where there is some
(see shared_blocks.py).
"""

import contextlib
import io
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from multiprocessing import forkserver
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from .. import console, extensions
from ..errors import FedcliError
from . import container, interrupts, shared_blocks
from .shared_blocks import Channel, channels

B = TypeVar("B")
T = TypeVar("T", bound=tuple)
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Answer = tuple[Any, Exception | None, str]  # value, or error with its traceback

SHORT_TEMPORARY = "/tmp"
LONGEST_TEMPORARY = 70  # bytes; Python adds 32, and the system takes 107
END = ("end",)  # of tasks
_own: dict[
    str, Any
] = {}  # of a worker, as it starts: its pipe; the function and the items of in_order()
RUN = 32  # items that a worker is given at once by in_order(), at most


class WorkerKilled(Exception):
    """A worker process ended before it returned a result."""


class WorkerError(Exception):
    """The message of a worker's exception that cannot be pickled."""


class Note(NamedTuple):
    """A message that a worker sends before the answer to a call."""

    message: tuple[Any, ...]


def _nothing() -> None:
    """The setup of workers that need none."""


class Workers(contextlib.AbstractContextManager["Workers"]):
    """A few processes that are started once; each does its calls in order. To be used as a context.

    They are forked, so that they share what is in memory, unless they are fresh. On a system where
    that may crash (see shared_blocks.py) each begins anew and is sent a copy.
    """

    def __init__(
        self,
        count: int,
        setup: Callable[..., None] = _nothing,
        *arguments: Any,
        shared: bool = False,
        block: int = 0,
        fresh: bool = False,
    ):
        """setup(*arguments) is called once in each worker.

        shared: any free worker does the next call.
        block: bytes of arrays that a worker is sent at once, and returns at once, without passing
            the pipe.
        fresh: they are of Python's fork server, share nothing, and may have processes of their own.
        """
        forked = shared_blocks.FORKS and not fresh
        context: Any = multiprocessing.get_context(_start_method(fresh))
        if not shared_blocks.FORKS:
            work = pickle.dumps((setup, arguments))
            arguments = extensions.words(), extensions.loaded_files(), work
            setup = _as_the_parent
        ends: list[Channel] = []
        self.processes = []
        for _ in range(count):  # all of them before the first thread
            end, far_end = channels(context, block)
            ends.append(end)
            inherited = list(ends) if forked else []
            process = context.Process(
                target=_work,
                args=(far_end, inherited, setup, arguments),
                daemon=not fresh,
            )
            # until it leaves Ctrl-C to this process: it would print a traceback
            with interrupts.held_back(), _main_script(inherited=forked):
                process.start()
            far_end.close()
            self.processes.append(process)
        self._served = []
        for group in [ends] if shared else [[end] for end in ends]:
            free = queue.SimpleQueue[Channel]()
            for end in group:
                free.put(end)
            self._served.append((ThreadPoolExecutor(len(group)), free))

    def submit(
        self,
        worker: int,
        function: Callable[..., B],
        *arguments: Any,
        note: Callable[[tuple[Any, ...]], None] | None = None,
    ) -> "Future[B]":
        """Have this worker, or where they are shared any, call function(*arguments).

        note: is called with what the function sends before it returns, see _with_send().
        The result raises what the function raised, and WorkerKilled.
        """
        thread, free = self._served[worker % len(self._served)]
        return thread.submit(_ask, free, (function, arguments), note)

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is not None:  # their results are no longer needed
            for process in self.processes:
                process.terminate()
        for thread, free in self._served:
            thread.shutdown(cancel_futures=kind is not None)
            while not free.empty():
                end = free.get()
                with contextlib.suppress(OSError):
                    end.send(None)
                end.close()
        for process in self.processes:
            process.join()


def _ask(free: "queue.SimpleQueue[Channel]", call: Call, note: Any) -> Any:
    """The value that a free worker returns of a call. Raises its error, and WorkerKilled."""
    end = free.get()
    try:
        end.send(call)
        answer = end.receive()
        while isinstance(answer, Note):
            note(answer.message)
            answer = end.receive()
    except (EOFError, OSError):
        raise WorkerKilled from None
    finally:
        free.put(end)
    value, error, trace = answer
    if error is not None:
        raise error from RuntimeError(trace)  # which --debug shows
    return value


def _work(
    pipe: Channel,
    inherited: list[Channel],
    setup: Callable[..., None],
    arguments: tuple,
) -> None:
    """The life of a worker. inherited: the parent's ends of pipes, which came with the fork."""
    for other in inherited:
        other.close()
    follow_parent()
    _own["pipe"] = pipe
    failure = None
    try:
        try:
            setup(*arguments)
        except Exception as error:  # of one that begins anew: its code may have changed
            failure = _failed(error)
        while _answered(pipe, failure):
            pass
    except KeyboardInterrupt:  # of a fresh one, which has saved its state
        os._exit(interrupts.INTERRUPTED)


def _start_method(fresh: bool) -> str:
    """The way of Python's by which a worker is started."""
    if not shared_blocks.FORKS:
        return "spawn"
    return "forkserver" if fresh else "fork"


def _as_the_parent(words: frozenset[str], files: list[Path], work: bytes) -> None:
    """Set up a worker that begins anew, with the code that its parent's command allows and runs."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    extensions.allow(words)
    setup, arguments = _WithCode(files, work).load()
    setup(*arguments)


class _WithCode(pickle.Unpickler):
    """Reads what may be of files of code, which are run once something of them is read: after
    modules of fedcli that they need, whose own names would else count as theirs.
    """

    def __init__(self, files: list[Path], work: bytes):
        super().__init__(io.BytesIO(work))
        self.files = files

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(extensions.MODULE) and module not in sys.modules:
            for path in self.files:
                extensions.load(path)
        return super().find_class(module, name)


def _answered(pipe: Channel, failure: Answer | None) -> bool:
    """Answer the next call; False where there is none, or nobody to answer.

    failure: of the setup, which answers each call.
    """
    answer = _answer(pipe, failure)
    if answer is None:
        return False
    try:
        pipe.send(answer)
    except (BrokenPipeError, ConnectionResetError):
        return False
    except Exception as error:  # it cannot be pickled, or memory is short
        pipe.send(_failed(error))
    return True


def _answer(pipe: Channel, failure: Answer | None) -> Answer | None:
    try:
        call = pipe.receive()
    except (EOFError, OSError):  # OSError: the parent ended with an answer unread
        return None
    except Exception as error:  # memory is short
        return _failed(error)
    if call is None or failure:
        return call and failure
    function, values = call
    try:
        return function(*values), None, ""
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> Answer:
    trace = "".join(traceback.format_exception(error))
    return None, portable(extensions.fault(error) or error), trace


def portable(error: Exception) -> Exception:
    """The error itself where it survives a pipe, else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        notes = ", ".join(getattr(error, "__notes__", []))
        return WorkerError(f"{type(error).__name__}: {error}, {notes}")
    return error


def follow_parent() -> None:
    """In a worker process: leave Ctrl-C to the parent, and end when it ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.let_through()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # a killed parent cannot stop this process, which holds its locks
        os._exit(1)


@dataclass(frozen=True)
class Ended:
    """The end of a process of one_each(): with the value that its function returned, or killed with
    this exit code.
    """

    value: Any = None
    code: int | None = None


def one_each(
    function: Callable[..., Any],
    tasks: Iterable[T | None],
    slots: Sequence[Any],
    preload: str,
    pause: float = 1.0,
) -> Generator[tuple[T, Any], None, None]:
    """Call function(*task, slot, send) for each task in a process of its own, so that a crash ends
    no other.

    Yields (task, message) for each tuple that the function sends by send(...), and at last (task,
    Ended). A process that is ended early gets a KeyboardInterrupt, so that it can save its state.

    Args:
        tasks: the next is asked for when a slot is free; None says to ask again after a pause
            (seconds).
        slots: as many processes at once; each has one of them, such as a device, for itself.
        preload: module that is imported once for all processes.
    """
    _preload(preload)
    waiting: Iterator[Any] = iter(tasks)
    free = deque(slots)
    running: dict[Workers, tuple[Any, Any]] = {}  # by the process of each: task and slot
    messages = queue.SimpleQueue[tuple[Workers, Any]]()
    try:
        while True:
            task: Any = None
            while free:
                task = next(waiting, END)
                if task is None or task is END:
                    break
                slot = free.popleft()
                worker = Workers(
                    1,
                    _save_at_end,
                    extensions.words(),
                    fresh=True,
                )
                running[worker] = task, slot
                pass_on = partial(_pass_on, messages, worker)
                answer = worker.submit(
                    0,
                    _with_send,
                    function,
                    *task,
                    slot,
                    note=pass_on,
                )
                answer.add_done_callback(pass_on)
            if not running:
                if task is END:
                    return
                time.sleep(pause)
                continue
            try:
                worker, message = messages.get(timeout=pause if free and task is None else None)
            except queue.Empty:
                continue
            task, slot = running[worker]
            if isinstance(message, Future):
                message = _ended(worker, message)
                free.append(slot)
                del running[worker]
            yield task, message
    finally:
        for worker in running:
            worker.processes[0].terminate()
        for worker in running:
            worker.__exit__(
                None
            )  # waits until it has saved its state: a second signal would disturb it


def _preload(module: str) -> None:
    """Start Python's process that is forked for each worker, and imports the module once; none
    where processes are not forked.
    """
    if not shared_blocks.FORKS:
        return
    multiprocessing.get_context("forkserver").set_forkserver_preload([module])
    # it would print a traceback
    with interrupts.left_to_parent(), _short_temporary_folder():
        forkserver.ensure_running()


def _pass_on(
    messages: "queue.SimpleQueue[tuple[Workers, Any]]",
    worker: Workers,
    message: Any,
) -> None:
    messages.put((worker, message))


def _ended(worker: Workers, answer: "Future[Any]") -> Ended:
    """The end of a process of one_each(), which is gone then."""
    with worker, contextlib.suppress(WorkerKilled):
        return Ended(answer.result())
    return Ended(code=worker.processes[0].exitcode)


def _with_send(function: Callable[..., Any], *values: Any) -> Any:
    """In a worker, function(*values, send)."""
    return function(*values, _send)


def _send(*message: Any) -> None:
    try:
        _own["pipe"].send(Note(message))
    except BrokenPipeError:
        raise KeyboardInterrupt from None


def _save_at_end(words: frozenset[str]) -> None:
    """In a process of one_each(): code that the command names may run, and a signal to end is a
    KeyboardInterrupt.
    """
    signal.signal(signal.SIGTERM, interrupts.end)
    extensions.allow(words)


@contextlib.contextmanager
def _main_script(*, inherited: bool) -> Iterator[None]:
    """A process that starts here does not run the script again that calls fedcli, which it needs
    nothing of. inherited: a forked one has it already.
    """
    main = sys.modules["__main__"]
    if not inherited:
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _short_temporary_folder() -> Iterator[None]:
    """Python's socket to that process lies in the temporary folder, whose path may be too long for
    one.
    """
    before = tempfile.tempdir
    deep = len(os.fsencode(tempfile.gettempdir())) > LONGEST_TEMPORARY
    if deep and os.access(SHORT_TEMPORARY, os.W_OK | os.X_OK):
        tempfile.tempdir = SHORT_TEMPORARY
    try:
        yield
    finally:
        tempfile.tempdir = before


def cores() -> int:
    """The number of cores this process may use, also in a container that may keep only some of them
    busy.
    """
    schedulable = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        schedulable = len(os.sched_getaffinity(0))
    return min(schedulable, container.cores() or schedulable)


def can_be_sent(work: Any) -> bool:
    """Tell whether workers know all that some work needs: without a fork, none knows what was
    typed into a notebook or stands in the script that calls fedcli.
    """
    return shared_blocks.FORKS or b"__main__" not in pickle.dumps(work)


def in_order(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    *,
    label: str,
    jobs: int = 0,
    run: int | None = None,
) -> Iterator[Any]:
    """Yield function(item) for each item, in order, under a progress bar.

    function must be picklable and depend on its item only, so the number of jobs changes no result.
    What it raises reaches the caller; FedcliError where a worker was killed.

    Args:
        jobs: processes, 0 for one per core, never more than four per core.
        run: function takes a sequence of up to so many consecutive items, and returns as many
            results.
    """
    jobs = min(jobs or cores(), 4 * cores(), len(items))
    if jobs > 1 and not can_be_sent(function):
        jobs = 1
    of_run = function if run else partial(_one_by_one, function)
    limit = run or (RUN if jobs > 1 else 1)
    size = max(1, min(limit, len(items) // (4 * max(jobs, 1))))
    runs = [slice(start, start + size) for start in range(0, len(items), size)]
    if jobs <= 1:
        results: Iterator[Any] = chain.from_iterable(of_run(items[part]) for part in runs)
        yield from console.progress(results, label=label, total=len(items))
        return
    # before the bar, which has a thread
    with Workers(jobs, _keep_items, of_run, items, shared=True) as workers:
        ahead = (workers.submit(0, _work_on, part) for part in runs)
        # so far may the workers run ahead of the reader
        results = _drained(deque(islice(ahead, 3 * jobs)), ahead)
        try:
            yield from console.progress(results, label=label, total=len(items))
        except WorkerKilled:
            hint = "it may have run out of memory; try fewer --jobs"
            raise FedcliError("a worker process was killed", hint) from None


def _one_by_one(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [function(item) for item in items]


def _drained(waiting: "deque[Future]", ahead: "Iterator[Future]") -> Iterator[Any]:
    while waiting:
        yield from waiting.popleft().result()
        waiting.extend(islice(ahead, 1))


def _keep_items(of_run: Callable[[Any], list], items: Sequence) -> None:
    _own.update(of_run=of_run, items=items)


def _work_on(part: slice) -> list:
    return _own["of_run"](_own["items"][part])
