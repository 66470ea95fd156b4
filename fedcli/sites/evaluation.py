"""Scores of a run whose test images are at its sites: from tallies that each site sends, and that can be added.

The scores.json is as that of evaluate(), of the test images that are some client's own; without what needs single
images. AUCs and calibration errors are those of chances in steps of 1/2048, see tallies.py. Intervals resample images,
which is exact for counts by true and predicted class, and for two classes also for the bins of a chance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from .. import console
from ..data import manifest
from ..errors import FedcliError, UsageError, nearest
from ..federation.state import read_tensors
from ..io.hdf5 import create_hdf5
from ..methods.registry import resolve
from ..metrics.parity import parity, undefined_rates
from ..models.layout import Layout
from ..options import path_of
from ..runs.assembly import assemble, open_parent
from ..runs.chosen_engine import opened
from ..runs.finished import model_file
from ..runs.resources import be_deterministic
from ..runs.rules import check
from ..runs.train import begun
from ..scores import predictions
from ..scores.evaluate import about
from ..scores.evaluation_options import EvaluateOptions
from ..scores.facts import of_model, over_rounds
from ..scores.groups import Patients
from ..scores.parts import Client, Curve, Curves, Grouped, ReliabilityBin, RocPoint
from ..scores.scores import Scores
from ..scores.statistics.intervals import Answered
from ..scores.table import Table, Where
from .tallies import ALL, CLEAN, CORRUPTED, FINE, RATES, Answer, Tallies, Tally

Made = TypeVar("Made")
DATA = "corruption", "partition", "sites"


def evaluate(run: Path, options: EvaluateOptions) -> Path:
    """Score a run by what its sites answer and return the path of scores.json. Raises FedcliError, UsageError."""
    if given := [
        name
        for name in ("shots", "corrupt", "severity", "export", "metric")
        if getattr(options, name)
    ]:
        raise UsageError(
            f"--{given[0]} needs the test images, which are at their sites",
            f"leave --{given[0]} out",
        )
    path = manifest.find(run, "run")
    body = manifest.verify(path, "run").body
    here = {name: getattr(options, name) for name in ("device", "engine", "timeout")}
    plan = replace(begun(path.parent), **here)
    data = Path(plan.data or "")
    be_deterministic(
        plan.device, plan.threads, plan.precision
    )  # part of what names the run at its sites
    method = check(plan)
    federation = assemble(data, plan, method, open_parent(plan, method))
    kept = sorted(int(file.stem) for file in (path.parent / "models").glob("[0-9]*.h5"))
    personal = body["model"]["personal_models"] or plan.bn == "local"
    rounds = (
        kept[-1:] if personal else kept
    )  # a site keeps what is a client's own for the last rounds only
    of_data = manifest.read(manifest.parent(path, *DATA) or path).body
    known = of_data["attributes"]
    if odd := [name for name in options.by if name not in known]:
        raise UsageError(
            f"{of_data['dataset']} has no attribute {odd[0]!r}", nearest(odd[0], known)
        )
    attributes = {
        name: values for name, values in known.items() if name in options.by or not options.by
    }
    asked = {"by": list(attributes), "federated": True, "rounds": rounds}
    folder = path_of(options.out) or path.parent / "scores" / manifest.identity(asked, [path])
    with opened(federation) as sites:
        ask = sites.tallies  # type: ignore[attr-defined]

        def build(folder: Path) -> dict[str, Any]:
            each = [
                ask(
                    t, _model(model_file(path.parent, t), federation.layout), federation.data.roster
                )
                for t in rounds
            ]
            return _scored(path, _Answers(rounds, each, of_data["classes"], attributes), folder)

        return manifest.stage(
            "scores",
            folder=folder,
            made_by=["evaluate"],
            options=asked,
            parents=[path],
            build=build,
        )


def _model(path: Path, layout: Layout) -> torch.Tensor:
    """The model of a round [P] from its file. Raises FedcliError where it is of another network."""
    tensors = read_tensors(path)
    names = {name: f"model/{name}" for name in layout.shapes}
    if lacking := [
        name
        for name, key in names.items()
        if key not in tensors or tensors[key].shape != layout.shapes[name]
    ]:
        raise FedcliError(f"{path} lacks {lacking[0]}", "train the run again")
    return torch.cat([tensors[key].reshape(-1) for key in names.values()])


@dataclass(frozen=True)
class _Answers:
    """Answers of all sites on the models of some rounds."""

    rounds: list[int]  # kept ones, rising
    each: list[Mapping[str, Answer]]  # each client's, in the order of the rounds
    classes: list[str]
    attributes: dict[str, list[str]]

    @property
    def last(self) -> Mapping[str, Answer]:
        return self.each[-1]

    @cached_property
    def whole(self) -> dict[str, list[Tallies]]:
        """Version that all sites have -> of each round, the tallies of all sites together."""
        shared = [
            v
            for v in (CLEAN, CORRUPTED)
            if all(v in answer.versions for answer in self.last.values())
        ]
        return {
            v: [_added([answer.versions[v] for answer in sites.values()]) for sites in self.each]
            for v in shared
        }

    def by_group(self, tallies: Tallies, of: Callable[[Tally], Made]) -> dict[str, dict[str, Made]]:
        """Attribute -> group -> what is made of its tally."""
        return {
            name: {value: of(tallies[f"{name}/{g}"]) for g, value in enumerate(values)}
            for name, values in self.attributes.items()
        }

    def lines(self, where: Where, tallies: list[Tallies]) -> Table:
        """All images and every group over rounds."""
        return over_rounds(
            [self._lines(where, number, of_round) for number, of_round in zip(self.rounds, tallies)]
        )

    def _lines(self, where: Where, round: int, tallies: Tallies) -> Table:
        groups = self.by_group(tallies, _score)
        differences = {name: parity(tables) for name, tables in self._decisions(tallies).items()}
        return of_model(where, round, _score(tallies[ALL]), groups, differences, self.classes)

    def _decisions(self, tallies: Tallies) -> dict[str, np.ndarray]:
        """Attribute -> images of each group by true and predicted class [G, C, C]."""
        tables = self.by_group(tallies, lambda tally: tally.table)
        return {name: np.stack([*of_groups.values()]) for name, of_groups in tables.items()}

    def grouped(self, tallies: Tallies) -> dict[str, Grouped]:
        """Attribute -> images in no group, or in one too small to be shown; and rates that are not defined."""
        return {
            name: Grouped(
                tallies[ALL].images - int(tables.sum()),
                undefined_rates(tables, self.attributes[name], self.classes),
            )
            for name, tables in self._decisions(tallies).items()
        }

    def curves(self, version: str) -> Curves:
        """Those of the last round."""
        last, clients = self.whole[version][-1], self.last.items()
        of_clients = {client: _curve(answer.versions[version][ALL]) for client, answer in clients}
        return Curves(_curve(last[ALL]), self.by_group(last, _curve), of_clients)


def _score(tally: Tally) -> dict[str, Any]:
    """The scores of a tally, with its images of each class: which of them are of one patient is not known."""
    return tally.score() | {"patients": Patients(tally.images, tally.table.sum(1))}


def _scored(path: Path, answers: _Answers, folder: Path) -> dict[str, Any]:
    whole, rounds = answers.whole, answers.rounds
    if not whole[CLEAN][-1][ALL].images:
        what = "no class has enough test images at any site to be counted"
        raise FedcliError(what, "see smallest_cell in the sites' policies")
    _write_rebuilt(folder / predictions.REBUILT, whole)
    source = manifest.read(path)
    personal = source.body["model"]["personal_models"] or source.options.get("bn") == "local"
    table, clients = Table(), {}
    for version, tallies in whole.items():
        table |= answers.lines(Where(version), tallies)
        _add_interval(table, Where(version), tallies[-1][ALL])
        for name, values in answers.attributes.items():
            for g, value in enumerate(values):
                _add_interval(
                    table, Where(version, attribute=name, group=value), tallies[-1][f"{name}/{g}"]
                )
    for client, answer in answers.last.items():
        version = CORRUPTED if answer.corrupted and CORRUPTED in answer.versions else CLEAN
        table |= answers.lines(
            Where(version, client=client), [of[client].versions[version] for of in answers.each]
        )
        clients[client] = Client(version, "own", groups=answers.grouped(answer.versions[version]))
    local = resolve(source.body["method"], source.body["settings"]).local
    return Scores(
        **about(path, source, local, rounds),
        warning=_warning(source.body.get("warning", ""), answers, personal),
        classes=answers.classes,
        attributes=answers.attributes,
        personal_models=source.body["model"]["personal_models"],
        grouped=answers.grouped(whole[CLEAN][-1]),
        curves={version: answers.curves(version) for version in whole},
        clients=clients,
        table=table,
    ).write(folder)


def _write_rebuilt(path: Path, versions: Mapping[str, list[Tallies]]) -> None:
    """versions: version -> of each kept round: "all" or "attribute/g" -> the tally of all sites together."""
    made = {
        f"{version}/{round}/{key}": tally.rebuilt()
        for version, rounds in versions.items()
        for round, tallies in enumerate(rounds)
        for key, tally in tallies.items()
    }
    with create_hdf5(path, sum(logits.nbytes for logits, _ in made.values())) as file:
        for name, (logits, y) in made.items():
            file[f"{name}/y"], file[f"{name}/logits"] = (
                y.astype(np.int16),
                logits.astype(np.float32),
            )


def _added(sites: list[Tallies]) -> Tallies:
    return {key: reduce(add, (tallies[key] for tallies in sites)) for key in sites[0]}


def _add_interval(table: Table, where: Where, tally: Tally) -> None:
    """Give scores their intervals, from resamples of images: counts do not say which of them are of one patient.

    Areas under curves of more than two classes have none: counts do not say which chances are of one image.
    """
    logits, y = tally.rebuilt()
    answered = Answered([logits], y)
    for metric, resampled in answered.resampled().items() if len(y) else ():
        if predictions.by_image(metric) or len(tally.table) == 2:
            answered.mark(table[where._replace(metric=metric)], resampled, None)


def _curve(tally: Tally) -> Curve:
    points = {f"{rate:g}": tally.true_positives_at(rate) for rate in RATES}
    return Curve(
        {rate: RocPoint(*point) for rate, point in points.items() if point},
        [ReliabilityBin(*known) for known in tally.reliability()],
    )


def _warning(warning: str, answers: _Answers, personal: bool) -> str:
    """Notes for a reader: images that are left out, and areas that bins do not resolve."""
    tallies = [of_round[ALL] for rounds in answers.whole.values() for of_round in rounds]
    left_out, resolution = (
        sum(a.left_out for a in answers.last.values()),
        max(tally.resolution() for tally in tallies),
    )
    if left_out:
        warning = f"{warning}; {left_out} test images are left out by their sites, where few images are of a class"
    if CORRUPTED not in answers.whole and any(answer.corrupted for answer in answers.last.values()):
        warning = f"{warning}; only clean images are scored over all: not all sites have them corrupted in one way"
    if personal:
        warning = f"{warning}; every client's own model answers, on that client's test images"
    if resolution > 1 / FINE:
        note = f"chances lie so close that areas under curves may be off by {resolution:.2g}"
        console.warn(note)
        warning = f"{warning}; {note}"
    return warning.removeprefix("; ")
