"""The corrupt stage."""

from dataclasses import replace
from pathlib import Path

from ..data.corrupt import Who, full_kind, make_corruption
from ..data.manifest import Destination
from .call import called_with, path_of, source
from .options import CorruptOptions
from .results import Corruption


def run(options: CorruptOptions) -> Corruption:
    """Corrupt the images of some clients and a copy of the whole test set. Raises FedcliError, UsageError."""
    if options.client and options.partition is None and options.kind and Path(options.kind).exists():
        options = replace(options, kind=None, partition=options.kind)  # typed first, as there is no kind before it
    if options.kind is not None:
        full_kind(options.kind)  # a word that is no kind is refused before a partition is looked for
    kinds = ("partition",) if options.partition is None else ("partition", "corruption")
    partition = source(options.partition, options.work, *kinds)
    always = () if options.kind is None else ("severity",) if options.on else ("severity", "ratio")
    to = Destination(Path(options.work), path_of(options.out), options.made_by(always))
    who = Who(options.ratio, options.on, options.client)
    how = {name: getattr(options, name) for name in ("severity", "seed", "jobs")}
    return Corruption(make_corruption(partition, options.kind, to, who, **how))


corrupt = called_with("corrupt", CorruptOptions, run)
