"""State of clients between rounds, on disk: memory then grows with the clients of a round only.

It is what clients keep, and tables in which the server keeps a row for each of them. The tensors of
one lie together at one place of a file without a name, which ends with the process that made it: a
run goes on from its state files (state.py), which hold the same. Nothing is written over while a
state refers to it, so a round that fails can be played again from the state before it.
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

# bytes of state that clients may have in memory while they wait for their next round, all together
IN_MEMORY = 2**26

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
        """in_memory: bytes that waiting clients may have in memory before any goes to the file."""
        self.folder = folder
        self.in_memory = in_memory
        self._file: int | None = None
        self._end = 0
        self._free: dict[int, list[int]] = {}  # size -> offsets

    def offload(
        self,
        clients: Mapping[Key, ClientState],
        taking_part: Collection[Key] = (),
    ) -> dict[Key, ClientState]:
        """A copy of the states, in the file once they are too much for memory.

        What is on a GPU stays there. taking_part: clients of the round, whose state is in memory
        anyway.
        """
        loaded = []
        waiting = 0
        for client, state in clients.items():
            if not isinstance(state, StoredState):
                loaded.append(client)
                if client not in taking_part:
                    waiting += size(state)
        stored = dict(clients)
        if self._file is None and waiting <= self.in_memory:
            return stored
        for client in loaded:
            stored[client] = self.write(clients[client])
        return stored

    def offload_rows(self, server: Tensors) -> Tensors:
        """The server's state with rows of its tables in the file, once too many for memory."""
        stored = dict(server)
        for name, value in server.items():
            if isinstance(value, RowTable):
                stored[name] = replace(value, rows=self.offload(value.rows))
        return stored

    def write(self, state: ClientState) -> ClientState:
        """Write one client's state. Raises OSError, which names the folder."""
        if not state or any(tensor.is_cuda for tensor in state.values()):
            return state
        if self._file is None:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                self._file = os.dup(file.fileno())  # the file is closed, and open by the copy
        offsets = self._free.get(size(state))
        begin = offsets.pop() if offsets else self._end
        offset = begin
        for tensor in state.values():
            values = tensor.detach().reshape(-1).view(torch.uint8).numpy()
            self._write(values.data, offset)
            offset += tensor.numel() * tensor.element_size()
        self._end = max(self._end, offset)
        kinds = {name: (tensor.dtype, tensor.shape) for name, tensor in state.items()}
        return StoredState(self, begin, kinds)

    def _write(self, content: memoryview, offset: int) -> None:
        assert self._file is not None
        try:
            while len(content):
                # a nearly full disk takes a part before it raises
                written = os.pwrite(self._file, content, offset)
                content = content[written:]
                offset += written
        except OSError as error:
            error.filename = str(self.folder)
            raise

    def read(self, count: int, offset: int) -> bytearray:
        """Bytes at an offset."""
        assert self._file is not None
        content = bytearray(count)
        done = 0
        while done < count:
            rest = memoryview(content)[done:]
            part = os.preadv(self._file, [rest], offset + done)
            assert part, "the file of clients' states is shorter than what was written"
            done += part
        return content

    def free(self, count: int, offset: int) -> None:
        """Let bytes at an offset, to which no state refers any more, be written again."""
        self._free.setdefault(count, []).append(offset)

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


class StoredState(Mapping[str, Tensor]):
    """One client's state in the file; a tensor is read at each access."""

    def __init__(
        self,
        store: ClientStateStore,
        begin: int,
        kinds: dict[str, tuple[torch.dtype, torch.Size]],
    ):
        self._store = store
        self._begin = begin
        self._places: dict[str, tuple[int, torch.dtype, torch.Size]] = {}
        offset = begin
        for name, (dtype, shape) in kinds.items():
            self._places[name] = offset, dtype, shape
            offset += dtype.itemsize * shape.numel()
        self.size = offset - begin

    def __getitem__(self, name: str) -> Tensor:
        offset, dtype, shape = self._places[name]
        count = dtype.itemsize * shape.numel()
        if not count:
            return torch.empty(shape, dtype=dtype)
        content = self._store.read(count, offset)
        return torch.frombuffer(content, dtype=dtype).reshape(shape)

    def __contains__(self, name: object) -> bool:
        return name in self._places  # reads nothing, which Mapping's own would

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __del__(self) -> None:
        self._store.free(self.size, self._begin)
