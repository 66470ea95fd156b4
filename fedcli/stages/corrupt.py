"""The corrupt stage: images, labels, attributes or whole clients."""

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
from .options import CorruptOptions
from .results import Corruption, Partition

IMAGES = "images"
LABELS = label_noise.WORD
ATTRIBUTES = hidden_attributes.WORD
CLIENTS = attacks.WORD
ONLY = (  # options that are not for all, what they are for, and what to do elsewhere
    (("rate",), (LABELS,), "fedcli corrupt labels --kind symmetric --rate 0.2"),
    (
        ("change", "flip"),
        (LABELS, CLIENTS),
        "of images the kind is a word: fedcli corrupt gaussian; of labels: fedcli corrupt labels "
        "--kind symmetric --rate 0.2",
    ),
    (
        ("clients", "strength", "target", "patch"),
        (CLIENTS,),
        "fedcli corrupt clients --kind sign-flip",
    ),
    (("hide", "share"), (ATTRIBUTES,), "fedcli corrupt attributes --hide sex --share 0.3"),
    (
        ("severity",),
        (IMAGES,),
        "--rate sets how many labels are changed, --share how many patients lose an attribute",
    ),
    (("client",), (IMAGES, LABELS), "--share sets for how many patients an attribute is hidden"),
    (("match", "quality"), (IMAGES,), "fedcli corrupt --match NAME --on NAME"),
    (
        ("ratio",),
        (IMAGES, LABELS),
        "--on names the clients; --clients sets how many of them attack",
    ),
)


def run(options: CorruptOptions) -> Corruption | Partition:
    """Corrupt the images of some clients and a copy of the whole test set; with "labels", change
    training labels of some clients, with "attributes" hide groups of patients, with "clients" have
    some of them attack: these make a partition.

    Raises FedcliError, UsageError.
    """
    options = _with_partition_typed_first(options)
    subject = options.kind if options.kind in PARTITIONS else IMAGES
    for names, subjects, hint in ONLY:
        unfitting = options.changed(*names)
        if unfitting and subject not in subjects:
            raise UsageError(f"--{unfitting[0].typed} is for {' and '.join(subjects)}", hint)
    if subject == IMAGES:
        return Corruption(_images(options))
    return Partition(PARTITIONS[subject](options))


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
        sentence = "--quality chooses the measure for --match, which is not given"
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
    is_default = options.change is None and options.rate is None
    clients_alone = bool(options.client) and not options.on and is_default
    always = () if clients_alone or options.on else ("ratio",)
    return label_noise.make_label_noise(
        _before(options, "label_noise"),
        None if clients_alone else (options.change or "symmetric", rate),
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


def _before(options: CorruptOptions, key: str) -> Path:
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


def _clients(options: CorruptOptions) -> Path:
    """Clients of a partition that attack: they poison their training data, or send false updates.

    Raises FedcliError, UsageError.
    """
    if options.change is None:
        hint = f"--kind with one of {', '.join(attacks.KINDS)}"
        raise UsageError("no kind of attack is given", hint)
    if options.change not in attacks.KINDS:
        raise UsageError(
            f"unknown attack {options.change!r}", nearest(options.change, attacks.KINDS)
        )
    for name, kind in attacks.KINDS.items():
        unfitting = options.changed(*kind.own) if kind.own else []
        if unfitting and options.change != name:
            raise UsageError(f"--{unfitting[0].typed} is for {name}", f"add --kind {name}")
    partition = _before(options, attacks.KEY)
    classes: list[str] = manifest.read(partition, whole=True).body["classes"]
    target = options.target
    if target is not None and target not in classes:
        raise UsageError(f"--target {target!r} is no class", nearest(target, classes))
    strength = options.strength
    if strength is None:
        strength = attacks.KINDS[options.change].usual
    attack = attacks.Attack(
        options.change,
        strength,
        options.seed,
        classes.index(target) if target else 0,
        options.patch,
        _texts(options.flip),
    )
    count = options.clients or 1
    to = destination(options)
    return attacks.make_attack(partition, attack, to, count, options.on)


PARTITIONS = {LABELS: _labels, ATTRIBUTES: _attributes, CLIENTS: _clients}
corrupt = called_with("corrupt", CorruptOptions, run)
