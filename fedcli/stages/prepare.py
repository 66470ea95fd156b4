"""The prepare stage."""

from dataclasses import replace
from typing import Any

from ..data import shared_patients, sources
from ..data.corruption.kinds import full_kind
from ..data.partition import client_names
from ..data.preparation import raw_folder
from ..data.preparation.prepare import prepare as prepare_dataset
from ..data.prepare_options import PrepareOptions
from ..errors import UsageError, nearest
from . import corrupt as corruption
from . import partition as division
from .call import called_with
from .options import CorruptOptions, PartitionOptions
from .results import Corruption, Dataset, Partition

WHOLE = "unit", "lesion", "patient"  # splits that keep the images of a patient or lesion together


def run(options: PrepareOptions) -> Dataset | Partition | Corruption:
    """Decode and resize a dataset once; with clients or dirichlet also partition it, with corrupt
    also corrupt it.

    Returns the last thing made. Raises FedcliError, UsageError.
    """
    options = replace(options, name=sources.named(options.name))
    of_corruption = options.given("corruption")
    if options.corrupt is not None:
        _check_corruption(options, options.corrupt)
    elif of_corruption:
        raise UsageError(
            f"--{next(iter(of_corruption))} is about a corruption", "add --corrupt KIND"
        )
    dataset = Dataset(prepare_dataset(raw_folder.with_raw_folder(options)))
    remedy = _remedy(options.name)
    if not (options.clients or options.dirichlet is not None or options.corrupt):
        shared_patients.warn(dataset.path, remedy)
        return dataset
    common: dict[str, Any] = {"seed": options.seed, "work": options.work}
    division_options = PartitionOptions(
        dataset,
        clients=options.clients,
        dirichlet=options.dirichlet,
        val=options.val,
        **common,
    )
    partition = division.divided(division.by_default(division_options))
    shared_patients.warn(partition.path, remedy)
    if options.corrupt is None:
        return partition
    return corruption.run(
        CorruptOptions(partition, options.corrupt, jobs=options.jobs, **common, **of_corruption)
    )


prepare = called_with("prepare", PrepareOptions, run)


def _remedy(name: str) -> str:
    """The option that keeps the patients of a dataset together, as the end of a sentence; "" where
    it has none.
    """
    splits = sources.find(name).card["splits"]
    for word in WHOLE:
        if word in splits:
            return f"; --split {word} keeps them together"
    return ""


def _check_corruption(options: PrepareOptions, kind: str) -> None:
    """Refuse a corruption that cannot be, before anything of the dataset is read.

    Raises UsageError.
    """
    full_kind(kind)
    card = sources.card(options.name)
    clients = client_names(options.clients or card["clients"])
    if options.clients is None and options.dirichlet is None:
        if not card["attributes"]:  # its sites come from its files
            return
        clients = [*card["attributes"].get(card["sites"], []), *clients]
    for client in options.on:
        if client not in clients:
            sentence = f"the partition will have no client {client!r}"
            raise UsageError(sentence, nearest(client, clients))
