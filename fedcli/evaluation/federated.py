"""Scores of a run whose test images are at its sites: from tallies that each site sends, and that can be added.

The scores.json is as that of evaluate(), of the clean test images that are some client's own; without what needs single
images, such as intervals. AUCs and calibration errors are those of chances in steps of 1/2048, see tallies.py.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import console
from ..data import manifest, synthetic
from ..errors import FedcliError, UsageError, nearest
from ..methods.mixins import views_of
from ..methods.registry import resolve
from ..tallies import FINE, Tally
from .evaluate import COPIED, UNCOPIED
from .groups import together
from .parts import GroupScores, Score
from .rounds import among, summary, summary_of_groups
from .schema import decode
from .scores import Client, Scores, Stage, Traffic

ALL = "all"
Tallies = Mapping[str, Tally]  # ALL, or "attribute/place of the value" -> the tally
Asked = Callable[[int], tuple[Mapping[str, Tallies], int]]  # round -> each client's, and how many images it leaves out
DATA = "corruption", "partition", "sites"


def evaluate(run_path: Path, ask: Asked, *, rounds: list[int], by: list[str], out: Path | None) -> Path:
    """Score a run and return the path of scores.json.

    ask: for the tallies of a kept round's model. rounds: those to be scored, rising. by: attributes; none for all.
    Raises FedcliError, UsageError, HashError.
    """
    path = manifest.find(run_path, "run")
    manifest.verify(path, "run")
    body = manifest.read(manifest.parent(path, *DATA) or path).body
    if odd := [name for name in by if name not in body["attributes"]]:
        raise UsageError(f"{body['dataset']} has no attribute {odd[0]!r}", nearest(odd[0], body["attributes"]))
    attributes = {name: values for name, values in body["attributes"].items() if name in by or not by}
    options = {"by": list(attributes), "federated": True, "rounds": rounds}
    folder = out or path.parent / "scores" / manifest.identity(options, [path])
    build = partial(_build, path, ask, body["classes"], attributes, rounds)
    return manifest.stage("scores", folder=folder, made_by=["evaluate"], options=options, parents=[path], build=build)


def _build(
    path: Path, ask: Asked, classes: list[str], attributes: dict[str, list[str]], rounds: list[int], folder: Path
) -> dict[str, Any]:
    answers = [ask(round) for round in rounds]
    each = [sites for sites, _ in answers]
    whole = [_added(list(sites.values())) for sites in each]
    if not whole[-1][ALL].images:
        raise FedcliError("the sites have no test images that they may speak of", "see smallest_cell in their policies")
    clients = {client: _client([sites[client] for sites in each], classes, attributes) for client in each[-1]}
    source = manifest.read(path)
    personal = source.body["model"]["personal_models"] or source.options.get("bn") == "local"
    warning = _warning(source.body.get("warning", ""), answers, whole, personal)
    scores = Scores(
        **_about(path, source, rounds, attributes, warning),
        versions={"clean": summary([_score(tallies[ALL]) for tallies in whole])},
        groups={
            name: {"clean": summary_of_groups([_grouped(tallies, name, values, classes) for tallies in whole])}
            for name, values in attributes.items()
        },
        clients=clients,
        among_clients=among(clients, personal=personal),
        classes=classes,
    )
    return synthetic.marked(scores.body(), [path])


def _added(sites: list[Tallies]) -> dict[str, Tally]:
    """The tallies of all sites together."""
    out = dict(sites[0])
    for tallies in sites[1:]:
        out = {key: tally + tallies[key] for key, tally in out.items()}
    return out


def _score(tally: Tally) -> Score:
    return decode(Score, tally.score())


def _grouped(tallies: Tallies, name: str, values: list[str], classes: list[str]) -> GroupScores:
    of_value = {value: tallies[f"{name}/{g}"] for g, value in enumerate(values)}
    tables = np.stack([tally.table for tally in of_value.values()])  # [G, C, C]
    overall, scores = tallies[ALL], {value: _score(tally) for value, tally in of_value.items()}
    unknown = overall.images - int(tables.sum())  # of no group, or of one too small to be shown
    return together(_score(overall), scores, tables, unknown, classes)


def _client(rounds: list[Tallies], classes: list[str], attributes: dict[str, list[str]]) -> Client:
    scores = summary([_score(tallies[ALL]) for tallies in rounds])
    groups = {
        name: summary_of_groups([_grouped(tallies, name, values, classes) for tallies in rounds])
        for name, values in attributes.items()
    }
    return Client(
        version="clean", part="own", count=scores.count, classes_missing=scores.classes_missing,
        metrics=scores.metrics, groups=groups,
    )  # fmt: skip


def _warning(
    warning: str, answers: list[tuple[Mapping[str, Tallies], int]], whole: list[dict[str, Tally]], personal: bool
) -> str:
    """What a reader must know: images that are left out, and areas that bins do not resolve."""
    left_out, resolution = answers[-1][1], max(tallies[ALL].resolution() for tallies in whole)
    if left_out:
        warning = f"{warning}; {left_out} test images of classes that few others have are left out by their sites"
    if personal:
        warning = f"{warning}; every client's own model answers, on that client's test images"
    if resolution > 1 / FINE:
        note = f"chances lie so close that areas under curves may be off by {resolution:.2g}"
        console.warn(note)
        warning = f"{warning}; {note}"
    return warning.removeprefix("; ")


def _about(
    path: Path, run: manifest.Manifest, rounds: list[int], attributes: dict[str, list[str]], warning: str
) -> dict[str, Any]:
    """What a report needs to know of the run; its federation stands for a partition of images."""
    source = manifest.parent(path, "partition", "sites")
    stage = source and Stage(manifest.sha256(source), manifest.read(source).options)
    body = run.body
    return {
        **{key: body[key] for key in COPIED}, "warning": warning,
        "options": {key: value for key, value in run.options.items() if key not in UNCOPIED},
        "data": {"dataset": None, "partition": stage, "corruption": None},
        "roster_size": len(body["roster"]), "kept_rounds": rounds, "attributes": attributes,
        "personal_models": body["model"]["personal_models"],
        "view": views_of(resolve(body["method"], body["settings"]).local)[0],
        "bytes": Traffic(**{way: body.get(f"bytes_{way}") for way in ("down", "up")}),
    }  # fmt: skip
