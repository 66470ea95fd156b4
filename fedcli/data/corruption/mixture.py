"""Changes of a partition: the clients whose data are changed, and how, one way for all or another for each."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FedcliError, UsageError, nearest
from ...seeds import derive
from .. import manifest

MIXED = "mixed"  # the kind of a corruption whose clients do not all have the same one
How = tuple[str, Any]  # kind and severity, or rate
Each = dict[str, How]  # by client, in roster order


@dataclass(frozen=True)
class Who:
    """The choice of clients that are corrupted.

    Attributes:
        ratio: share of the clients, in [0, 1]; the last in the roster. Rounded half up, but above 0 at least one.
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
    """A partition made from another one, whose files it takes over; returns the path of its partition.json.

    change: what its options say beside those of the other. write(folder) adds files and returns the manifest's body.
    """
    partition = manifest.read(source)

    def build(folder: Path) -> dict[str, Any]:
        for name in partition.files:
            if "/" not in name:  # files of single sites hold labels and groups
                (folder / name).write_bytes((source.parent / name).read_bytes())
        return write(folder)

    options = {**partition.options, **change, "materialize": False}
    return manifest.make(
        "partition", f"{partition.body['dataset']}-{slug}", to, options, [source], build
    )


def partition_of(source: Path, change: str, changed: str) -> tuple[Path, dict[str, Any]]:
    """A verified partition's path and body, for a change in words. Raises FedcliError for a corruption."""
    source = manifest.find(source, "partition", "corruption")
    given = manifest.verify(source, "partition", "corruption")
    if given.kind == "corruption":
        hint = f"{change} of {manifest.above(source, 'partition')}, then corrupt its images"
        raise FedcliError(f"{source} holds corrupted images, and {changed} before images are", hint)
    return source, given.body


def clients_of(body: Mapping[str, Any], asked: Iterable[str] = ()) -> list[str]:
    """The clients of a partition, in roster order. Raises UsageError where one that is asked for is not among them."""
    roster = [client["client"] for client in body["roster"]]
    for name in asked:
        if name not in roster:
            raise UsageError(f"the partition has no client {name!r}", nearest(name, roster))
    return roster


def chosen(body: Mapping[str, Any], who: Who, taken: Collection[str] = ()) -> list[str]:
    """Names of the clients that a ratio or names choose, in roster order; of those that are taken none.

    Raises UsageError.
    """
    roster = clients_of(body, who.on)
    if known := [name for name in who.on if name in taken]:
        raise UsageError(f"client {known[0]} is corrupted already", "name another client")
    if who.on:
        return [name for name in roster if name in who.on]
    exact = round(who.ratio * len(roster), 9)  # 0.29 * 50 is 14.5, not 14.499999999999998
    number = max(int(exact + 0.5), int(who.ratio > 0))
    free = [name for name in roster if name not in taken]
    if number > len(free):
        raise UsageError(
            f"a ratio of {who.ratio} is {number} more clients, but {len(free)} are clean",
            "lower --ratio",
        )
    return free[len(free) - number :]


def each_client(
    body: Mapping[str, Any],
    who: Who,
    default: How | None,
    read: Callable[[str, str], How],
    before: Mapping[str, How] = {},
    *,
    strength: str = "3",
    example: str = "north=gaussian:3",
) -> Each:
    """The change of each changed client: those before, those named with a way of their own, and, where there is a
    default, those that a ratio or names choose. Raises UsageError.

    read: (kind, strength) as typed -> what they mean. strength: where none is typed.
    """
    own: Each = {}
    for text in who.client:
        client, equals, how = text.rpartition("=")
        kind, _, typed = how.partition(":")
        if not (equals and client and kind):
            what = "SEVERITY" if strength == "3" else "RATE"
            raise UsageError(
                f"--client {text!r} is not NAME=KIND:{what}", f"write --client {example}"
            )
        clients_of(body, [client])
        if client in own:
            raise UsageError(f"--client {client} is given twice", "a client has one corruption")
        if client in before:
            has = "{} {}".format(*before[client])
            raise UsageError(f"client {client} has {has} already", "name another client")
        own[client] = read(kind, typed or strength)
    each = {**before, **own}
    if default is not None:
        each |= dict.fromkeys(chosen(body, who, taken=each), default)
    return {name: each[name] for name in clients_of(body) if name in each}


def of_body(body: Mapping[str, Any]) -> Each:
    """Kind and severity of each client, as the body of a corruption says; {} of a partition."""
    if "kind" not in body:
        return {}
    parts = body.get("each") or [{name: body[name] for name in ("kind", "severity", "clients")}]
    how = {client: (part["kind"], part["severity"]) for part in parts for client in part["clients"]}
    return {client: how[client] for client in body["clients"]}


def described(each: Each) -> dict[str, Any]:
    """Facts in options and body of a corruption: kind, severity, clients; where they differ, those of each kind."""
    hows = list(dict.fromkeys(each.values()))
    if len(hows) == 1:
        return dict(kind=hows[0][0], severity=hows[0][1], clients=list(each))
    parts = [
        {
            "kind": kind,
            "severity": severity,
            "clients": [c for c, how in each.items() if how == (kind, severity)],
        }
        for kind, severity in hows
    ]
    return dict(
        kind=MIXED, severity=max(severity for _, severity in hows), clients=list(each), each=parts
    )


def spoken(body: Mapping[str, Any]) -> str:
    """The kinds and severities in words."""
    hows = dict.fromkeys(of_body(body).values()) or {(body["kind"], body["severity"]): None}
    return " or ".join(
        f"{kind.replace('-', ' ')} of severity {severity}" for kind, severity in hows
    )


def train_hows(rows: Mapping[str, np.ndarray], each: Each) -> tuple[np.ndarray, list[How]]:
    """Rising rows of the pool that clients train on or validate with, and how each is corrupted. Raises FedcliError."""
    how_of: dict[int, How] = {}
    for client, how in each.items():
        for row in rows[client].tolist():
            if how_of.setdefault(row, how) != how:
                sentence = f"an image of client {client} is also another client's, whose images are corrupted differently"
                raise FedcliError(sentence, "give clients that share images the same corruption")
    at = np.array(sorted(how_of), np.int64)
    return at, [how_of[row] for row in at.tolist()]


def test_hows(ids: Sequence[str], each: Each, seed: int) -> list[How]:
    """The corruption of each test image: that of the images of a corrupted client, which its id and the seed draw."""
    hows = list(each.values())
    if len(set(hows)) == 1:
        return [hows[0]] * len(ids)
    return [hows[derive("test corruption", seed, id) % len(hows)] for id in ids]
