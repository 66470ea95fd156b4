"""Changes of a partition: the clients whose data are changed, and how, one way for all or another
for each."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FedcliError, UsageError, nearest
from ...seeds import derive
from .. import manifest
from ..manifest import Body
from .kinds import in_words

MIXED = "mixed"  # the kind of a corruption whose clients do not all have the same one
How = tuple[str, Any]  # kind and severity, or rate
HowByClient = dict[str, How]  # in roster order


@dataclass(frozen=True)
class Who:
    """The choice of clients that are corrupted.

    Attributes:
        ratio: share of the clients, in [0, 1]; the last in the roster. Rounded half up, but above 0
            at least one.
        on: names of the clients, instead of a ratio.
        client: "NAME=KIND:SEVERITY", each for one client.
    """

    ratio: float = 0.2
    on: Sequence[str] = ()
    client: Sequence[str] = ()


def make_changed(
    source: Path,
    slug: str,
    change: Mapping[str, Any],
    to: manifest.Destination,
    write: manifest.Build,
) -> Path:
    """A partition made from another one, whose files it takes over; returns the path of its
    partition.json.

    change: the options that differ from those of the other. write(folder) adds files and returns
        the manifest's body.
    """
    partition = manifest.read(source)

    def build(folder: Path) -> Body:
        for name in partition.files:
            if "/" not in name:  # files of single sites hold labels and groups
                content = (source.parent / name).read_bytes()
                (folder / name).write_bytes(content)
        return write(folder)

    options = {**partition.options, **change, "materialize": False}
    slug = f"{partition.body['dataset']}-{slug}"
    return manifest.make("partition", slug, to, options, [source], build)


def partition_of(source: Path, change: str, changed: str) -> tuple[Path, Body]:
    """A verified partition's path and body. Raises FedcliError for a corruption.

    change, changed: the change in words, as "change labels" and "labels are changed".
    """
    source = manifest.find(source, "partition", "corruption")
    verified = manifest.verify(source, "partition", "corruption")
    if verified.kind == "corruption":
        hint = f"{change} of {manifest.above(source, 'partition')}, then corrupt its images"
        raise FedcliError(f"{source} holds corrupted images, and {changed} before images are", hint)
    return source, verified.body


def clients_of(body: Body, requested: Iterable[str] = ()) -> list[str]:
    """The clients of a partition, in roster order. Raises UsageError for a requested one that is
    not among them."""
    roster = [client["client"] for client in body["roster"]]
    for name in requested:
        if name not in roster:
            raise UsageError(f"the partition has no client {name!r}", nearest(name, roster))
    return roster


def chosen(body: Body, who: Who, changed: Collection[str] = ()) -> list[str]:
    """Names of the clients that a ratio or names choose, in roster order; none of those that are
    changed already.

    Raises UsageError.
    """
    roster = clients_of(body, who.on)
    for name in who.on:
        if name in changed:
            raise UsageError(f"client {name} is corrupted already", "name another client")
    if who.on:
        return [name for name in roster if name in who.on]
    exact = round(who.ratio * len(roster), 9)  # 0.29 * 50 is 14.5, not 14.499999999999998
    number = max(int(exact + 0.5), int(who.ratio > 0))
    free = [name for name in roster if name not in changed]
    if number > len(free):
        clients = f"{number} more clients, but {len(free)} are clean"
        raise UsageError(f"a ratio of {who.ratio} is {clients}", "lower --ratio")
    return free[len(free) - number :]


def each_client(
    body: Body,
    who: Who,
    default: How | None,
    read: Callable[[str, str], How],
    before: Mapping[str, How] = {},
    *,
    strength: str = "3",
    example: str = "north=gaussian:3",
) -> HowByClient:
    """The change of each changed client, in roster order. Raises UsageError.

    These are the clients before, those named with a way of their own, and, where there is a
    default, those that a ratio or names choose.

    read: (kind, strength) as typed -> what they mean. strength: where none is typed.
    """
    by_name: HowByClient = {}
    for text in who.client:
        client, equals, how = text.rpartition("=")
        kind, _, typed = how.partition(":")
        if not (equals and client and kind):
            unit = "SEVERITY" if strength == "3" else "RATE"
            sentence = f"--client {text!r} is not NAME=KIND:{unit}"
            raise UsageError(sentence, f"write --client {example}")
        clients_of(body, [client])
        if client in by_name:
            raise UsageError(f"--client {client} is given twice", "a client has one corruption")
        if client in before:
            earlier_kind, earlier_strength = before[client]
            sentence = f"client {client} has {earlier_kind} {earlier_strength} already"
            raise UsageError(sentence, "name another client")
        by_name[client] = read(kind, typed or strength)
    changes = {**before, **by_name}
    if default is not None:
        for client in chosen(body, who, changes):
            changes[client] = default
    return {name: changes[name] for name in clients_of(body) if name in changes}


def of_body(body: Body) -> HowByClient:
    """Kind and severity of each client, as the body of a corruption says; {} of a partition."""
    if "kind" not in body:
        return {}
    hows = {}
    for part in body.get("each") or [body]:
        for client in part["clients"]:
            hows[client] = (part["kind"], part["severity"])
    return {client: hows[client] for client in body["clients"]}


def described(how_by_client: HowByClient) -> Body:
    """Facts in options and body of a corruption: kind, severity, clients; where they differ, those
    of each kind."""
    clients_by_how: dict[How, list[str]] = {}
    for client, how in how_by_client.items():
        clients_by_how.setdefault(how, []).append(client)
    parts = []
    for (kind, severity), clients in clients_by_how.items():
        parts.append({"kind": kind, "severity": severity, "clients": clients})
    if len(parts) == 1:
        return parts[0]
    highest = max(severity for _, severity in clients_by_how)
    return {
        "kind": MIXED,
        "severity": highest,
        "clients": list(how_by_client),
        "each": parts,
    }


def spoken(body: Body) -> str:
    """The kinds and severities in words."""
    hows = list(dict.fromkeys(of_body(body).values()))
    if not hows:
        hows = [(body["kind"], body["severity"])]
    texts = [f"{in_words(kind)} of severity {severity}" for kind, severity in hows]
    return " or ".join(texts)


def train_hows(
    rows: Mapping[str, np.ndarray], how_by_client: HowByClient
) -> tuple[np.ndarray, list[How]]:
    """Rising rows of the pool that clients train on or validate with, and the corruption of each.
    Raises FedcliError."""
    how_by_row: dict[int, How] = {}
    for client, how in how_by_client.items():
        for row in rows[client].tolist():
            if how_by_row.setdefault(row, how) != how:
                other = "also another client's, whose images are corrupted differently"
                hint = "give clients that share images the same corruption"
                raise FedcliError(f"an image of client {client} is {other}", hint)
    changed_rows = sorted(how_by_row)
    return np.array(changed_rows, np.int64), [how_by_row[row] for row in changed_rows]


def test_hows(
    ids: Sequence[str],
    how_by_client: HowByClient,
    seed: int,
) -> list[How]:
    """The corruption of each test image: that of the images of a corrupted client, which its id and
    the seed draw."""
    hows = list(how_by_client.values())
    if len(set(hows)) == 1:
        return [hows[0]] * len(ids)
    return [hows[derive("test corruption", seed, id) % len(hows)] for id in ids]
