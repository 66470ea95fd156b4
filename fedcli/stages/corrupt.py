"""The corrupt stage, and that of attacks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .. import console
from ..data import last_used, manifest
from ..data.corruption import attack as attacks
from ..data.corruption import hidden_attributes, label_noise
from ..data.corruption.corrupt import make_corruption
from ..data.corruption.kinds import full_kind
from ..data.corruption.mixture import Who
from ..errors import UsageError, nearest
from ..runs import recorded_code
from .call import called_with, destination, source
from .options import AttackOptions, CorruptOptions
from .results import Corruption, Partition

IMAGES = "images"
LABELS = label_noise.WORD
ATTRIBUTES = hidden_attributes.WORD
ONLY = (  # options that are not for all, what they are for, and what to do elsewhere
    (("noise", "rate", "flip"), (LABELS,), "fedcli corrupt labels --kind symmetric --rate 0.2"),
    (("hide", "share"), (ATTRIBUTES,), "fedcli corrupt attributes --hide sex --share 0.3"),
    (
        ("severity",),
        (IMAGES,),
        "--rate says how many labels are changed, --share how many patients lose an attribute",
    ),
    (("client",), (IMAGES, LABELS), "--share says of how many patients an attribute is hidden"),
    (("match", "quality"), (IMAGES,), "fedcli corrupt --match NAME --on NAME"),
    (
        ("ratio",),
        (IMAGES, LABELS),
        "attributes are hidden at every client, or those --on names",
    ),
)


def run(options: CorruptOptions) -> Corruption | Partition:
    """Corrupt the images of some clients and a copy of the whole test set; with "labels", change
    training labels of some clients, with "attributes" hide groups of patients: both make a
    partition.

    Raises FedcliError, UsageError.
    """
    options = _with_partition_typed_first(options)
    subject = options.kind if options.kind in (LABELS, ATTRIBUTES) else IMAGES
    for names, subjects, hint in ONLY:
        unfitting = options.changed(*names)
        if unfitting and subject not in subjects:
            raise UsageError(f"--{unfitting[0].typed} is for {' and '.join(subjects)}", hint)
    if subject == LABELS:
        return Partition(_labels(options))
    if subject == ATTRIBUTES:
        return Partition(_attributes(options))
    return Corruption(_images(options))


corrupt = called_with("corrupt", CorruptOptions, run)


def _with_partition_typed_first(options: CorruptOptions) -> CorruptOptions:
    """The options; a path in place of a kind is the partition, where no kind comes before it."""
    kind = options.kind
    lacks_kind = bool(options.client or options.match) and options.partition is None
    if lacks_kind and kind and Path(kind).exists():
        return replace(options, kind=None, partition=kind)
    return options


def _images(options: CorruptOptions) -> Path:
    if options.match:
        unfitting = options.changed("kind", "severity", "client")
        if unfitting:
            option = unfitting[0]
            name = "a kind" if option.flag.argument else f"--{option.typed}"
            sentence = f"--match finds the kind and its strength itself, and {name} is given"
            raise UsageError(sentence, "fedcli corrupt --match NAME --on NAME")
    elif options.changed("quality"):
        sentence = "--quality says in what clients are matched, and --match is not given"
        raise UsageError(sentence, "add --match NAME")
    if options.kind is not None:
        full_kind(options.kind)  # refuse a word that is no kind before a partition is looked for
    kinds = ("partition",) if options.partition is None else ("partition", "corruption")
    partition = source(options.partition, options.work, *kinds)
    recorded_code.load_corruptions(manifest.read(partition))
    always = []  # flags that the recorded command says at any rate
    if options.kind is not None:
        always.append("severity")
    if not options.on and (options.kind is not None or options.match):
        always.append("ratio")
    return make_corruption(
        partition,
        options.kind,
        destination(options, always),
        _who(options),
        severity=options.severity,
        seed=options.seed,
        jobs=options.jobs,
        match=(options.match, options.quality) if options.match else None,
    )


def _who(options: CorruptOptions) -> Who:
    return Who(options.ratio, options.on, options.client)


def _labels(options: CorruptOptions) -> Path:
    """Noisy labels: the clients that --ratio or --on choose, or, where there is only --client,
    those alone.
    """
    rate = label_noise.RATE if options.rate is None else options.rate
    is_default = options.noise is None and options.rate is None
    clients_alone = bool(options.client) and not options.on and is_default
    always = () if clients_alone or options.on else ("ratio",)
    return label_noise.make_label_noise(
        _before(options, "label_noise"),
        None if clients_alone else (options.noise or "symmetric", rate),
        _texts(options.flip),
        destination(options, always),
        _who(options),
        seed=options.seed,
    )


def _attributes(options: CorruptOptions) -> Path:
    share = 0.3 if options.share is None else options.share
    partition = _before(options, "hidden_attributes")
    to = destination(options)
    return hidden_attributes.make_hidden(
        partition, options.hide, share, to, options.on, seed=options.seed
    )


def _texts(flip: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in flip.items()}


def _before(options: CorruptOptions | AttackOptions, key: str) -> Path:
    """The partition that is given; without one the newest, or what that was made from by the same
    command: a line that is typed again does nothing twice.

    key: what the command writes into the body of a partition.
    """
    if options.partition is not None:  # a corruption is refused in words
        return source(
            options.partition,
            options.work,
            "partition",
            "corruption",
        )
    newest = last_used.newest(Path(options.work), "partition")
    while key in manifest.read(newest).body:
        earlier = manifest.parent(newest, "partition")
        if earlier is None:
            break
        newest = earlier
    console.say(f"using {newest}")
    return newest


def run_attack(options: AttackOptions) -> Partition:
    """Have clients of a partition attack: poison their training data, or send false updates; makes
    a partition.

    Raises FedcliError, UsageError.
    """
    if options.kind is None:
        hint = f"--kind with one of {', '.join(attacks.KINDS)}"
        raise UsageError("no kind of attack is given", hint)
    if options.kind not in attacks.KINDS:
        raise UsageError(f"unknown attack {options.kind!r}", nearest(options.kind, attacks.KINDS))
    for name, kind in attacks.KINDS.items():
        unfitting = options.changed(*kind.own) if kind.own else []
        if unfitting and options.kind != name:
            raise UsageError(f"--{unfitting[0].typed} is for {name}", f"add --kind {name}")
    partition = _before(options, attacks.KEY)
    classes: list[str] = manifest.read(partition, whole=True).body["classes"]
    target = options.target
    if target is not None and target not in classes:
        raise UsageError(f"--target {target!r} is no class", nearest(target, classes))
    strength = options.strength
    if strength is None:
        strength = attacks.KINDS[options.kind].usual
    attack = attacks.Attack(
        options.kind,
        strength,
        options.seed,
        classes.index(target) if target else 0,
        options.patch,
        _texts(options.flip),
    )
    always = ["kind"] if options.on else ["kind", "clients"]
    to = destination(options, always)
    return Partition(attacks.make_attack(partition, attack, to, options.clients, options.on))


attack = called_with("attack", AttackOptions, run_attack)
