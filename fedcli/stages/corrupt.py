"""The corrupt stage."""

from dataclasses import replace
from pathlib import Path

from ..data import label_noise
from ..data.corrupt import Who, full_kind, make_corruption
from ..data.manifest import Destination
from ..errors import UsageError
from .call import called_with, path_of, source
from .options import CorruptOptions
from .results import Corruption, Partition


def run(options: CorruptOptions) -> Corruption | Partition:
    """Corrupt the images of some clients and a copy of the whole test set; with "labels", change training labels of
    some clients, which makes a partition.

    Raises FedcliError, UsageError.
    """
    if options.client and options.partition is None and options.kind and Path(options.kind).exists():
        options = replace(options, kind=None, partition=options.kind)  # typed first, as there is no kind before it
    if options.kind == label_noise.WORD:
        return Partition(_labels(options))
    for flag, value in (("--kind", options.noise), ("--rate", options.rate), ("--flip", options.flip)):
        if value:
            raise UsageError(f"{flag} is for labels", "fedcli corrupt labels --kind symmetric --rate 0.2")
    if options.kind is not None:
        full_kind(options.kind)  # a word that is no kind is refused before a partition is looked for
    kinds = ("partition",) if options.partition is None else ("partition", "corruption")
    partition = source(options.partition, options.work, *kinds)
    always = () if options.kind is None else ("severity",) if options.on else ("severity", "ratio")
    to = Destination(Path(options.work), path_of(options.out), options.made_by(always))
    who = Who(options.ratio, options.on, options.client)
    how = {name: getattr(options, name) for name in ("severity", "seed", "jobs")}
    return Corruption(make_corruption(partition, options.kind, to, who, **how))


def _labels(options: CorruptOptions) -> Path:
    """Noisy labels: the clients that --ratio or --on choose, or, where there is only --client, those alone."""
    if options.severity != 3:
        raise UsageError("--severity is for images", "--rate says how many labels are changed")
    flips = label_noise.Flips(
        options.noise or "symmetric",
        0.2 if options.rate is None else options.rate,
        {key: str(value) for key, value in options.flip.items()},
    )
    alone = bool(options.client) and not options.on and options.noise is None and options.rate is None
    to = Destination(
        Path(options.work), path_of(options.out), options.made_by(() if alone or options.on else ("ratio",))
    )
    who = Who(options.ratio, options.on, options.client)
    partition = source(options.partition, options.work, "partition")
    return label_noise.make_label_noise(partition, flips, to, who, given=not alone, seed=options.seed)


corrupt = called_with("corrupt", CorruptOptions, run)
