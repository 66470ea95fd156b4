"""Clients that a file names: a published or own partition, see clients_file.py."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from ... import console
from ...console import counted
from ...errors import FedcliError, UsageError
from .. import manifest
from ..pool import TEST, TRAIN, Pool
from . import clients_file
from .scheme import Division, Scheme, register


@register("file")
@dataclass(frozen=True, kw_only=True)
class FromFile(Scheme):
    """Clients as a CSV, a JSON or FedISM's .npy says; test images that it names are the clients' own tests."""

    whole: ClassVar[bool] = True
    clients_file: Annotated[Path, "a CSV, {client: [id, ...]} as JSON, or FedISM's .npy"]
    order_file: Annotated[Path | None, "the train.csv whose rows an .npy means; none: training images by class"] = None
    client_column: Annotated[str | None, "of a CSV; none: client, center, site, hospital or node"] = None

    def check(self, dataset: Mapping[str, Any]) -> None:
        name, suffix = self.clients_file.name, self.clients_file.suffix.lower()
        if self.order_file and suffix != ".npy":
            raise UsageError(f"{name} names images, so no order of rows is needed", "leave the order file out")
        if self.client_column and suffix != ".csv":
            raise UsageError(f"{name} has no columns", "leave the client column out")
        for path in (self.clients_file, self.order_file):
            if path and not path.is_file():
                raise FedcliError(f"no such file: {path}", "give the file of clients, and the order file of an .npy")

    def recorded(self, dataset: Mapping[str, Any]) -> dict[str, Any]:
        files = {"clients_file": self.clients_file, "order_file": self.order_file}
        recorded: dict[str, Any] = {} if self.client_column is None else {"client_column": self.client_column}
        for key, path in files.items():
            recorded |= {key: {"name": path.name, "sha256": manifest.sha256(path)}} if path else {}
        return recorded

    def divide(self, pool: Pool, dataset: Mapping[str, Any], seed: int, minimum: int) -> Division:
        training = np.flatnonzero(pool.split == TRAIN)
        training = training[np.argsort(pool.single[training], kind="stable")]  # FedISM's train.csv is sorted by class
        name, is_test = self.clients_file.name, pool.split == TEST
        clients = clients_file.read(
            self.clients_file, pool.id.tolist(), training, column=self.client_column, order=self.order_file
        )
        if clients.unknown:
            unknown = counted(len(clients.unknown), "image", "images")
            console.say(f"{name} names {unknown} that the dataset does not have: {clients.unknown[0]}")
        if clients.absent:
            absent, are = counted(len(clients.absent), "client", "clients"), "is" if len(clients.absent) == 1 else "are"
            console.say(f"{absent} of {name} without an image in the dataset {are} left out: {clients.absent[0]}")
        if given := sum(int(is_test[rows].sum()) for rows in clients.rows):
            images, are = counted(given, "image", "images"), "is a test image" if given == 1 else "are test images"
            console.say(f"{images} that {name} gives to clients {are} here, of their own test parts")
        rows_of = dict(zip(clients.names, clients.rows, strict=True))
        train = {client: rows[~is_test[rows]] for client, rows in rows_of.items()}
        test = {client: rows[is_test[rows]] for client, rows in rows_of.items()}
        return Division(train, test, {"not_in_dataset": len(clients.unknown)})

    def advice(self) -> str:
        return "the dataset, and the split, that the file is about"
