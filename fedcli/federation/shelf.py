"""What many clients keep between rounds, on disk: memory then grows with the clients of a round and not with all.

A client's tensors lie together at one place of a file without a name, which ends with the process that made it: a run
goes on from its state files (state.py), which hold the same tensors. Nothing is written over while a state refers to
it, so a round that fails can be played again from the state before it.
"""

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

ROOM = 2**26  # bytes that clients may keep in memory while they wait for their next round, all together

Kept = Mapping[str, Tensor]  # what one client keeps, by name


def size(kept: Kept) -> int:
    """Bytes of what one client keeps."""
    if isinstance(kept, OnShelf):
        return kept.size
    return sum(tensor.numel() * tensor.element_size() for tensor in kept.values())


class Shelf:
    """A file of what clients keep, made when it is first needed.

    Attributes:
        folder: where the file is made.
        room: bytes that waiting clients may keep in memory before any of it goes to the file.
    """

    def __init__(self, folder: Path, room: int = ROOM):
        self.folder, self.room = folder, room
        self._file: int | None = None
        self._end = 0
        self._free: dict[int, list[int]] = {}  # size -> places

    def settle(self, clients: Mapping[str, Kept], taking_part: Collection[str] = ()) -> dict[str, Kept]:
        """The same, on the shelf once it is too much for memory; what lies on a GPU stays there.

        taking_part: clients of the round, whose memory is needed anyway.
        """
        loose = {client: kept for client, kept in clients.items() if not isinstance(kept, OnShelf)}
        waiting = sum(size(kept) for client, kept in loose.items() if client not in taking_part)
        fits = self._file is None and waiting <= self.room
        if fits or not hasattr(os, "preadv"):  # which Windows lacks
            return dict(clients)
        return {client: self.put(kept) if client in loose else kept for client, kept in clients.items()}

    def put(self, kept: Kept) -> Kept:
        """Write what a client keeps. Raises OSError, which names the folder."""
        if not kept or any(tensor.is_cuda for tensor in kept.values()):
            return kept
        if self._file is None:
            with tempfile.TemporaryFile(dir=self.folder) as file:  # closed by name and number, open by the copy
                self._file = os.dup(file.fileno())
        places = self._free.get(size(kept))
        begin = places.pop() if places else self._end
        at = begin
        for tensor in kept.values():
            self._write(tensor.detach().reshape(-1).view(torch.uint8).numpy().data, at)
            at += tensor.numel() * tensor.element_size()
        self._end = max(self._end, at)
        return OnShelf(self, begin, {name: (tensor.dtype, tensor.shape) for name, tensor in kept.items()})

    def _write(self, left: memoryview, at: int) -> None:
        assert self._file is not None
        try:
            while len(left):
                written = os.pwrite(self._file, left, at)  # a nearly full disk takes a part before it raises
                left, at = left[written:], at + written
        except OSError as error:
            error.filename = str(self.folder)
            raise

    def read(self, count: int, at: int) -> bytearray:
        """Bytes at a place."""
        assert self._file is not None
        found = bytearray(count)
        done = 0
        while done < count:
            part = os.preadv(self._file, [memoryview(found)[done:]], at + done)
            assert part, "the file of what clients keep is shorter than what was written"
            done += part
        return found

    def free(self, count: int, at: int) -> None:
        """A place that no state refers to any more may be written again."""
        self._free.setdefault(count, []).append(at)

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


class OnShelf(Mapping[str, Tensor]):
    """What one client keeps, read whenever it is asked for."""

    def __init__(self, shelf: Shelf, at: int, kinds: dict[str, tuple[torch.dtype, torch.Size]]):
        self._shelf, self._at, self._places = shelf, at, {}  # type: Shelf, int, dict[str, tuple[int, int]]
        self._kinds = kinds
        for name, (dtype, shape) in kinds.items():
            count = dtype.itemsize * shape.numel()
            self._places[name] = at, count
            at += count
        self.size = at - self._at

    def __getitem__(self, name: str) -> Tensor:
        (at, count), (dtype, shape) = self._places[name], self._kinds[name]
        if not count:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._shelf.read(count, at), dtype=dtype).reshape(shape)

    def __contains__(self, name: object) -> bool:
        return name in self._kinds  # reads nothing, which Mapping's own would

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __del__(self) -> None:
        self._shelf.free(self.size, self._at)
