"""All that a run carries from round to round, and its files.

There is no random state in it: see seeds.derive. A state file is written under a temporary name, flushed and renamed,
so the newest one is always complete; the one before it is kept as well.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from ..data.manifest import sync_folder
from ..errors import FedcliError
from ..methods.contract import Tensors

IN_MEMORY = 256_000_000  # bytes; up to this size a state is held in memory twice while it is written


@dataclass(frozen=True)
class Best:
    """The model with the best validation score so far, the first of equals.

    Attributes:
        round: after which it was scored.
        score: on the 0..1 scale.
        theta: [P] the global model as it is scored.
        clients: what each client kept of its own, by client name.
    """

    round: int
    score: float
    theta: Tensor
    clients: dict[str, Tensors] = field(default_factory=dict)


@dataclass(frozen=True)
class RunState:
    """Everything between rounds.

    Attributes:
        round: rounds finished.
        theta: [P] global model.
        shared: written by Local.post_aggregate, broadcast to clients.
        server: written by Aggregator.aggregate.
        clients: written on each client, by client name.
        best: None where clients have no validation part. It is here, and not in a file of its own, so that a
            resume from any state has the best model of that very round.
    """

    round: int
    theta: Tensor
    shared: Tensors = field(default_factory=dict)
    server: Tensors = field(default_factory=dict)
    clients: dict[str, Tensors] = field(default_factory=dict)
    best: Best | None = None


def save(folder: Path, state: RunState, roster: list[str], keep: int = 2) -> None:
    """Write state as folder/<round>.h5 and drop all but the newest `keep`."""
    rows = {client: str(row) for row, client in enumerate(roster)}
    parts = {
        "shared": state.shared,
        "server": state.server,
        **{f"clients/{rows[c]}": m for c, m in state.clients.items()},
    }
    if best := state.best:
        about = {"round": torch.tensor(best.round), "score": torch.tensor(best.score, dtype=torch.float64)}
        parts["best"] = {"theta": best.theta, **about}
        parts |= {f"best/clients/{rows[c]}": m for c, m in best.clients.items()}
    write_tensors(
        folder / f"{state.round:05d}.h5",
        {"theta": state.theta, **{f"{p}/{k}": v for p, t in parts.items() for k, v in t.items()}},
        checked=True,
    )
    for old in saved(folder)[:-keep]:
        old.unlink()


def saved(folder: Path) -> list[Path]:
    """State files, oldest first."""
    return sorted(folder.glob("[0-9]*.h5"))


def restore(path: Path, roster: list[str], device: str) -> RunState:
    """Read a state file. Raises FedcliError if it is damaged."""
    tensors = read_tensors(path, device)
    if "theta" not in tensors:
        raise FedcliError(f"{path} holds no theta", "remove it; --resume then uses the state before it")
    best = {k.removeprefix("best/"): tensors.pop(k).cpu() for k in list(tensors) if k.startswith("best/")}
    state = RunState(int(path.stem), tensors.pop("theta"), best=_best(best, roster) if best else None)
    for name, tensor in tensors.items():
        part, _, rest = name.partition("/")
        if part == "clients":
            row, _, rest = rest.partition("/")
            state.clients.setdefault(roster[int(row)], {})[rest] = tensor
            continue
        if part not in ("shared", "server"):
            raise FedcliError(
                f"{path} is damaged: it holds {name!r}", "remove it; --resume then uses the state before it"
            )
        getattr(state, part)[rest] = tensor
    return state


def _best(tensors: Tensors, roster: list[str]) -> Best:
    best = Best(int(tensors.pop("round")), float(tensors.pop("score")), tensors.pop("theta"))
    for name, tensor in tensors.items():
        _, row, key = name.split("/", 2)
        best.clients.setdefault(roster[int(row)], {})[key] = tensor
    return best


def write_tensors(path: Path, tensors: Tensors, checked: bool = False) -> None:
    """Write tensors to HDF5: temporary name, fsync, rename. `checked` adds checksums, for what no manifest hashes."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        with temporary.open("wb") as file:
            if size > IN_MEMORY:
                _reserve(file.fileno(), size)
                _fill(temporary, tensors, checked)
            else:
                file.write(_fill(temporary, tensors, checked, driver="core", backing_store=False))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _fill(path: Path, tensors: Tensors, checked: bool, **driver: Any) -> bytes:
    """Write the datasets; returns the file's bytes where the driver keeps them in memory.

    HDF5 ends the whole process where a disk is full, Python does not: so what is small is written by Python.
    """
    with h5py.File(path, "w", **driver) as file:
        for name, tensor in tensors.items():
            values = tensor.detach().cpu().numpy()
            file.create_dataset(name, data=values, **({"fletcher32": True} if checked and values.size > 1 else {}))
        file.flush()
        return file.id.get_file_image() if driver else b""


def _reserve(handle: int, size: int) -> None:
    """Raise OSError now if the disk has no room, and not while HDF5 writes."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        os.ftruncate(handle, 0)


def read_tensors(path: Path, device: str = "cpu") -> Tensors:
    """Every dataset of an HDF5 file as a tensor. Raises FedcliError if it is damaged."""
    tensors: Tensors = {}

    def read(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            tensors[name] = torch.from_numpy(np.asarray(item[()])).to(device)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(read)
    except (OSError, RuntimeError, KeyError, ValueError) as error:  # what h5py raises varies with the damaged byte
        raise FedcliError(f"{path} is damaged: {error}", "remove it; --resume then uses the state before it") from None
    return tensors
