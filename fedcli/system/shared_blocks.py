"""Memory that forked processes share, and a pipe between two of them whose arrays go through it.

The memory is anonymous and comes with the fork: it has no name that a killed process could leave
behind, and no part in /dev/shm, which containers keep small. A page of it is taken when it is first
written. What does not fit goes through the pipe, and so does all where processes are not forked.
"""

import contextlib
import mmap
import pickle
import sys
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

FORKS = sys.platform != "darwin"  # a process forked from one that used Apple's libraries may crash
ALIGNED = 64  # bytes; where an array may begin
SMALL = 2**12  # bytes, below which a copy through the pipe costs nothing
KEPT = 2**28  # bytes of written pages that a channel's block keeps between messages


def anonymous(size: int) -> mmap.mmap | None:
    """Memory that later forks share; None for size 0, without forks, and where the system refuses
    so much.
    """
    if not size or not FORKS:
        return None
    with contextlib.suppress(OSError, OverflowError):
        return mmap.mmap(-1, size)
    return None


class Stored(NamedTuple):
    """A message of which some arrays are in a block."""

    places: list[tuple[int, int]]  # of each such array: where it begins, and its bytes
    pickled: bytes  # the rest


class SharedBlock:
    """One message at a time in shared memory; without memory, all of it is pickled."""

    def __init__(self, memory: mmap.mmap | None):
        self.memory = memory

    def put(self, message: Any) -> Stored:
        """Write over the message before. Raises what pickle raises."""
        places: list[tuple[int, int]] = []

        def in_pickle(buffer: pickle.PickleBuffer) -> bool:
            """Tell whether an array has to be pickled; else it is put into the block."""
            with buffer.raw() as raw:
                begin = -(-sum(places[-1]) // ALIGNED) * ALIGNED if places else 0
                end = begin + raw.nbytes
                if self.memory is None or raw.nbytes < SMALL or end > len(self.memory):
                    return True
                self.memory[begin:end] = raw
                places.append((begin, raw.nbytes))
                return False

        return Stored(places, pickle.dumps(message, protocol=5, buffer_callback=in_pickle))

    def get(self, stored: Stored, *, in_place: bool = False) -> Any:
        """The message; in_place: its arrays are those in the block, as long as no other message is
        put there.
        """
        if self.memory is None or not stored.places:
            return pickle.loads(stored.pickled)
        block = memoryview(self.memory)
        parts: list[Any] = [block[begin : begin + size] for begin, size in stored.places]
        if not in_place:
            parts = [bytearray(part) for part in parts]
        return pickle.loads(stored.pickled, buffers=parts)


class Channel:
    """One end of a connection. The ends take turns: a question is answered before the next one is
    sent.

    So one block serves both directions, as whoever receives a message copies its arrays out before
    answering.
    """

    def __init__(self, pipe: Connection, memory: mmap.mmap | None):
        self._pipe = pipe
        self._block = SharedBlock(memory)

    def send(self, message: Any) -> None:
        """Raises OSError where the other end is gone, and what pickle raises."""
        self._pipe.send(self._block.put(message))

    def receive(self) -> Any:
        """The next message, with arrays of its own. Raises EOFError or OSError where the other end
        is gone.
        """
        stored = self._pipe.recv()
        message = self._block.get(stored)
        memory = self._block.memory
        if memory is not None and stored.places and sum(stored.places[-1]) > KEPT:
            # a system that cannot, or knows no such advice, keeps the pages
            with contextlib.suppress(OSError, AttributeError):
                memory.madvise(mmap.MADV_REMOVE)
        return message

    def close(self) -> None:
        self._pipe.close()


def channels(context: Any, size: int) -> tuple[Channel, Channel]:
    """Both ends of a connection with a block of so many bytes, which a process gets by being
    forked; 0: without one.

    context: of multiprocessing. Where the system refuses so large a block, all goes through the
    pipe.
    """
    end, far_end = context.Pipe()
    memory = anonymous(size)
    return Channel(end, memory), Channel(far_end, memory)
