"""State of clients between rounds, on disk: memory then grows with the clients of a round and not with all.

It is what clients keep, and tables in which the server keeps a row for each of them. The tensors of one lie together at
one place of a file without a name, which ends with the process that made it: a run goes on from its state files
(state.py), which hold the same. Nothing is written over while a state refers to it, so a round that fails can be played
again from the state before it.
"""

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from ..methods.contract import Tensors
from ..methods.row_table import RowTable

IN_MEMORY = (
    2**26
)  # bytes of state that clients may have in memory while they wait for their next round, all together

ClientState = Mapping[str, Tensor]  # of one client, by name
Key = TypeVar("Key", str, int)


def size(state: ClientState) -> int:
    """Bytes of one client's state."""
    if isinstance(state, StoredState):
        return state.size
    return sum(tensor.nbytes for tensor in state.values())


class ClientStateStore:
    """A file of clients' states, made in the folder when it is first needed."""

    def __init__(self, folder: Path, in_memory: int = IN_MEMORY):
        """in_memory: bytes that waiting clients may have in memory before any of it goes to the file."""
        self.folder, self.in_memory = folder, in_memory
        self._file: int | None = None
        self._end = 0
        self._free: dict[int, list[int]] = {}  # size -> offsets

    def offload(
        self, clients: Mapping[Key, ClientState], taking_part: Collection[Key] = ()
    ) -> dict[Key, ClientState]:
        """The same states, in the file once they are too much for memory; what is on a GPU stays there.

        taking_part: clients of the round, whose state is in memory anyway.
        """
        loaded = {
            client: state for client, state in clients.items() if not isinstance(state, StoredState)
        }
        waiting = sum(size(state) for client, state in loaded.items() if client not in taking_part)
        if self._file is None and waiting <= self.in_memory:
            return dict(clients)
        return {
            client: self.write(state) if client in loaded else state
            for client, state in clients.items()
        }

    def offload_rows(self, server: Tensors) -> Tensors:
        """The server's state with the rows of its tables in the file, each table once it is too much for memory."""
        return {
            name: replace(value, rows=self.offload(value.rows))
            if isinstance(value, RowTable)
            else value
            for name, value in server.items()
        }

    def write(self, state: ClientState) -> ClientState:
        """Write one client's state. Raises OSError, which names the folder."""
        if not state or any(tensor.is_cuda for tensor in state.values()):
            return state
        if self._file is None:
            with tempfile.TemporaryFile(
                dir=self.folder
            ) as file:  # closed by name and number, open by the copy
                self._file = os.dup(file.fileno())
        offsets = self._free.get(size(state))
        begin = offsets.pop() if offsets else self._end
        at = begin
        for tensor in state.values():
            self._write(tensor.detach().reshape(-1).view(torch.uint8).numpy().data, at)
            at += tensor.numel() * tensor.element_size()
        self._end = max(self._end, at)
        return StoredState(
            self, begin, {name: (tensor.dtype, tensor.shape) for name, tensor in state.items()}
        )

    def _write(self, left: memoryview, at: int) -> None:
        assert self._file is not None
        try:
            while len(left):
                written = os.pwrite(
                    self._file, left, at
                )  # a nearly full disk takes a part before it raises
                left, at = left[written:], at + written
        except OSError as error:
            error.filename = str(self.folder)
            raise

    def read(self, count: int, at: int) -> bytearray:
        """Bytes at an offset."""
        assert self._file is not None
        content = bytearray(count)
        done = 0
        while done < count:
            part = os.preadv(self._file, [memoryview(content)[done:]], at + done)
            assert part, "the file of clients' states is shorter than what was written"
            done += part
        return content

    def free(self, count: int, at: int) -> None:
        """Bytes at an offset that no state refers to any more may be written again."""
        self._free.setdefault(count, []).append(at)

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


class StoredState(Mapping[str, Tensor]):
    """One client's state in the file; a tensor is read whenever it is asked for."""

    def __init__(
        self, store: ClientStateStore, at: int, kinds: dict[str, tuple[torch.dtype, torch.Size]]
    ):
        self._store, self._begin = store, at
        self._places: dict[str, tuple[int, torch.dtype, torch.Size]] = {}
        for name, (dtype, shape) in kinds.items():
            self._places[name] = at, dtype, shape
            at += dtype.itemsize * shape.numel()
        self.size = at - self._begin

    def __getitem__(self, name: str) -> Tensor:
        at, dtype, shape = self._places[name]
        count = dtype.itemsize * shape.numel()
        if not count:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._store.read(count, at), dtype=dtype).reshape(shape)

    def __contains__(self, name: object) -> bool:
        return name in self._places  # reads nothing, which Mapping's own would

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __del__(self) -> None:
        self._store.free(self.size, self._begin)
