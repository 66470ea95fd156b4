"""The partition stage."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import console
from ..data import manifest
from ..data.partition import make_partition, scheme_from_flags
from ..data.partition.held_out import Leaving
from ..data.pool import TRAIN, pool_of
from .call import called_with, path_of, source
from .options import PartitionOptions
from .results import Partition

# flags that are about no scheme
UNDECIDED = "dataset", "hold_out", "without", "minimum", "val", "seed", "materialize", "work", "out"


def run(options: PartitionOptions) -> Partition:
    """Divide a dataset's training images among clients; only row numbers are written.

    Without a scheme the dataset's own sites are the clients if it has them, else it is dirichlet=1 over its usual
    number of clients. Raises FedcliError, UsageError.
    """
    dataset = source(options.dataset, options.work, "dataset")
    options = replace(options, dataset=dataset)
    if not [flag for flag in options.changed() if flag.name not in UNDECIDED]:
        options = by_default(options)
    given = manifest.read(dataset, "dataset").body
    flags = {field.name: getattr(options, field.name) for field in options.declared() if field.name not in UNDECIDED}
    scheme = scheme_from_flags(flags, given)
    file = scheme.code.name if scheme.code and scheme.code.path else ""
    recorded = replace(options, scheme=f"{file}:{scheme.name}") if file else options  # without the file's place
    to = manifest.Destination(Path(options.work), path_of(options.out), recorded.made_by())
    stage = {name: getattr(options, name) for name in ("val", "minimum", "seed", "materialize")}
    leaving = Leaving(options.hold_out, options.without)
    return Partition(make_partition(dataset, scheme, to, **stage, leaving=leaving))


partition = called_with("partition", PartitionOptions, run)


def by_default(
    options: PartitionOptions, *, clients: int | None = None, alpha: float | None = None
) -> PartitionOptions:
    """The same by the dataset's own sites if it has them, else by Dirichlet; said in a line."""
    body = manifest.read(Path(options.dataset or ""), "dataset").body
    if body["sites"] and clients is None and alpha is None:
        console.say(f"partition: the sites in {body['sites']!r}")
        return replace(options, by=[body["sites"]])
    alpha = 1.0 if alpha is None else alpha
    options = replace(options, dirichlet=alpha, clients=clients or body["clients"])
    if clients is None:
        options = _fitting(options, body)
    console.say(f"partition: {console.counted(options.clients or 0, 'client', 'clients')}, Dirichlet({alpha:g})")
    return options


def _fitting(options: PartitionOptions, body: dict[str, Any]) -> PartitionOptions:
    """The same with fewer clients where some of the usual number would get no image, which is said."""
    usual = options.clients or 1
    pool = pool_of(Path(options.dataset or ""))
    for clients in range(min(usual, int((pool.split == TRAIN).sum())), 1, -1):
        flags = {"dirichlet": options.dirichlet, "clients": clients, "keep_units": options.keep_units}
        division = scheme_from_flags(flags, body).divide(pool, body, options.seed, options.minimum)
        if min(len(part) for part in division.train.values()) >= max(1, options.minimum):
            break
    else:
        clients = 1
    if clients < usual:
        few = console.counted(int((pool.split == TRAIN).sum()), "training image", "training images")
        console.say(f"{clients} clients, not {usual}: {few} are too few for more.")
    return replace(options, clients=clients)


def for_training(data: Path, work: Path) -> Path:
    """A partition or corruption as it is; a dataset is partitioned by default first. Raises FedcliError."""
    if manifest.read(data).kind != "dataset":
        return data
    return run(PartitionOptions(data, work=work)).path
