"""All that a run carries from round to round, and its files.

There is no random state in it: see seeds.derive. A state file is written under a temporary name, flushed and renamed,
so the newest one is always complete; the one before it is kept as well.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
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
HINT = "--resume uses the state before it, where there is one"


@dataclass(frozen=True)
class Best:
    """The model with the best validation score so far, the first of equals."""

    round: int  # after which it was scored
    score: float  # on the 0..1 scale
    theta: Tensor  # [P] the global model as it is scored
    clients: dict[str, Tensors] = field(
        default_factory=dict
    )  # what each client kept of its own, by client name


@dataclass(frozen=True)
class RunState:
    """Everything between rounds."""

    round: int  # rounds finished
    theta: Tensor  # [P] global model
    shared: Tensors = field(
        default_factory=dict
    )  # written by Local.post_aggregate, broadcast to clients
    server: Tensors = field(default_factory=dict)  # written by Aggregator.aggregate
    # written on each client, by client name; on disk where they are many
    clients: dict[str, ClientState] = field(default_factory=dict)
    # None where clients have no validation part. It is here, and not in a file of its own, so that a resume from any
    # state has the best model of that very round.
    best: Best | None = None


def equal(made: Tensor | Mapping[str, Any], wanted: Tensor | Mapping[str, Any]) -> bool:
    """Tell whether two tensors, or nests by name, are equal to the bit, on one device; names may be in any order."""
    if isinstance(made, Tensor) and isinstance(wanted, Tensor):
        return (made.dtype, made.device) == (wanted.dtype, wanted.device) and torch.equal(
            made, wanted
        )
    if isinstance(made, Tensor) or isinstance(wanted, Tensor):
        return False
    return made.keys() == wanted.keys() and all(
        equal(made[name], value) for name, value in wanted.items()
    )


def save(folder: Path, state: RunState, roster: list[str], keep: int = 2) -> Path:
    """Write state as folder/<round>.h5, drop all but the newest `keep`, and return its path."""
    rows = {client: str(row) for row, client in enumerate(roster)}
    parts: dict[str, ClientState] = {
        "shared": state.shared,
        "server": {
            name: value for name, value in state.server.items() if not isinstance(value, RowTable)
        },
        TABLES: {
            name: value for name, value in state.server.items() if isinstance(value, RowTable)
        },
        **{f"clients/{rows[c]}": m for c, m in state.clients.items()},
    }
    if best := state.best:
        about = {
            "round": torch.tensor(best.round),
            "score": torch.tensor(best.score, dtype=torch.float64),
        }
        parts["best"] = {"theta": best.theta, **about}
        parts |= {f"best/clients/{rows[c]}": m for c, m in best.clients.items()}
    path = folder / f"{state.round:05d}.h5"
    named = (
        (f"{part}/{name}", kept[name]) for part, kept in parts.items() for name in kept
    )  # one at a time
    theta = {"theta": state.theta}
    _write(
        path,
        sum(map(size, [theta, *parts.values()])),
        chain(theta.items(), named),
        state.theta.device,
    )
    for old in saved(folder)[:-keep]:
        remove(old)
    return path


def remove(path: Path) -> None:
    """Remove a state file, and first what says that it is whole."""
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink()


def saved(folder: Path) -> list[Path]:
    """State files, oldest first."""
    return sorted(path for path in folder.glob("*.h5") if path.stem.isdecimal())


def restore(
    path: Path, roster: list[str], device: str, store: ClientStateStore | None = None
) -> RunState:
    """Read a state file; clients' states stay on disk where they are large. Raises FedcliError if it is damaged."""
    try:
        return _read(
            path, roster, device, store if store and path.stat().st_size > store.in_memory else None
        )
    except (KeyError, ValueError, IndexError) as error:
        raise FedcliError(
            f"{path} is damaged: {error}", "remove it; --resume then uses the state before it"
        ) from None


def _read(path: Path, roster: list[str], device: str, store: ClientStateStore | None) -> RunState:
    parts: dict[str, ClientState] = {}
    tables: Tensors = {}
    with open_hdf5(path, TENSORS, hint=HINT) as file:
        for part, names in groupby(sorted(file), key=_part):
            if part == TABLES:
                tables = {
                    name.removeprefix(f"{TABLES}/"): _table(file[name], device, store)
                    for name in names
                }
                continue
            kept = {name.removeprefix(f"{part}/"): _placed(file[name], device) for name in names}
            parts[part] = store.write(kept) if store and part.startswith("clients/") else kept
    best = {name: tensor.cpu() for name, tensor in parts.pop("best", {}).items()}
    state = RunState(
        int(path.stem), parts.pop("theta")["theta"], best=_best(best, roster) if best else None
    )
    state.server.update(tables)
    for part, tensors in parts.items():
        if part.startswith("clients/"):
            state.clients[roster[int(part.removeprefix("clients/"))]] = tensors
            continue
        if part not in ("shared", "server"):
            raise ValueError(f"it holds {next(iter(tensors))!r}")
        getattr(state, part).update(tensors)
    return state


def _part(name: str) -> str:
    """The owner of a tensor, by its name in a file: one client, or a part of the state."""
    first, _, rest = name.partition("/")
    return f"clients/{rest.partition('/')[0]}" if first == "clients" else first


def _best(tensors: Tensors, roster: list[str]) -> Best:
    best = Best(int(tensors.pop("round")), float(tensors.pop("score")), tensors.pop("theta"))
    for name, tensor in tensors.items():
        _, row, key = name.split("/", 2)
        best.clients.setdefault(roster[int(row)], {})[key] = tensor
    return best


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write tensors by name to HDF5: temporary name, fsync, rename."""
    _write(path, size(tensors), tensors.items())


def _write(
    path: Path, size: int, tensors: Iterable[tuple[str, Tensor]], device: torch.device = CPU
) -> None:
    """device: of the state, of whose tensors those that lie on the host are marked."""
    with replace_hdf5(path, size) as file:
        for name, tensor in tensors:
            if isinstance(tensor, RowTable):
                _write_table(file, name, tensor)
            else:
                file[name] = tensor.detach().cpu().numpy()
                if device.type != "cpu" and tensor.device.type == "cpu":
                    file[name].attrs[HOST] = True


def _write_table(file: Any, name: str, table: RowTable) -> None:
    """As a whole table would be, without having it whole in memory."""
    data = file.create_dataset(name, table.shape, torch.zeros(0, dtype=table.dtype).numpy().dtype)
    step = max(1, BLOCK * table.shape[0] // max(table.nbytes, 1))
    for first in range(0, table.shape[0], step):
        data[first : first + step] = table.whole(first, first + step).cpu().numpy()


def _table(data: Any, device: str, store: ClientStateStore | None) -> Any:
    """A table by rows, which stay on disk where it is large."""
    dtype = torch.from_numpy(np.zeros(0, data.dtype)).dtype
    table = RowTable(data.shape, dtype, torch.device(device))
    rows = ((row, torch.from_numpy(data[row]).to(device)) for row in range(len(data)))
    put = store.write if store else dict
    return replace(table, rows={row: put({ROW: values}) for row, values in rows if values.any()})


def read_tensors(path: Path, device: str = "cpu") -> Tensors:
    """Every dataset of an HDF5 file as a tensor. Raises FedcliError if it is damaged."""
    with open_hdf5(path, TENSORS, hint=HINT) as file:
        return {name: _tensor(data, device) for name, data in sorted(file.items())}


def _placed(data: Any, device: str) -> Tensor:
    """Where it was when it was written: what a rule keeps on the host, its arithmetic and its bits are the CPU's."""
    return _tensor(data, "cpu" if HOST in data.attrs else device)


def _tensor(data: Any, device: str) -> Tensor:
    return torch.from_numpy(np.asarray(data[()])).to(device)
