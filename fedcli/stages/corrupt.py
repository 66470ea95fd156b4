"""The corrupt stage, and that of attacks."""

from dataclasses import replace
from pathlib import Path

from .. import console
from ..data import last_used, manifest
from ..data.corruption import attack as attacks
from ..data.corruption import hidden_attributes, label_noise
from ..data.corruption.corrupt import full_kind, make_corruption
from ..data.corruption.mixture import Who
from ..data.manifest import Destination
from ..errors import UsageError, nearest
from ..options import path_of
from .call import called_with, source
from .options import AttackOptions, CorruptOptions
from .results import Corruption, Partition

ONLY = (  # options that are not for all, what they are for, and what to do elsewhere
    (("noise", "rate", "flip"), ("labels",), "fedcli corrupt labels --kind symmetric --rate 0.2"),
    (("hide", "share"), ("attributes",), "fedcli corrupt attributes --hide sex --share 0.3"),
    (
        ("severity",),
        ("images",),
        "--rate says how many labels are changed, --share how many patients lose an attribute",
    ),
    (("client",), ("images", "labels"), "--share says of how many patients an attribute is hidden"),
    (("match",), ("images",), "fedcli corrupt --match NAME --on NAME"),
    (
        ("ratio",),
        ("images", "labels"),
        "attributes are hidden at every client, or those --on names",
    ),
)


def run(options: CorruptOptions) -> Corruption | Partition:
    """Corrupt the images of some clients and a copy of the whole test set; with "labels", change training labels of
    some clients, with "attributes" hide groups of patients: both make a partition.

    Raises FedcliError, UsageError.
    """
    if (
        (options.client or options.match)
        and options.partition is None
        and options.kind
        and Path(options.kind).exists()
    ):
        options = replace(
            options, kind=None, partition=options.kind
        )  # typed first, as there is no kind before it
    what = options.kind if options.kind in (label_noise.WORD, hidden_attributes.WORD) else "images"
    for names, kinds, hint in ONLY:
        if what not in kinds and (given := options.changed(*names)):
            raise UsageError(f"--{given[0].typed} is for {' and '.join(kinds)}", hint)
    if what == label_noise.WORD:
        return Partition(_labels(options))
    if what == hidden_attributes.WORD:
        return Partition(_attributes(options))
    if options.match and (given := options.changed("kind", "severity", "client")):
        what = f"--match finds the kind and strength of noise itself, and {given[0].typed} is given"
        raise UsageError(what, "fedcli corrupt --match NAME --on NAME")
    if options.kind is not None:
        full_kind(
            options.kind
        )  # a word that is no kind is refused before a partition is looked for
    kinds = ("partition",) if options.partition is None else ("partition", "corruption")
    partition = source(options.partition, options.work, *kinds)
    always = () if options.kind is None else ("severity",) if options.on else ("severity", "ratio")
    always = ("ratio",) if options.match and not options.on else always
    to, who = _to(options, always), Who(options.ratio, options.on, options.client)
    how = {name: getattr(options, name) for name in ("severity", "seed", "jobs", "match")}
    return Corruption(make_corruption(partition, options.kind, to, who, **how))


def _to(options: CorruptOptions | AttackOptions, always: tuple[str, ...] = ()) -> Destination:
    """Where it is written, and the command that the manifest records; always: flags that it says at any rate."""
    return Destination(Path(options.work), path_of(options.out), options.made_by(always))


def _attributes(options: CorruptOptions) -> Path:
    partition = _before(options, "hidden_attributes")
    share = 0.3 if options.share is None else options.share
    return hidden_attributes.make_hidden(
        partition, options.hide, share, _to(options), options.on, seed=options.seed
    )


def _before(options: CorruptOptions | AttackOptions, made: str) -> Path:
    """The partition that is given; without one the newest, or what that was made from by the same command: a line that
    is typed again does nothing twice."""
    if options.partition is not None:
        return source(
            options.partition, options.work, "partition", "corruption"
        )  # the second is refused in words
    newest = last_used.newest(Path(options.work), "partition")
    while made in manifest.read(newest).body and (earlier := manifest.parent(newest, "partition")):
        newest = earlier
    console.say(f"using {newest}")
    return newest


def _labels(options: CorruptOptions) -> Path:
    """Noisy labels: the clients that --ratio or --on choose, or, where there is only --client, those alone."""
    how = options.noise or "symmetric", label_noise.RATE if options.rate is None else options.rate
    flip = {key: str(value) for key, value in options.flip.items()}
    alone = (
        bool(options.client) and not options.on and options.noise is None and options.rate is None
    )
    to, who = (
        _to(options, () if alone or options.on else ("ratio",)),
        Who(options.ratio, options.on, options.client),
    )
    partition = _before(options, "label_noise")
    return label_noise.make_label_noise(
        partition, None if alone else how, flip, to, who, seed=options.seed
    )


def run_attack(options: AttackOptions) -> Partition:
    """Have clients of a partition attack: poison their training data, or send false updates; makes a partition.

    Raises FedcliError, UsageError.
    """
    if options.kind is None:
        raise UsageError(
            "no kind of attack is given", f"--kind with one of {', '.join(attacks.KINDS)}"
        )
    if options.kind not in attacks.KINDS:
        raise UsageError(f"unknown attack {options.kind!r}", nearest(options.kind, attacks.KINDS))
    for kind, how in attacks.KINDS.items():
        if options.kind != kind and how.own and (given := options.changed(*how.own)):
            raise UsageError(f"--{given[0].typed} is for {kind}", f"add --kind {kind}")
    partition = _before(options, attacks.KEY)
    body = manifest.read(partition, whole=True).body
    if options.target is not None and options.target not in body["classes"]:
        raise UsageError(
            f"--target {options.target!r} is no class", nearest(options.target, body["classes"])
        )
    strength = attacks.KINDS[options.kind].usual if options.strength is None else options.strength
    attack = attacks.Attack(
        options.kind,
        strength,
        options.seed,
        body["classes"].index(options.target) if options.target else 0,
        options.patch,
        {key: str(value) for key, value in options.flip.items()},
    )
    to = _to(options, ("kind",) if options.on else ("kind", "clients"))
    return Partition(attacks.make_attack(partition, attack, to, options.clients, options.on))


attack = called_with("attack", AttackOptions, run_attack)
corrupt = called_with("corrupt", CorruptOptions, run)
