"""Scores of a run whose test images are at its sites: from tallies that each site sends, and that can be added.

The scores.json is as that of evaluate(), of the test images that are some client's own; without what needs single
images. AUCs and calibration errors are those of chances in steps of 1/2048, see tallies.py. Intervals resample images,
which is exact for counts by true and predicted class, and for two classes also for the bins of a chance.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from .. import console
from ..data import manifest
from ..data.image_counts import UNKNOWN
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
from ..runs.settings import begun
from ..scores import predictions
from ..scores.evaluate import about
from ..scores.evaluation_options import EvaluateOptions
from ..scores.facts import of_model, over_rounds
from ..scores.groups import Patients
from ..scores.parts import Client, Curve, Curves, Grouped, ReliabilityBin, RocPoint
from ..scores.scores import Scores
from ..scores.statistics.intervals import Answered
from ..scores.table import BY_POLICIES, Score, Table, Where
from .tallies import ALL, CLEAN, CORRUPTED, FINE, RATES, Answer, Tallies, Tally, keys

Made = TypeVar("Made")
DATA = "corruption", "partition", "sites"


def evaluate(run: Path, options: EvaluateOptions) -> Path:
    """Score a run by what its sites answer and return the path of scores.json. Raises FedcliError, UsageError."""
    for name in options.given("images"):
        raise UsageError(
            f"--{name} needs the test images, which are at their sites", f"leave --{name} out"
        )
    path = manifest.find(run, "run")
    body = manifest.verify(path, "run").body
    plan = replace(
        begun(path.parent), device=options.device, engine=options.engine, timeout=options.timeout
    )
    be_deterministic(plan.device, plan.threads, plan.precision)  # it names the run at its sites
    method = check(plan)
    federation = assemble(Path(plan.data or ""), plan, method, open_parent(plan, method))
    rounds = sorted(int(file.stem) for file in (path.parent / "models").glob("[0-9]*.h5"))
    if body["model"]["personal_models"] or plan.bn == "local":
        rounds = rounds[-1:]  # a site keeps what is a client's own for the last rounds only
    data = manifest.read(manifest.parent(path, *DATA) or path).body
    attributes = _attributes(data, options.by)
    identity = {"by": list(attributes), "federated": True, "rounds": rounds}
    folder = path_of(options.out) or path.parent / "scores" / manifest.identity(identity, [path])
    with opened(federation) as sites:

        def build(folder: Path) -> dict[str, Any]:
            answers = []
            for number in rounds:
                model = _model(model_file(path.parent, number), federation.layout)
                of_round = sites.tallies(number, model, federation.data.roster)  # type: ignore[attr-defined]
                answers.append(of_round)
            return _scored(path, _Answers(rounds, answers, data["classes"], attributes), folder)

        return manifest.stage(
            "scores",
            folder=folder,
            made_by=["evaluate"],
            options=identity,
            parents=[path],
            build=build,
        )


def _attributes(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[str]]:
    """The attributes of these names with their values; all of them where there is no name. Raises UsageError."""
    attributes = data["attributes"]
    for name in names:
        if name not in attributes:
            what = f"{data['dataset']} has no attribute {name!r}"
            raise UsageError(what, nearest(name, attributes))
    return {name: values for name, values in attributes.items() if name in names or not names}


def _model(path: Path, layout: Layout) -> torch.Tensor:
    """The model of a round [P] from its file. Raises FedcliError where it is of another network."""
    tensors = read_tensors(path)
    parts = []
    for name, shape in layout.shapes.items():
        tensor = tensors.get(f"model/{name}")
        if tensor is None or tensor.shape != shape:
            raise FedcliError(f"{path} lacks {name}", "train the run again")
        parts.append(tensor.reshape(-1))
    return torch.cat(parts)


@dataclass(frozen=True)
class _Answers:
    """Answers of all sites on the models of some rounds.

    A class counts only where every site shows it, so that no score sets the images of one site against those of
    another. A group has scores only where every site shows all its images of these classes.
    """

    rounds: list[int]  # kept ones, rising
    each: list[Mapping[str, Answer]]  # each client's, in the order of the rounds
    classes: list[str]
    attributes: dict[str, list[str]]

    @property
    def last(self) -> Mapping[str, Answer]:
        return self.each[-1]

    @cached_property
    def hidden_classes(self) -> list[int]:
        """Places of the classes that some site hides."""
        return sorted(frozenset().union(*(site.hidden_classes for site in self.last.values())))

    def tallies(self, round: Mapping[str, Answer], client: str, version: str) -> Tallies:
        """The tallies of a site in a round; of no image for a group of which it hides some."""
        answer = round[client]
        tallies = {}
        for key in keys(self.attributes):
            tally = answer.versions[version][key].without(self.hidden_classes)
            is_hidden = key in answer.hidden_groups
            tallies[key] = Tally.nothing(len(self.classes)) if is_hidden else tally
        return tallies

    @cached_property
    def whole(self) -> dict[str, list[Tallies]]:
        """Version that all sites have -> of each round, the tallies of all sites together."""
        answers = self.last.values()
        together = {}
        for version in (CLEAN, CORRUPTED):
            if all(version in answer.versions for answer in answers):
                together[version] = [self._together(round, version) for round in self.each]
        return together

    def _together(self, round: Mapping[str, Answer], version: str) -> Tallies:
        added = _added([self.tallies(round, client, version) for client in round])
        for key in self.hidden_groups([*round]):
            added[key] = Tally.nothing(len(self.classes))
        return added

    def hidden_groups(self, clients: Sequence[str]) -> dict[str, "_Hidden"]:
        """Key of each group that some of these clients do not show whole -> how many images they hide."""
        answers = [self.last[client] for client in clients]
        hidden = {}
        for key in keys(self.attributes):
            if any(key in answer.hidden_groups for answer in answers):
                hidden[key] = _Hidden.of(key, *self.named(key), answers)
        return hidden

    def named(self, key: str) -> tuple[str, str]:
        """The attribute and the value that a key is of."""
        attribute, _, place = key.rpartition("/")
        return attribute, self.attributes[attribute][int(place)]

    def by_group(
        self, tallies: Tallies, make: Callable[[Tally], Made]
    ) -> dict[str, dict[str, Made]]:
        """Attribute -> group -> what is made of its tally."""
        by_attribute: dict[str, dict[str, Made]] = {name: {} for name in self.attributes}
        for key, tally in tallies.items():
            if key != ALL:
                attribute, group = self.named(key)
                by_attribute.setdefault(attribute, {})[group] = make(tally)
        return by_attribute

    def lines(self, where: Where, tallies: list[Tallies], clients: Sequence[str]) -> Table:
        """All images and every group over rounds. clients: whose images they are."""
        rounds = zip(self.rounds, tallies, strict=True)
        hidden = self.hidden_groups(clients)
        return over_rounds(
            [self._lines(where, number, of_round, hidden) for number, of_round in rounds]
        )

    def _lines(
        self, where: Where, round: int, tallies: Tallies, hidden: Mapping[str, "_Hidden"]
    ) -> Table:
        groups = self.by_group(tallies, _score)
        differences = {name: parity(tables) for name, tables in self._decisions(tallies).items()}
        table = of_model(where, round, _score(tallies[ALL]), groups, differences, self.classes)
        of_hidden = {self.named(key): images for key, images in hidden.items()}
        partial = {attribute for attribute, _ in of_hidden}
        for line, score in table.items():
            images = of_hidden.get((line.attribute, line.group))
            if images:
                table[line] = Score([None], [round], images.count, (), images.words)
            elif line.attribute in partial and not line.group:
                table[line] = replace(score, values=[None])
        return table

    def _decisions(self, tallies: Tallies) -> dict[str, np.ndarray]:
        """Attribute -> images of each group by true and predicted class [G, C, C]."""
        tables = self.by_group(tallies, lambda tally: tally.table)
        return {name: np.stack([*of_groups.values()]) for name, of_groups in tables.items()}

    def grouped(self, tallies: Tallies, clients: Sequence[str]) -> dict[str, Grouped]:
        """Attribute -> images in no group, rates that are not defined, and groups that sites hide."""
        words: dict[str, dict[str, str]] = {}
        for key, images in self.hidden_groups(clients).items():
            attribute, group = self.named(key)
            words.setdefault(attribute, {})[group] = images.words
        by_attribute = {}
        for name, tables in self._decisions(tallies).items():
            if name in words:
                unknown = self._unknown(name, clients)
                by_attribute[name] = Grouped(unknown, [], words[name])
            else:
                undefined = undefined_rates(tables, self.attributes[name], self.classes)
                by_attribute[name] = Grouped(tallies[ALL].images - int(tables.sum()), undefined)
        return by_attribute

    def _unknown(self, attribute: str, clients: Sequence[str]) -> int | None:
        """Images of these clients in no group, as they described them; None where one hides that."""
        total = 0
        for client in clients:
            answer = self.last[client]
            images = answer.groups[attribute].get(UNKNOWN, 0)
            if images is None or self.hidden_classes:
                return None
            total += images
        return total

    def curves(self, version: str) -> Curves:
        """The curves of the last round."""
        together = self.whole[version][-1]
        by_client = {}
        for client in self.last:
            by_client[client] = _curve(self.tallies(self.last, client, version)[ALL])
        by_group = self.by_group(together, _curve)
        for key in self.hidden_groups([*self.last]):
            attribute, group = self.named(key)
            del by_group[attribute][group]
        return Curves(_curve(together[ALL]), by_group, by_client)


@dataclass(frozen=True)
class _Hidden:
    """A group of which sites hide images. count: of its images; 0 where a site hides that too."""

    count: int
    words: str

    @classmethod
    def of(cls, key: str, attribute: str, group: str, answers: Sequence[Answer]) -> "_Hidden":
        hiding = [answer for answer in answers if key in answer.hidden_groups]
        smallest = sorted({answer.smallest for answer in hiding})
        cells = f"cells under {' or '.join(map(str, smallest))}"
        counts = [answer.groups[attribute].get(group, 0) for answer in answers]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return cls(0, f"some of its images are {BY_POLICIES} ({cells})")
        count = sum(known)
        counted = sum(answer.versions[CLEAN][key].images for answer in answers)
        are = "is" if count - counted == 1 else "are"
        return cls(count, f"{count - counted:,} of {count:,} images {are} {BY_POLICIES} ({cells})")


def _score(tally: Tally) -> dict[str, Any]:
    """The scores of a tally, with its images of each class: which of them are of one patient is not known."""
    return tally.score() | {"patients": Patients(tally.images, tally.table.sum(1))}


def _scored(path: Path, answers: _Answers, folder: Path) -> dict[str, Any]:
    """Write the scores of a run into a folder; gives the facts for their manifest. path: of its run.json."""
    if not answers.whole[CLEAN][-1][ALL].images:
        what = "no class has enough test images at every site to be counted"
        raise FedcliError(what, "see smallest_cell in the sites' policies")
    _write_rebuilt(folder / predictions.REBUILT, answers.whole)
    source = manifest.read(path)
    personal = source.body["model"]["personal_models"] or source.options.get("bn") == "local"
    sites = [*answers.last]
    table = Table()
    for version, tallies in answers.whole.items():
        table |= answers.lines(Where(version), tallies, sites)
        for key, tally in tallies[-1].items():
            attribute, group = ("", "") if key == ALL else answers.named(key)
            _add_interval(table, Where(version, attribute=attribute, group=group), tally)
    clients = {}
    for client, answer in answers.last.items():
        version = CORRUPTED if answer.corrupted and CORRUPTED in answer.versions else CLEAN
        of_client = [answers.tallies(round, client, version) for round in answers.each]
        table |= answers.lines(Where(version, client=client), of_client, [client])
        groups = answers.grouped(of_client[-1], [client])
        clients[client] = Client(version, "own", groups=groups)
    local = resolve(source.body["method"], source.body["settings"]).local
    return Scores(
        **about(path, source, local, answers.rounds),
        warning=_warning(source.body.get("warning", ""), answers, personal),
        classes=answers.classes,
        attributes=answers.attributes,
        personal_models=source.body["model"]["personal_models"],
        grouped=answers.grouped(answers.whole[CLEAN][-1], sites),
        curves={version: answers.curves(version) for version in answers.whole},
        clients=clients,
        table=table,
    ).write(folder)


def _write_rebuilt(path: Path, versions: Mapping[str, list[Tallies]]) -> None:
    """versions: version -> of each kept round: "all" or "attribute/g" -> the tally of all sites together."""
    rebuilt = {}
    for version, rounds in versions.items():
        for round, tallies in enumerate(rounds):
            for key, tally in tallies.items():
                rebuilt[f"{version}/{round}/{key}"] = tally.rebuilt()
    with create_hdf5(path, sum(logits.nbytes for logits, _ in rebuilt.values())) as file:
        for name, (logits, y) in rebuilt.items():
            file[f"{name}/y"] = y.astype(np.int16)
            file[f"{name}/logits"] = logits.astype(np.float32)


def _added(sites: Sequence[Tallies]) -> Tallies:
    """The tallies of several sites together."""
    together = dict(sites[0])
    for tallies in sites[1:]:
        for key, tally in tallies.items():
            together[key] = together[key] + tally
    return together


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
        [ReliabilityBin(*numbers) for numbers in tally.reliability()],
    )


def _warning(warning: str, answers: _Answers, personal: bool) -> str:
    """Notes for a reader: classes that sites hide, and how exact areas under curves are."""
    notes = [warning, _classes_note(answers)]
    if CORRUPTED not in answers.whole and any(answer.corrupted for answer in answers.last.values()):
        notes.append(
            "only clean images are scored over all: not all sites have them corrupted in one way"
        )
    if personal:
        notes.append("every client's own model answers, on that client's test images")
    notes.append(_resolution_note(answers))
    return "; ".join(filter(None, notes))


def _classes_note(answers: _Answers) -> str:
    """A note on the classes that sites hide, which no score covers; "" where there are none."""
    if not answers.hidden_classes:
        return ""
    classes = [answers.classes[c] for c in answers.hidden_classes]
    hiding = {name: answer for name, answer in answers.last.items() if answer.hidden_classes}
    smallest = sorted({answer.smallest for answer in hiding.values()})
    images = sum(
        answer.left_out + answer.versions[CLEAN][ALL].images for answer in answers.last.values()
    )
    scored = answers.whole[CLEAN][-1][ALL].images
    return (
        f"no score covers {console.listed(classes)}, whose test images {console.listed([*hiding])} "
        f"{'hides' if len(hiding) == 1 else 'hide'} (classes under {' or '.join(map(str, smallest))} images, and "
        f"others that would reveal them): {scored:,} of {images:,} test images are scored"
    )


def _resolution_note(answers: _Answers) -> str:
    """A note on how exact areas under curves are; "" where they are exact to a bin."""
    together = [tallies for rounds in answers.whole.values() for tallies in rounds]
    of_all = max(tallies[ALL].resolution() for tallies in together)
    parts = list(together)
    for round in answers.each:
        for client, answer in round.items():
            parts += [answers.tallies(round, client, version) for version in answer.versions]
    of_parts = max(tally.resolution() for tallies in parts for tally in tallies.values())
    if of_parts <= 1 / FINE:
        return ""
    exact = f"AUCs are exact to {_ceiled(max(of_all, 1 / FINE))} on all images and to {_ceiled(of_parts)}"
    return f"{exact} in groups and at single sites, since the sites sent histograms"


def _ceiled(number: float) -> str:
    """A number rounded up to one digit."""
    digits = -math.floor(math.log10(number))
    return f"{math.ceil(number * 10**digits) / 10**digits:.{max(digits, 0)}f}"
