"""A pipe between two processes whose arrays go through memory that both share.

The memory is anonymous and comes with the fork: it has no name that a killed process could leave behind, and no part in
/dev/shm, which containers keep small. A page of it is taken when it is first written. What does not fit goes
through the pipe.
"""

import contextlib
import mmap
import pickle
from multiprocessing.connection import Connection
from typing import Any

ALIGNED = 64  # bytes; where an array may begin
SMALL = 2**12  # bytes, below which a copy through the pipe costs nothing
KEPT = 2**28  # bytes of written pages that a block keeps between messages


class Channel:
    """One end of a connection. The ends take turns: a question is answered before the next one is sent.

    So one block serves both directions, as whoever receives a message copies its arrays out before answering.
    """

    def __init__(self, pipe: Connection, block: mmap.mmap | None):
        self._pipe, self._block = pipe, block

    def send(self, message: Any) -> None:
        """Raises OSError where the other end is gone, and what pickle raises."""
        places: list[tuple[int, int]] = []  # of each array in the block: where it begins, and its bytes

        def in_pipe(buffer: pickle.PickleBuffer) -> bool:
            """Whether an array has to go through the pipe; else it is put into the block."""
            with buffer.raw() as raw:
                begin = -(-sum(places[-1]) // ALIGNED) * ALIGNED if places else 0
                if self._block is None or raw.nbytes < SMALL or begin + raw.nbytes > len(self._block):
                    return True
                self._block[begin : begin + raw.nbytes] = raw
                places.append((begin, raw.nbytes))
                return False

        pickled = pickle.dumps(message, protocol=5, buffer_callback=in_pipe)
        self._pipe.send((places, pickled))

    def receive(self) -> Any:
        """The next message, with arrays of its own. Raises EOFError or OSError where the other end is gone."""
        places, pickled = self._pipe.recv()
        if self._block is None or not places:
            return pickle.loads(pickled)
        with memoryview(self._block) as block:
            message = pickle.loads(pickled, buffers=[bytearray(block[begin : begin + size]) for begin, size in places])
        if sum(places[-1]) > KEPT and hasattr(mmap, "MADV_REMOVE"):
            with contextlib.suppress(OSError):  # a system that cannot keeps the pages
                self._block.madvise(mmap.MADV_REMOVE)
        return message

    def close(self) -> None:
        self._pipe.close()


def channels(context: Any, size: int) -> tuple[Channel, Channel]:
    """Both ends of a connection with a block of so many bytes, which a process gets by being forked; 0: without one.

    context: of multiprocessing. Where the system refuses so large a block, all goes through the pipe.
    """
    end, far_end = context.Pipe()
    block = None
    if size:
        with contextlib.suppress(OSError, OverflowError):
            block = mmap.mmap(-1, size)
    return Channel(end, block), Channel(far_end, block)
