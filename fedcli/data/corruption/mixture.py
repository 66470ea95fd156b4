"""Kinds and severities of corruption: one for a share of the clients, or another one for each client."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import FedcliError, UsageError, nearest
from ...seeds import derive
from .. import manifest

MIXED = "mixed"  # the kind of a corruption whose clients do not all have the same one
How = tuple[str, int]  # kind and severity
Each = dict[str, How]  # by client, in roster order


def partition_of(source: Path, change: str, changed: str) -> tuple[Path, manifest.Manifest]:
    """A verified partition and its path, for a change in words. Raises FedcliError for a corruption."""
    source = manifest.find(source, "partition", "corruption")
    given = manifest.verify(source, "partition", "corruption")
    if given.kind == "corruption":
        hint = f"{change} of {manifest.above(source, 'partition')}, then corrupt its images"
        raise FedcliError(f"{source} holds corrupted images, and {changed} before images are", hint)
    return source, given


def clients_of(body: Mapping[str, Any], asked: Iterable[str] = ()) -> list[str]:
    """The clients of a partition, in roster order. Raises UsageError where one that is asked for is not among them."""
    roster = [client["client"] for client in body["roster"]]
    for name in asked:
        if name not in roster:
            raise UsageError(f"the partition has no client {name!r}", nearest(name, roster))
    return roster


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
        {"kind": kind, "severity": severity, "clients": [c for c, how in each.items() if how == (kind, severity)]}
        for kind, severity in hows
    ]
    return dict(kind=MIXED, severity=max(severity for _, severity in hows), clients=list(each), each=parts)


def spoken(body: Mapping[str, Any]) -> str:
    """The kinds and severities in words."""
    hows = dict.fromkeys(of_body(body).values()) or {(body["kind"], body["severity"]): None}
    return " or ".join(f"{kind.replace('-', ' ')} of severity {severity}" for kind, severity in hows)


def named(
    texts: Sequence[str], body: Mapping[str, Any], *, default: str = "3", example: str = "north=gaussian:3"
) -> dict[str, tuple[str, str]]:
    """client -> (kind, severity or rate as typed), of "NAME=KIND:SEVERITY". Raises UsageError.

    default: of a severity, or rate, that is not given.
    """
    wanted: dict[str, tuple[str, str]] = {}
    for text in texts:
        client, equals, how = text.rpartition("=")
        kind, _, severity = how.partition(":")
        if not (equals and client and kind):
            what = "SEVERITY" if default == "3" else "RATE"
            raise UsageError(f"--client {text!r} is not NAME=KIND:{what}", f"write --client {example}")
        clients_of(body, [client])
        if client in wanted:
            raise UsageError(f"--client {client} is given twice", "a client has one corruption")
        wanted[client] = kind, severity or default
    return wanted


def train_hows(rows: Mapping[str, np.ndarray], each: Each) -> tuple[np.ndarray, list[How]]:
    """Rising rows of the pool that clients train on or validate with, and how each is corrupted. Raises FedcliError."""
    how_of: dict[int, How] = {}
    for client, how in each.items():
        for row in rows[client].tolist():
            if how_of.setdefault(row, how) != how:
                sentence = (
                    f"an image of client {client} is also another client's, whose images are corrupted differently"
                )
                raise FedcliError(sentence, "give clients that share images the same corruption")
    at = np.array(sorted(how_of), np.int64)
    return at, [how_of[row] for row in at.tolist()]


def test_hows(ids: Sequence[str], each: Each, seed: int) -> list[How]:
    """The corruption of each test image: that of the images of a corrupted client, which its id and the seed draw."""
    hows = list(each.values())
    if len(set(hows)) == 1:
        return [hows[0]] * len(ids)
    return [hows[derive("test corruption", seed, id) % len(hows)] for id in ids]
