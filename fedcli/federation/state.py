"""The state that a run carries from round to round, and its files.

There is no random state in it: see seeds.derive. A state file is written under a temporary name,
flushed and renamed, so the newest one is always complete; the one before it is kept as well.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FedcliError
from ..io.hdf5 import TENSORS, open_hdf5, replace_hdf5
from ..methods.contract import Tensors
from ..methods.row_table import ROW, RowTable
from .client_state import ClientState, ClientStateStore, size

CPU = torch.device("cpu")
HOST = "host"  # marks a tensor that lies on the host while theta is on a GPU
TABLES = "tables"  # of the server, with a row for each client
BLOCK = 2**24  # bytes of a table that are written at once
HINT = "--resume uses the state before it, if there is one"


@dataclass(frozen=True)
class Best:
    """The model with the best validation score so far, the first of equals."""

    round: int  # after which it was scored
    score: float  # on the 0..1 scale
    theta: Tensor  # [P] the global model as it is scored
    # tensors that stay at each client, by its name
    clients: dict[str, Tensors] = field(default_factory=dict)


@dataclass(frozen=True)
class RunState:
    """Everything between rounds."""

    round: int  # rounds finished
    theta: Tensor  # [P] global model
    # written by Local.post_aggregate, broadcast to clients
    shared: Tensors = field(default_factory=dict)
    server: Tensors = field(default_factory=dict)  # written by Aggregator.aggregate
    # written on each client, by client name; on disk where they are many
    clients: dict[str, ClientState] = field(default_factory=dict)
    # None where clients have no validation part. It is a part of the state, and not a file of its
    # own, so that a resume from any state has the best model of that very round.
    best: Best | None = None


def equal(value: Tensor | Mapping[str, Any], other: Tensor | Mapping[str, Any]) -> bool:
    """Tell whether two tensors, or nests by name, are equal to the bit, on one device.

    Names may be in any order.
    """
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        same_kind = value.dtype == other.dtype and value.device == other.device
        return same_kind and torch.equal(value, other)
    if isinstance(value, Tensor) or isinstance(other, Tensor):
        return False
    if value.keys() != other.keys():
        return False
    return all(equal(value[name], other[name]) for name in other)


def save(
    folder: Path,
    state: RunState,
    roster: list[str],
    keep: int = 2,
) -> Path:
    """Write state as folder/<round>.h5, drop all but the newest `keep`, and return its path."""
    rows = {client: row for row, client in enumerate(roster)}
    server: Tensors = {}
    tables: Tensors = {}
    for name, value in state.server.items():
        if isinstance(value, RowTable):
            tables[name] = value
        else:
            server[name] = value
    parts: dict[str, ClientState] = {
        "shared": state.shared,
        "server": server,
        TABLES: tables,
    }
    for client, memory in state.clients.items():
        parts[f"clients/{rows[client]}"] = memory
    best = state.best
    if best:
        parts["best"] = {
            "theta": best.theta,
            "round": torch.tensor(best.round),
            "score": torch.tensor(best.score, dtype=torch.float64),
        }
        for client, memory in best.clients.items():
            parts[f"best/clients/{rows[client]}"] = memory
    path = folder / f"{state.round:05d}.h5"
    bytes_in_all = state.theta.nbytes + sum(size(part) for part in parts.values())
    _write(path, bytes_in_all, _named(state.theta, parts), state.theta.device)
    for old in saved(folder)[:-keep]:
        remove(old)
    return path


def _named(theta: Tensor, parts: dict[str, ClientState]) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a state with their names, one at a time, as they may lie on disk."""
    yield "theta", theta
    for part, tensors in parts.items():
        for name in tensors:
            yield f"{part}/{name}", tensors[name]


def remove(path: Path) -> None:
    """Remove a state file, and first the file that proves it whole."""
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink()


def saved(folder: Path) -> list[Path]:
    """State files, oldest first."""
    return sorted(path for path in folder.glob("*.h5") if path.stem.isdecimal())


def restore(
    path: Path,
    roster: list[str],
    device: str,
    store: ClientStateStore | None = None,
) -> RunState:
    """Read a state file; clients' states stay on disk where they are large.

    Raises FedcliError if it is damaged.
    """
    if store and path.stat().st_size <= store.in_memory:
        store = None
    try:
        return _read(path, roster, device, store)
    except (KeyError, ValueError, IndexError) as error:
        raise FedcliError(
            f"{path} is damaged: {error}", "remove it; --resume then uses the state before it"
        ) from None


def _read(
    path: Path,
    roster: list[str],
    device: str,
    store: ClientStateStore | None,
) -> RunState:
    parts: dict[str, ClientState] = {}
    tables: Tensors = {}
    with open_hdf5(path, TENSORS, hint=HINT) as file:
        for part, names in groupby(sorted(file), key=_part):
            if part == TABLES:
                for name in names:
                    tables[name.removeprefix(f"{TABLES}/")] = _table(
                        file[name],
                        device,
                        store,
                    )
                continue
            tensors = {name.removeprefix(f"{part}/"): _placed(file[name], device) for name in names}
            parts[part] = tensors
            if store and part.startswith("clients/"):
                parts[part] = store.write(tensors)
    best = None
    if "best" in parts:
        best = _best(parts.pop("best"), roster)
    state = RunState(int(path.stem), parts.pop("theta")["theta"], best=best)
    state.server.update(tables)
    for part, memory in parts.items():
        if part.startswith("clients/"):
            client = roster[int(part.removeprefix("clients/"))]
            state.clients[client] = memory
        elif part in ("shared", "server"):
            getattr(state, part).update(memory)
        else:
            raise ValueError(f"it holds {next(iter(memory))!r}")
    return state


def _part(name: str) -> str:
    """The owner of a tensor, by its name in a file: one client, or a part of the state."""
    part, _, rest = name.partition("/")
    if part == "clients":
        row = rest.partition("/")[0]
        return f"clients/{row}"
    return part


def _best(stored: ClientState, roster: list[str]) -> Best:
    tensors = {name: tensor.cpu() for name, tensor in stored.items()}
    best = Best(
        int(tensors.pop("round")),
        float(tensors.pop("score")),
        tensors.pop("theta"),
    )
    for name, tensor in tensors.items():
        _, row, key = name.split("/", 2)
        client = roster[int(row)]
        best.clients.setdefault(client, {})[key] = tensor
    return best


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write tensors by name to HDF5: temporary name, fsync, rename."""
    _write(path, size(tensors), tensors.items())


def _write(
    path: Path,
    size: int,
    tensors: Iterable[tuple[str, Tensor]],
    device: torch.device = CPU,
) -> None:
    """Write a state; its tensors that lie on the host are marked where its device is another."""
    with replace_hdf5(path, size) as file:
        for name, tensor in tensors:
            if isinstance(tensor, RowTable):
                _write_table(file, name, tensor)
                continue
            file[name] = tensor.detach().cpu().numpy()
            if device.type != "cpu" and tensor.device.type == "cpu":
                file[name].attrs[HOST] = True


def _write_table(file: Any, name: str, table: RowTable) -> None:
    """Write a table as a whole one would be, without having it whole in memory."""
    dtype = torch.zeros(0, dtype=table.dtype).numpy().dtype
    data = file.create_dataset(name, table.shape, dtype)
    rows = table.shape[0]
    step = max(1, BLOCK * rows // max(table.nbytes, 1))
    for start in range(0, rows, step):
        end = start + step
        data[start:end] = table.whole(start, end).cpu().numpy()


def _table(data: Any, device: str, store: ClientStateStore | None) -> Any:
    """A table by rows, which stay on disk where it is large."""
    dtype = torch.from_numpy(np.zeros(0, data.dtype)).dtype
    table = RowTable(data.shape, dtype, torch.device(device))
    rows: dict[int, ClientState] = {}
    for row in range(len(data)):
        values = torch.from_numpy(data[row]).to(device)
        if values.any():
            rows[row] = store.write({ROW: values}) if store else {ROW: values}
    return replace(table, rows=rows)


def read_tensors(path: Path, device: str = "cpu") -> Tensors:
    """Every dataset of an HDF5 file as a tensor. Raises FedcliError if it is damaged."""
    with open_hdf5(path, TENSORS, hint=HINT) as file:
        return {name: _tensor(data, device) for name, data in sorted(file.items())}


def _placed(data: Any, device: str) -> Tensor:
    """A tensor on the device it had when it was written.

    The arithmetic of a rule that keeps it on the host, and so its bits, are the CPU's.
    """
    return _tensor(data, "cpu" if HOST in data.attrs else device)


def _tensor(data: Any, device: str) -> Tensor:
    values = np.asarray(data[()])
    return torch.from_numpy(values).to(device)
