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
from ..methods.mixins import views_of
from ..methods.registry import resolve
from ..models.layout import Layout
from ..runs import chosen_engine
from ..runs.assembly import assemble, open_parent
from ..runs.finished import model_file
from ..runs.resources import be_deterministic
from ..runs.rules import check
from ..runs.train import begun
from ..runs.train_options import Execution
from ..scores import rebuilt
from ..scores.evaluate import COPIED, UNCOPIED
from ..scores.from_nested import from_nested
from ..scores.groups import together
from ..scores.intervals import intervals
from ..scores.parts import Curve, Curves, Groups, GroupScores, Interval, ReliabilityBin, RocPoint, Score
from ..scores.rounds import among, summary, summary_of_groups, with_average
from ..scores.schema import decode
from ..scores.tree import Client, Scores, Stage, Traffic
from .tallies import FINE, RATES, Answer, Tally

ALL = "all"
CLEAN, CORRUPTED = "clean", "corrupted"
Tallies = Mapping[str, Tally]  # ALL, or "attribute/place of the value" -> the tally
Asked = Callable[[int], Mapping[str, Answer]]  # round -> what each client's site says of its model
DATA = "corruption", "partition", "sites"


def evaluate(run: Path, options: Any, out: Path | None) -> Path:
    """Score a run by what its sites answer and return the path of scores.json. Raises FedcliError, UsageError."""
    engine = Execution(options.device, engine=options.engine, timeout=options.timeout)
    if given := [name for name in ("shots", "corrupt", "severity", "export", "metric") if getattr(options, name)]:
        raise UsageError(f"--{given[0]} needs the test images, which are at their sites", f"leave --{given[0]} out")
    path = manifest.find(run, "run")
    body = manifest.verify(path, "run").body
    plan = begun(path.parent)
    data = Path(plan.data or "")
    be_deterministic(options.device, plan.threads, plan.precision)  # part of what names the run at its sites
    method = check(plan)
    images = chosen_engine.images(engine, manifest.read(data).kind)
    federation = assemble(data, plan, method, open_parent(plan, method), options.device, images=images)
    kept = sorted(int(file.stem) for file in (path.parent / "models").glob("[0-9]*.h5"))
    personal = body["model"]["personal_models"] or plan.bn == "local"
    rounds = kept[-1:] if personal else kept  # a site keeps what is a client's own for the last rounds only
    with chosen_engine.opened(engine, federation) as sites:

        def ask(round: int) -> Mapping[str, Answer]:
            theta = _model(model_file(path.parent, round), federation.layout)
            return sites.tallies(round, theta, federation.data.roster)  # type: ignore[attr-defined]

        return score(path, ask, rounds=rounds, by=list(options.by), out=out)


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
    """Answers of all sites on each round's model.

    Attributes:
        rounds: each client's, in the order of the rounds.
        whole: version that all sites have -> of each round, the tallies of all sites together.
    """

    rounds: list[Mapping[str, Answer]]
    whole: dict[str, list[Tallies]]
    classes: list[str]
    attributes: dict[str, list[str]]

    @property
    def last(self) -> Mapping[str, Answer]:
        return self.rounds[-1]

    def version_of(self, client: str) -> str:
        """Of the test images that a client is scored on."""
        answer = self.last[client]
        return CORRUPTED if answer.corrupted and CORRUPTED in answer.versions else CLEAN


def _build(
    path: Path, ask: Asked, classes: list[str], attributes: dict[str, list[str]], rounds: list[int], folder: Path
) -> dict[str, Any]:
    each = [ask(round) for round in rounds]
    shared = [v for v in (CLEAN, CORRUPTED) if all(v in answer.versions for answer in each[-1].values())]
    whole = {v: [_added([answer.versions[v] for answer in sites.values()]) for sites in each] for v in shared}
    answers = _Answers(each, whole, classes, attributes)
    if not whole[CLEAN][-1][ALL].images:
        raise FedcliError("the sites have no test images that they may speak of", "see smallest_cell in their policies")
    _write_rebuilt(folder / rebuilt.FILE, whole)
    clients = {client: _client(answers, client) for client in answers.last}
    source = manifest.read(path)
    personal = source.body["model"]["personal_models"] or source.options.get("bn") == "local"
    scored = with_average({v: [_score(tallies[ALL]) for tallies in of_rounds] for v, of_rounds in whole.items()})
    scores = Scores(
        **_about(path, source, rounds, attributes, _warning(source.body.get("warning", ""), answers, personal)),
        versions={version: summary(of_rounds) for version, of_rounds in scored.items()},
        intervals={version: _intervals(of_rounds[-1][ALL]) for version, of_rounds in whole.items()},
        groups={
            name: {v: _groups(whole[v], name, values, classes) for v in shared} for name, values in attributes.items()
        },
        curves={version: _curves(answers, version) for version in shared},
        clients=clients,
        among_clients=among(clients, personal=personal),
        classes=classes,
    )
    return from_nested(scores.body()).write(folder)


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
    """The tallies of all sites together."""
    out = dict(sites[0])
    for tallies in sites[1:]:
        out = {key: tally + tallies[key] for key, tally in out.items()}
    return out


def _score(tally: Tally) -> Score:
    return decode(Score, tally.score())


def _intervals(tally: Tally) -> dict[str, Interval]:
    """Metric -> interval, from resamples of images: counts do not say which of them are of one patient.

    Areas under curves of more than two classes have none: counts do not say which chances are of one image.
    """
    logits, y = tally.rebuilt()
    made, scores = intervals({CLEAN: [logits]}, y, None).get(CLEAN, {}), tally.score()
    return {
        metric: replace(interval, value=scores[metric])
        for metric, interval in made.items()
        if rebuilt.by_image(metric) or len(tally.table) == 2
    }


def _groups(rounds: list[Tallies], name: str, values: list[str], classes: list[str]) -> Groups:
    made = summary_of_groups([_grouped(tallies, name, values, classes) for tallies in rounds])
    by_metric: dict[str, dict[str, Interval]] = {}
    for g, value in enumerate(values):
        for metric, interval in _intervals(rounds[-1][f"{name}/{g}"]).items():
            by_metric.setdefault(metric, {})[value] = interval
    return replace(made, intervals=by_metric)


def _grouped(tallies: Tallies, name: str, values: list[str], classes: list[str]) -> GroupScores:
    of_value = {value: tallies[f"{name}/{g}"] for g, value in enumerate(values)}
    tables = np.stack([tally.table for tally in of_value.values()])  # [G, C, C]
    overall, scores = tallies[ALL], {value: _score(tally) for value, tally in of_value.items()}
    unknown = overall.images - int(tables.sum())  # of no group, or of one too small to be shown
    return together(_score(overall), scores, tables, unknown, classes)


def _client(answers: _Answers, client: str) -> Client:
    version = answers.version_of(client)
    rounds = [sites[client].versions[version] for sites in answers.rounds]
    scores = summary([_score(tallies[ALL]) for tallies in rounds])
    groups = {
        name: summary_of_groups([_grouped(tallies, name, values, answers.classes) for tallies in rounds])
        for name, values in answers.attributes.items()
    }
    return Client(
        version=version, part="own", count=scores.count, classes_missing=scores.classes_missing,
        metrics=scores.metrics, groups=groups,
    )  # fmt: skip


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


def _stage(path: Path, kind: str) -> Stage | None:
    """Hash and options of the stage of this kind above a run."""
    own = manifest.parent(path, *DATA)
    above = own if own is None or manifest.read(own).kind == kind else manifest.parent(own, kind)
    return Stage(manifest.sha256(above), manifest.read(above).options) if above else None


def _about(
    path: Path, run: manifest.Manifest, rounds: list[int], attributes: dict[str, list[str]], warning: str
) -> dict[str, Any]:
    """Facts that a report needs of the run; its federation stands for a partition of images."""
    stages, body = {kind: _stage(path, kind) for kind in DATA}, run.body
    return {
        **{key: body[key] for key in COPIED}, "warning": warning,
        "options": {key: value for key, value in run.options.items() if key not in UNCOPIED},
        "data": {
            "dataset": None, "partition": stages["partition"] or stages["sites"], "corruption": stages["corruption"],
        },
        "roster_size": len(body["roster"]), "kept_rounds": rounds, "attributes": attributes,
        "personal_models": body["model"]["personal_models"],
        "view": views_of(resolve(body["method"], body["settings"]).local)[0],
        "bytes": Traffic(**{way: body.get(f"bytes_{way}") for way in ("down", "up")}),
    }  # fmt: skip
