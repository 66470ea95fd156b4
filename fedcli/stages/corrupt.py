"""The corrupt stage."""

from pathlib import Path

from ..data.corrupt import full_kind, make_corruption
from ..data.manifest import Destination
from .call import called_with, path_of, source
from .options import CorruptOptions
from .results import Corruption


def run(options: CorruptOptions) -> Corruption:
    """Corrupt the images of some clients and a copy of the whole test set. Raises FedcliError, UsageError."""
    full_kind(options.kind)  # a word that is no kind is refused before a partition is looked for
    partition = source(options.partition, options.work, "partition")
    always = ("severity",) if options.on else ("severity", "ratio")
    to = Destination(Path(options.work), path_of(options.out), options.made_by(always))
    how = {name: getattr(options, name) for name in ("severity", "ratio", "on", "seed", "jobs")}
    return Corruption(make_corruption(partition, options.kind, to, **how))


corrupt = called_with("corrupt", CorruptOptions, run)
