"""Scores of a run whose test images are at its sites: from tallies that each site sends, and that can be added.

The scores.json is as that of evaluate(), of the test images that are some client's own; without what needs single
images. AUCs and calibration errors are those of chances in steps of 1/2048, see tallies.py. Intervals resample images,
which is exact for counts by true and predicted class, and for two classes also for the bins of a chance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import console
from ..data import manifest
from ..errors import FedcliError, UsageError, nearest
from ..federation.state import read_tensors
from ..io.hdf5 import create_hdf5
from ..methods.registry import resolve
from ..metrics.parity import undefined_rates
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
from ..scores.facts import Answer as ModelScores
from ..scores.facts import Scored, of_models, over_rounds
from ..scores.parts import Client, Curve, Curves, Grouped, ReliabilityBin, RocPoint
from ..scores.scores import Scores
from ..scores.statistics.intervals import Answered
from ..scores.table import Table, Where
from .tallies import ALL, CLEAN, CORRUPTED, FINE, RATES, Answer, Tallies, Tally

Asked = Callable[[int], Mapping[str, Answer]]  # round -> what each client's site says of its model
DATA = "corruption", "partition", "sites"


def evaluate(run: Path, options: EvaluateOptions) -> Path:
    """Score a run by what its sites answer and return the path of scores.json. Raises FedcliError, UsageError."""
    if given := [name for name in ("shots", "corrupt", "severity", "export", "metric") if getattr(options, name)]:
        raise UsageError(f"--{given[0]} needs the test images, which are at their sites", f"leave --{given[0]} out")
    path = manifest.find(run, "run")
    body = manifest.verify(path, "run").body
    here = {name: getattr(options, name) for name in ("device", "engine", "timeout")}
    plan = replace(begun(path.parent), **here)
    data = Path(plan.data or "")
    be_deterministic(plan.device, plan.threads, plan.precision)  # part of what names the run at its sites
    method = check(plan)
    federation = assemble(data, plan, method, open_parent(plan, method))
    kept = sorted(int(file.stem) for file in (path.parent / "models").glob("[0-9]*.h5"))
    personal = body["model"]["personal_models"] or plan.bn == "local"
    rounds = kept[-1:] if personal else kept  # a site keeps what is a client's own for the last rounds only
    with opened(federation) as sites:

        def ask(round: int) -> Mapping[str, Answer]:
            theta = _model(model_file(path.parent, round), federation.layout)
            return sites.tallies(round, theta, federation.data.roster)  # type: ignore[attr-defined]

        return score(path, ask, rounds=rounds, by=list(options.by), out=path_of(options.out))


def _model(path: Path, layout: Layout) -> torch.Tensor:
    """The model of a round [P] from its file. Raises FedcliError where it is of another network."""
    tensors = read_tensors(path)
    names = {name: f"model/{name}" for name in layout.shapes}
    if lacking := [
        name for name, key in names.items() if key not in tensors or tensors[key].shape != layout.shapes[name]
    ]:
        raise FedcliError(f"{path} lacks {lacking[0]}", "train the run again")
    return torch.cat([tensors[key].reshape(-1) for key in names.values()])


def score(run_path: Path, ask: Asked, *, rounds: list[int], by: list[str], out: Path | None) -> Path:
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


@dataclass(frozen=True)
class _Answers:
    """Answers of all sites on each round's model."""

    rounds: list[Mapping[str, Answer]]  # each client's, in the order of the rounds
    whole: dict[str, list[Tallies]]  # version that all sites have -> of each round, the tallies of all sites together
    classes: list[str]
    attributes: dict[str, list[str]]

    @property
    def last(self) -> Mapping[str, Answer]:
        return self.rounds[-1]

    @property
    def groups(self) -> list[tuple[str, int, str]]:
        """Attribute, place and value of every group."""
        return [(name, g, value) for name, values in self.attributes.items() for g, value in enumerate(values)]

    def lines(self, where: Where, rounds: list[int], tallies: list[Tallies]) -> Table:
        """All images and every group over rounds."""
        return over_rounds(
            [of_models(where, number, [self._scores(of_round)]) for number, of_round in zip(rounds, tallies)]
        )

    def _scores(self, tallies: Tallies) -> ModelScores:
        groups: dict[str, dict[str, Scored]] = {name: {} for name in self.attributes}
        for name, g, value in self.groups:
            groups[name][value] = tallies[f"{name}/{g}"].score()
        return ModelScores.of(tallies[ALL].score(), groups, self._decisions(tallies), self.classes)

    def _decisions(self, tallies: Tallies) -> dict[str, np.ndarray]:
        """Attribute -> images of each group by true and predicted class [G, C, C]."""
        return {
            name: np.stack([tallies[f"{name}/{g}"].table for g in range(len(values))])
            for name, values in self.attributes.items()
        }

    def grouped(self, tallies: Tallies) -> dict[str, Grouped]:
        """Attribute -> images in no group, or in one too small to be shown; and rates that are not defined."""
        return {
            name: Grouped(
                tallies[ALL].images - int(tables.sum()), undefined_rates(tables, self.attributes[name], self.classes)
            )
            for name, tables in self._decisions(tallies).items()
        }


def _build(
    path: Path, ask: Asked, classes: list[str], attributes: dict[str, list[str]], rounds: list[int], folder: Path
) -> dict[str, Any]:
    each = [ask(round) for round in rounds]
    shared = [v for v in (CLEAN, CORRUPTED) if all(v in answer.versions for answer in each[-1].values())]
    whole = {v: [_added([answer.versions[v] for answer in sites.values()]) for sites in each] for v in shared}
    answers = _Answers(each, whole, classes, attributes)
    if not whole[CLEAN][-1][ALL].images:
        raise FedcliError(
            "no class has enough test images at any site to be counted", "see smallest_cell in the sites' policies"
        )
    _write_rebuilt(folder / predictions.REBUILT, whole)
    source = manifest.read(path)
    personal = source.body["model"]["personal_models"] or source.options.get("bn") == "local"
    table, clients = Table(), {}
    for version, tallies in whole.items():
        table |= answers.lines(Where(version), rounds, tallies)
        _add_interval(table, Where(version), tallies[-1][ALL])
        for name, g, value in answers.groups:
            _add_interval(table, Where(version, attribute=name, group=value), tallies[-1][f"{name}/{g}"])
    for client, answer in answers.last.items():
        version = CORRUPTED if answer.corrupted and CORRUPTED in answer.versions else CLEAN
        table |= answers.lines(Where(version, client=client), rounds, [of[client].versions[version] for of in each])
        clients[client] = Client(version, "own", groups=answers.grouped(answer.versions[version]))
    local = resolve(source.body["method"], source.body["settings"]).local
    return Scores(
        **about(path, source, local, rounds),
        warning=_warning(source.body.get("warning", ""), answers, personal),
        classes=classes,
        attributes=attributes,
        personal_models=source.body["model"]["personal_models"],
        grouped=answers.grouped(whole[CLEAN][-1]),
        curves={version: _curves(answers, version) for version in shared},
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
            file[f"{name}/y"], file[f"{name}/logits"] = y.astype(np.int16), logits.astype(np.float32)


def _added(sites: list[dict[str, Tally]]) -> Tallies:
    out = dict(sites[0])
    for tallies in sites[1:]:
        out = {key: tally + tallies[key] for key, tally in out.items()}
    return out


def _add_interval(table: Table, where: Where, tally: Tally) -> None:
    """Give scores their intervals, from resamples of images: counts do not say which of them are of one patient.

    Areas under curves of more than two classes have none: counts do not say which chances are of one image.
    """
    logits, y = tally.rebuilt()
    answered = Answered([logits], y)
    for metric, resampled in answered.resampled().items() if len(y) else ():
        if predictions.by_image(metric) or len(tally.table) == 2:
            answered.mark(table[where._replace(metric=metric)], resampled, None)


def _curves(answers: _Answers, version: str) -> Curves:
    last = answers.whole[version][-1]
    return Curves(
        _curve(last[ALL]),
        {
            name: {value: _curve(last[f"{name}/{g}"]) for g, value in enumerate(values)}
            for name, values in answers.attributes.items()
        },
        {client: _curve(answer.versions[version][ALL]) for client, answer in answers.last.items()},
    )


def _curve(tally: Tally) -> Curve:
    points = {f"{rate:g}": tally.true_positives_at(rate) for rate in RATES}
    return Curve(
        {rate: RocPoint(*point) for rate, point in points.items() if point},
        [ReliabilityBin(*known) for known in tally.reliability()],
    )


def _warning(warning: str, answers: _Answers, personal: bool) -> str:
    """Notes for a reader: images that are left out, and areas that bins do not resolve."""
    tallies = [of_round[ALL] for rounds in answers.whole.values() for of_round in rounds]
    left_out, resolution = sum(a.left_out for a in answers.last.values()), max(tally.resolution() for tally in tallies)
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
