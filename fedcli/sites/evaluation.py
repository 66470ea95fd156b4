"""Scores of a run whose test images are at its sites, from tallies that each site sends.

The scores.json is as that of evaluate(), of the test images that are some client's own; without
what needs single images. AUCs and calibration errors are those of chances in steps of 1/2048, see
tallies.py. Intervals resample images, which is exact for counts by true and predicted class, and
for two classes also for the bins of a chance.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .. import console
from ..data import manifest, shared_patients
from ..data.image_counts import UNKNOWN
from ..errors import FedcliError, UsageError, nearest
from ..federation.state import read_tensors
from ..io.hdf5 import create_hdf5
from ..methods.registry import resolve
from ..metrics.parity import CLASS_RATES, parity, undefined_rates
from ..options import path_of
from ..runs.assembly import assemble, open_parent
from ..runs.chosen_engine import opened
from ..runs.finished import joined, model_file
from ..runs.resources import be_deterministic
from ..runs.rules import check
from ..runs.settings import begun
from ..scores import predictions
from ..scores.evaluate import DATA, about
from ..scores.evaluation_options import EvaluateOptions
from ..scores.facts import of_model, over_rounds
from ..scores.groups import SCORED_IMAGE, Patients
from ..scores.parts import Client, Curve, Curves, Grouped, ReliabilityBin, RocPoint, Unscored
from ..scores.scores import RunScores
from ..scores.statistics.intervals import Answered
from ..scores.table import BY_POLICIES, Score, Table, Where
from .description import GOES_ON
from .tallies import (
    ALL,
    CLEAN,
    CORRUPTED,
    FINE,
    RATES,
    Answer,
    Attributes,
    Tallies,
    Tally,
    groups_of,
)

Result = TypeVar("Result")
# attribute and group -> its images, and a sentence on those that are hidden
_Hidden = dict[tuple[str, str], tuple[int, str]]


def evaluate(run: Path, options: EvaluateOptions) -> Path:
    """Score a run by what its sites answer and return the path of scores.json.

    Raises FedcliError, UsageError.
    """
    for name in options.given("images"):
        sentence = f"--{name} needs the test images, which are at their sites"
        raise UsageError(sentence, f"leave --{name} out")
    path = manifest.find(run, "run")
    body = manifest.verify(path, "run").body
    plan = replace(
        begun(path.parent),
        device=options.device,
        engine=options.engine,
        timeout=options.timeout,
    )
    be_deterministic(plan.device, plan.threads, plan.precision)  # it names the run at its sites
    method = check(plan)
    federation = assemble(
        Path(plan.data or ""),
        plan,
        method,
        open_parent(plan, method),
    )
    model_paths = (path.parent / "models").glob("[0-9]*.h5")
    rounds = sorted(int(file.stem) for file in model_paths)
    if body["model"]["personal_models"] or plan.bn == "local":
        rounds = rounds[-1:]  # a site keeps what is a client's own for the last rounds only
    data = manifest.read(manifest.parent(path, *DATA) or path).body
    attributes = _attributes(data, options.by)
    identity = {"by": list(attributes), "federated": True, "rounds": rounds}
    folder = path_of(options.out) or path.parent / "scores" / manifest.identity(identity, [path])
    with _asked_for_scores(), opened(federation) as sites:

        def build(folder: Path) -> dict[str, Any]:
            by_round = []
            for number in rounds:
                file = model_file(path.parent, number)
                model = joined(
                    file,
                    read_tensors(file),
                    federation.layout.shapes,
                )
                answers = sites.tallies(number, model, federation.data.roster)  # type: ignore[attr-defined]
                by_round.append(answers)
            described = sites.descriptions  # type: ignore[attr-defined]
            shared = {}
            for client in federation.data.roster:
                shared[client] = described[client].get(shared_patients.KEY)
            patients = shared_patients.of_sites(shared)
            return _scored(
                path,
                _Answers(rounds, by_round, data["classes"], attributes),
                folder,
                patients.get(shared_patients.KEY),
            )

        return manifest.stage(
            "scores",
            folder=folder,
            made_by=["evaluate"],
            options=identity,
            parents=[path],
            build=build,
        )


@contextmanager
def _asked_for_scores() -> Iterator[None]:
    """Errors of sites without the hint of a training run: there is no --resume here."""
    try:
        yield
    except FedcliError as error:
        error.hint = error.hint.replace(GOES_ON, "then give this command again")
        raise


def _attributes(data: dict[str, Any], names: Sequence[str]) -> Attributes:
    """The attributes of these names with their values; all of them where there is no name.

    Raises UsageError.
    """
    attributes = data["attributes"]
    for name in names:
        if name not in attributes:
            sentence = f"{data['dataset']} has no attribute {name!r}"
            raise UsageError(sentence, nearest(name, attributes))
    return {name: values for name, values in attributes.items() if name in names or not names}


@dataclass(frozen=True)
class _Answers:
    """Answers of all sites on the models of some rounds.

    A class counts only where every site shows it, so that no score sets the images of one site
    against those of another. A group has scores only where every site shows all its images of these
    classes.
    """

    rounds: list[int]  # those with a model, rising
    by_round: list[Mapping[str, Answer]]  # each client's, in the order of the rounds
    classes: list[str]
    attributes: Attributes

    @property
    def last(self) -> Mapping[str, Answer]:
        return self.by_round[-1]

    @cached_property
    def group_names(self) -> dict[str, tuple[str, str]]:
        """Key of each group's tally -> its attribute and value."""
        return groups_of(self.attributes)

    @cached_property
    def hidden_classes(self) -> list[int]:
        """Places of the classes that some site hides."""
        return sorted(frozenset().union(*(site.hidden_classes for site in self.last.values())))

    def tallies(self, answer: Answer, version: str) -> Tallies:
        """The tallies of a site in a round; of no image for a group of which it hides some."""
        tallies = {}
        for key in (ALL, *self.group_names):
            tallies[key] = answer.versions[version][key].without(self.hidden_classes)
            if key in answer.hidden_groups:
                tallies[key] = Tally.nothing(len(self.classes))
        return tallies

    @cached_property
    def pooled(self) -> dict[str, list[Tallies]]:
        """Version that all sites have -> the tallies of all sites together in each round."""
        pooled = {}
        for version in (CLEAN, CORRUPTED):
            if all(version in answer.versions for answer in self.last.values()):
                pooled[version] = [self._pooled(answers, version) for answers in self.by_round]
        return pooled

    def _pooled(self, answers: Mapping[str, Answer], version: str) -> Tallies:
        """The tallies of all sites together in a round."""
        nothing = Tally.nothing(len(self.classes))
        pooled = dict.fromkeys((ALL, *self.group_names), nothing)
        for answer in answers.values():
            for key, tally in self.tallies(answer, version).items():
                pooled[key] += tally
        for answer in self.last.values():
            pooled |= dict.fromkeys(answer.hidden_groups & pooled.keys(), nothing)
        return pooled

    def hidden_groups(self, clients: Iterable[str]) -> _Hidden:
        """Each group of which some of these clients hide images -> what _hidden_images() says."""
        answers = [self.last[client] for client in clients]
        hidden = {}
        for key, (attribute, group) in self.group_names.items():
            if any(key in answer.hidden_groups for answer in answers):
                hidden[attribute, group] = _hidden_images(
                    key,
                    attribute,
                    group,
                    answers,
                )
        return hidden

    def by_group(
        self, tallies: Tallies, measure: Callable[[Tally], Result]
    ) -> dict[str, dict[str, Result]]:
        """Attribute -> group -> the measure of its tally."""
        by_attribute: dict[str, dict[str, Result]] = {name: {} for name in self.attributes}
        for key, (attribute, group) in self.group_names.items():
            by_attribute[attribute][group] = measure(tallies[key])
        return by_attribute

    def lines(
        self,
        where: Where,
        tallies: list[Tallies],
        clients: Iterable[str],
    ) -> Table:
        """All images and every group over rounds. clients: whose images they are."""
        hidden = self.hidden_groups(clients)
        tables = []
        for round, of_round in zip(self.rounds, tallies, strict=True):
            decisions = self._decisions(of_round)
            differences = {name: parity(counts) for name, counts in decisions.items()}
            groups = self.by_group(of_round, self._score)
            scores = self._score(of_round[ALL])
            table = of_model(
                where,
                round,
                scores,
                groups,
                differences,
                self.classes,
            )
            _hide(table, round, hidden)
            if self.hidden_classes:
                _leave_out_of_one_class(table, len(scores["classes_missing"]), len(self.classes))
            tables.append(table)
        return over_rounds(tables)

    def _score(self, tally: Tally) -> dict[str, Any]:
        """The scores of a tally, with its images of each class.

        Nobody knows which of them are of one patient.
        """
        unit = SCORED_IMAGE if self.hidden_classes else "image"
        return tally.score() | {"patients": Patients(tally.images, tally.table.sum(1), unit)}

    @property
    def unscored(self) -> Unscored | None:
        """The test images of hidden classes; None where no site hides one."""
        if not self.hidden_classes:
            return None
        scored = self.pooled[CLEAN][-1][ALL]
        images = sum(answer.images for answer in self.last.values())
        names = [self.classes[c] for c in np.flatnonzero(scored.table.sum(1))]
        cells = f"cells under {_smallest(self.hiding.values())}"
        return Unscored(images - scored.images, images, names, cells)

    @property
    def hiding(self) -> dict[str, Answer]:
        """The sites that hide classes."""
        return {client: answer for client, answer in self.last.items() if answer.hidden_classes}

    def _decisions(self, tallies: Tallies) -> dict[str, np.ndarray]:
        """Attribute -> images of each group by true and predicted class [G, C, C]."""
        tables = self.by_group(tallies, lambda tally: tally.table)
        return {name: np.stack([*of_groups.values()]) for name, of_groups in tables.items()}

    def grouped(
        self,
        tallies: Tallies,
        clients: Iterable[str],
    ) -> dict[str, Grouped]:
        """Attribute -> images in no group, undefined rates, and groups that sites hide."""
        hidden: dict[str, dict[str, str]] = {}
        for (attribute, group), (_, words) in self.hidden_groups(clients).items():
            hidden.setdefault(attribute, {})[group] = words
        by_attribute = {}
        for name, tables in self._decisions(tallies).items():
            if name in hidden:
                by_attribute[name] = Grouped(
                    self._unknown(name, clients),
                    [],
                    hidden[name],
                )
            else:
                undefined = self._undefined_rates(name, tables)
                by_attribute[name] = Grouped(tallies[ALL].images - int(tables.sum()), undefined)
        return by_attribute

    def _undefined_rates(self, attribute: str, tables: np.ndarray) -> list[str]:
        """The rates of scored classes that no image of a group defines. tables: of the groups
        [G, C, C].
        """
        values = self.attributes[attribute]
        of_hidden = set()
        for c, value in product(self.hidden_classes, values):
            of_hidden |= {f"{rate} of {self.classes[c]} in {value}" for rate in CLASS_RATES}
        rates = undefined_rates(tables, values, self.classes)
        return [rate for rate in rates if rate not in of_hidden]

    def _unknown(self, attribute: str, clients: Iterable[str]) -> int | None:
        """Images of these clients in no group, as described; None where one hides that."""
        images = [self.last[client].groups[attribute].get(UNKNOWN, 0) for client in clients]
        return None if self.hidden_classes else shared_patients.total(images)

    def curves(self, version: str) -> Curves:
        """The curves of the last round."""
        pooled = self.pooled[version][-1]
        by_client = {}
        for client, answer in self.last.items():
            by_client[client] = _curve(self.tallies(answer, version)[ALL])
        by_group = self.by_group(pooled, _curve)
        for attribute, group in self.hidden_groups(self.last):
            del by_group[attribute][group]
        return Curves(_curve(pooled[ALL]), by_group, by_client)


def _hidden_images(
    key: str, attribute: str, group: str, answers: Sequence[Answer]
) -> tuple[int, str]:
    """The images of a group of which sites hide some, and a sentence on them.

    The number is 0 where a site hides that too.
    """
    hiding = [answer for answer in answers if key in answer.hidden_groups]
    cells = f"cells under {_smallest(hiding)}"
    count = shared_patients.total([answer.groups[attribute].get(group, 0) for answer in answers])
    if count is None:
        return 0, f"some of its images are {BY_POLICIES} ({cells})"
    hidden = count - sum(answer.versions[CLEAN][key].images for answer in answers)
    are = "is" if hidden == 1 else "are"
    return count, f"{hidden:,} of {count:,} images {are} {BY_POLICIES} ({cells})"


def _smallest(answers: Iterable[Answer]) -> str:
    """The least numbers of images that sites show, in words."""
    return " or ".join(map(str, sorted({answer.smallest for answer in answers})))


def _hide(table: Table, round: int, hidden: _Hidden) -> None:
    """Take the scores of hidden groups, and of attributes with one, out of a table."""
    attributes = {attribute for attribute, _ in hidden}
    for line, score in table.items():
        group = line.attribute, line.group
        if group in hidden:
            count, words = hidden[group]
            table[line] = Score([None], [round], count, (), words)
        elif line.attribute in attributes and not line.group:
            table[line] = replace(score, values=[None])


def _leave_out_of_one_class(table: Table, missing: int, classes: int) -> None:
    """Take every score but the accuracy out where one class alone is scored: the others would say
    of all classes what is so of that one.

    missing: the number of classes that the whole test set of the table lacks, of all classes.
    """
    for line, score in table.items():
        lacking = max(missing, len(score.missing))
        if classes - lacking < 2 and line.metric != "accuracy":
            table[line] = replace(score, values=[None])


def _scored(
    path: Path,
    answers: _Answers,
    folder: Path,
    shared: shared_patients.Shared | None = None,
) -> dict[str, Any]:
    """Write the scores of a run into a folder, and return the facts for their manifest.

    path: of its run.json. shared: the patients of test images who also have training images.
    Raises FedcliError where no image counts.
    """
    clean = answers.pooled[CLEAN][-1]
    if not clean[ALL].images:
        sentence = "no class has enough test images at every site to be counted"
        raise FedcliError(sentence, "see smallest_cell in the sites' policies")
    _write_rebuilt(folder / predictions.REBUILT, answers.pooled)
    source = manifest.read(path)
    body = source.body
    personal_models = body["model"]["personal_models"]
    table = Table()
    for version, tallies in answers.pooled.items():
        table |= answers.lines(Where(version), tallies, answers.last)
        for key, tally in tallies[-1].items():
            attribute, group = answers.group_names.get(key, ("", ""))
            _add_interval(
                table,
                Where(version, attribute=attribute, group=group),
                tally,
            )
    clients = {}
    for client, answer in answers.last.items():
        version = CORRUPTED if answer.corrupted and CORRUPTED in answer.versions else CLEAN
        of_client = [answers.tallies(by_client[client], version) for by_client in answers.by_round]
        table |= answers.lines(Where(version, client=client), of_client, [client])
        groups = answers.grouped(of_client[-1], [client])
        clients[client] = Client(version, "own", groups=groups)
    local = resolve(body["method"], body["settings"]).local
    is_personal = personal_models or source.options.get("bn") == "local"
    warning = _warning(body.get("warning", ""), answers, is_personal)
    curves = {version: answers.curves(version) for version in answers.pooled}
    patients = dict(shared) if shared else None
    return RunScores(
        **about(path, source, local, answers.rounds),
        warning=warning,
        classes=answers.classes,
        attributes=answers.attributes,
        personal_models=personal_models,
        grouped=answers.grouped(clean, answers.last),
        curves=curves,
        shared_patients=patients,
        unscored=answers.unscored,
        clients=clients,
        table=table,
    ).write(folder)


def _write_rebuilt(path: Path, versions: Mapping[str, list[Tallies]]) -> None:
    """Write the logits and labels that tallies stand for.

    versions: version -> the tallies of all sites together in each round with a model.
    """
    rebuilt = {}
    for version, rounds in versions.items():
        for round, tallies in enumerate(rounds):
            for key, tally in tallies.items():
                rebuilt[f"{version}/{round}/{key}"] = tally.rebuilt()
    with create_hdf5(path, sum(logits.nbytes for logits, _ in rebuilt.values())) as file:
        for name, (logits, y) in rebuilt.items():
            file[f"{name}/y"] = y.astype(np.int16)
            file[f"{name}/logits"] = logits.astype(np.float32)


def _add_interval(table: Table, where: Where, tally: Tally) -> None:
    """Give scores their intervals, from resamples of images.

    Counts do not say which images are of one patient. Areas under curves of more than two classes
    have no interval: counts do not say which chances are of one image.
    """
    if not tally.images:
        return
    logits, y = tally.rebuilt()
    answered = Answered([logits], y)
    for metric, resampled in answered.resampled().items():
        score = table[where._replace(metric=metric)]
        if score.last is not None and (predictions.by_image(metric) or len(tally.table) == 2):
            answered.mark(score, resampled, None)


def _curve(tally: Tally) -> Curve:
    roc = {}
    for rate in RATES:
        point = tally.true_positives_at(rate)
        if point:
            roc[f"{rate:g}"] = RocPoint(*point)
    return Curve(roc, [ReliabilityBin(*numbers) for numbers in tally.reliability()])


def _warning(warning: str, answers: _Answers, is_personal: bool) -> str:
    """Notes for a reader: classes that sites hide, and how exact areas under curves are."""
    notes = [warning, _classes_note(answers)]
    corrupted = any(answer.corrupted for answer in answers.last.values())
    if corrupted and CORRUPTED not in answers.pooled:
        notes.append(
            "only clean images are scored over all: not all sites have them corrupted in one way"
        )
    if is_personal:
        notes.append("every client's own model answers, on that client's test images")
    notes.append(_resolution_note(answers))
    return "; ".join(filter(None, notes))


def _classes_note(answers: _Answers) -> str:
    """A note on the classes that sites hide, which no score covers; "" where there are none."""
    if not answers.hidden_classes:
        return ""
    classes = [answers.classes[c] for c in answers.hidden_classes]
    hiding = answers.hiding
    sites = console.listed([*hiding], "or")  # each hides some of the classes
    images = sum(answer.images for answer in answers.last.values())
    scored = answers.pooled[CLEAN][-1][ALL].images
    class_names = console.listed(classes)
    smallest = _smallest(hiding.values())
    return (
        f"no score covers {class_names}, whose test images {sites} "
        f"hides (classes under {smallest} images, and others that would reveal "
        f"them): {scored:,} of {images:,} test images are scored"
    )


def _resolution_note(answers: _Answers) -> str:
    """A note on how exact areas under curves are; "" where they are exact to a bin."""
    pooled = list(chain(*answers.pooled.values()))
    parts = list(pooled)
    for by_client in answers.by_round:
        for answer in by_client.values():
            parts += [answers.tallies(answer, version) for version in answer.versions]
    of_all = max(tallies[ALL].resolution() for tallies in pooled)
    of_parts = max(tally.resolution() for tallies in parts for tally in tallies.values())
    if of_parts <= 1 / FINE:
        return ""
    error = max(of_all, 1 / FINE)
    return (
        f"AUCs are exact to {_ceiled(error)} on all images and to "
        f"{_ceiled(of_parts)} in groups and at single sites, since the sites sent histograms"
    )


def _ceiled(number: float) -> str:
    """A number rounded up to one digit."""
    digits = -math.floor(math.log10(number))
    scale = 10**digits
    ceiled = math.ceil(number * scale) / scale
    decimals = max(digits, 0)
    return f"{ceiled:.{decimals}f}"
