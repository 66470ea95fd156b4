"""Small federations whose test images are drawn at random, and what an evaluation over their sites says of them."""

import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcli import metrics
from fedcli.comparison import resampling
from fedcli.comparison.cautions import hidden_groups, unreliable_groups
from fedcli.comparison.systems import LAST5, Scored
from fedcli.comparison.tested import compare
from fedcli.data import manifest, shared_patients
from fedcli.data.shard import Shard
from fedcli.errors import FedcliError
from fedcli.metrics.metric import PROBABILITIES
from fedcli.reporting import comparison as texts_of_comparison
from fedcli.reporting import head, pipelines, single_runs
from fedcli.reporting.cards import cards
from fedcli.reporting.rows import rows
from fedcli.scores import views
from fedcli.scores.facts import ScoredImages, facts
from fedcli.scores.scores import Part, RunScores
from fedcli.scores.table import Where
from fedcli.sites import answers, evaluation
from fedcli.sites.description import hidden, patients_shown
from fedcli.sites.tallies import FINE, tallied, to_arrays

CLIENTS = "north", "south", "west"
ROUNDS = [1, 2]
BINS = 1 / 1024  # by which steps of 1/2048 may move a calibration error, and a gap of two of them
SUMMED = 5  # an equity-scaled AUC sums up to three distances of two AUCs, and has one more
EXACT = re.compile(r"to ([\d.]+) in groups")
IN_GROUP = re.compile(r"([\d,]+) of ([\d,]+) images (?:is|are) hidden by the sites' policies")
IN_ALL = re.compile(r"([\d,]+) of ([\d,]+) test images are scored")
LEFT_OUT = re.compile(r"([\d,]+) (?:is|are) not, as sites hide images of their classes")
OF_SITE = re.compile(r"(north|south|west): (some|[\d,]+)(?: of ([\d,]+))?")
OF_ALL = re.compile(r"(some|[\d,]+)(?: of ([\d,]+))? test patients")
PARTS = "train", "val", "test"


@dataclass(frozen=True)
class Hospital:
    """The test images of a site, and what a model answers in each of ROUNDS. smallest: of its policy."""

    y: np.ndarray  # [N]
    groups: dict[str, np.ndarray]  # attribute -> [N], -1 unknown
    logits: list[np.ndarray]  # [N, C] of each round
    smallest: int
    patients: dict[str, list[str]] = field(default_factory=dict)  # of the images of each part


@dataclass(frozen=True)
class Federation:
    classes: list[str]
    attributes: dict[str, list[str]]
    hospitals: dict[str, Hospital]

    def images(self, clients, classes):
        """All that is to be known of the images of some classes, and their logits by round."""
        parts = [self.hospitals[client] for client in clients]
        y = np.concatenate([part.y for part in parts])
        in_classes = np.isin(y, classes)
        groupings = {}
        for name, values in self.attributes.items():
            groups = np.concatenate([part.groups[name] for part in parts])
            groupings[name] = (groups[in_classes], values)
        logits = []
        for number in range(2):
            rows = np.concatenate([part.logits[number] for part in parts])
            logits.append(rows[in_classes])
        return ScoredImages(y[in_classes], self.classes, groupings), logits


def drawn(rng) -> Federation:
    """Two or three sites, two to four classes, one or two attributes; cells of any size, and some without an image."""
    classes = [f"class {c}" for c in range(rng.integers(2, 5))]
    attributes = {"sex": ["f", "m"], "age": ["young", "middle", "old"]}
    if rng.random() < 0.5:
        del attributes["age"]
    hospitals = {}
    for client in CLIENTS[: rng.integers(2, 4)]:
        hospitals[client] = _hospital(rng, len(classes), attributes)
    return Federation(classes, attributes, hospitals)


def _hospital(rng, classes, attributes):
    count = int(rng.integers(20, 160))
    y = rng.choice(classes, count, p=rng.dirichlet(np.full(classes, 3.0)))
    groups = {}
    for name, values in attributes.items():
        shares = rng.dirichlet(np.full(len(values), 2.0))
        groups[name] = rng.choice(len(values), count, p=shares)
        if rng.random() < 0.4:
            groups[name][rng.choice(count, rng.integers(1, 8), replace=False)] = -1
    shift = rng.normal(0, 1, classes)  # of the site: a model is surer of some classes there
    logits = []
    for _ in ROUNDS:
        noise = rng.normal(0, 1, (count, classes))
        logits.append(noise + shift + np.eye(classes)[y])
    return Hospital(y, groups, logits, int(rng.choice([1, 2, 5, 10])), _patients(rng, count))


def _patients(rng, count):
    """The patients of images that are divided image by image, patient by patient, or of whom nobody knows."""
    most = int(rng.choice([0, 8, 40, 200]))
    if not most:
        return {}
    beginning = {"train": 0, "val": 0, "test": 0}
    if rng.random() < 0.3:
        beginning["test"] = most
    ids = {}
    for part, images in (("train", 2 * count), ("val", count // 4), ("test", count)):
        numbers = beginning[part] + rng.integers(0, most, images)
        ids[part] = [str(number) for number in numbers]
    return ids


def answered_otherwise(federation, rng) -> Federation:
    """The same hospitals and policies, with the answers of another model."""
    hospitals = {}
    for client, hospital in federation.hospitals.items():
        logits = [table + rng.normal(0, 0.5, table.shape) for table in hospital.logits]
        hospitals[client] = replace(hospital, logits=logits)
    return replace(federation, hospitals=hospitals)


def answered(federation):
    """The answers of all sites in each round, as the coordinator checked them."""
    rounds = []
    for r in range(len(ROUNDS)):
        rounds.append(
            {
                name: _answer(federation, name, hospital, r)
                for name, hospital in federation.hospitals.items()
            }
        )
    return rounds


def described(federation, hospital):
    """Column -> value -> images of the test part as a site describes them, None where it hides them."""
    columns = {"class": (hospital.y, federation.classes)}
    columns |= {
        name: (hospital.groups[name], values) for name, values in federation.attributes.items()
    }
    counts = {}
    for name, (column, values) in columns.items():
        images = {value: int((column == k).sum()) for k, value in enumerate(values)}
        unknown = int((column < 0).sum())
        images |= {"unknown": unknown} if unknown else {}
        counts[name] = hidden(images, hospital.smallest)
    return counts


def shown_by(federation, hospital, r=0):
    """Counts and hidden groups of a round that a site may send."""
    y = torch.from_numpy(hospital.y)
    groups = {name: torch.from_numpy(column) for name, column in hospital.groups.items()}
    shard = Shard(torch.empty(0), y, y, np.array([""] * len(y)), groups, len(federation.classes), 1)
    return tallied(hospital.logits[r], shard, federation.attributes, hospital.smallest)


def known(federation, client):
    """Facts of a site that a coordinator reads in its description."""
    hospital = federation.hospitals[client]
    counts = {name: {"test": cells} for name, cells in described(federation, hospital).items()}
    return {
        "client": client,
        "classes": federation.classes,
        "attributes": federation.attributes,
        "images": {"test": len(hospital.y)},
        "counts": counts,
    }


def _answer(federation, client, hospital, r):
    tallies, hidden_groups = shown_by(federation, hospital, r)
    scalars = {
        "left_out": len(hospital.y) - tallies["all"].images,
        "hidden": hidden_groups,
        "smallest_cell": hospital.smallest,
        "corrupted": False,
    }
    arrays = to_arrays({"clean": tallies})
    return answers.counts((scalars, arrays), known(federation, client))


def shared_by_site(federation):
    """The entry on shared patients that each site describes; None of one that knows no patient."""
    entries = {}
    for client, hospital in federation.hospitals.items():
        ids = hospital.patients
        entry = shared_patients.of_site("patient", *map(ids.get, PARTS)) if ids else {}
        entries[client] = patients_shown(entry, hospital.smallest).get(shared_patients.KEY)
    return entries


def scored(
    federation, run: Path, folder: Path, *, attributes_scored=(), refused=False
) -> RunScores | None:
    """The scores over the sites, in a folder of their own; None where every class is hidden.

    run: any run.json, for what a run was. attributes_scored: of its attributes; none: all. refused: whether that raises.
    """
    names = attributes_scored or [*federation.attributes]
    attributes = {name: federation.attributes[name] for name in names}
    of_sites = evaluation._Answers(ROUNDS, answered(federation), federation.classes, attributes)
    options = {"by": names, "federated": True, "rounds": ROUNDS}
    shared = shared_patients.of_sites(shared_by_site(federation)).get(shared_patients.KEY)
    try:
        path = manifest.stage(
            "scores",
            folder=folder,
            made_by=["evaluate"],
            options=options,
            parents=[run],
            build=lambda temporary: evaluation._scored(run, of_sites, temporary, shared),
        )
    except FedcliError as error:
        if refused or "enough test images at every site" not in error.sentence:
            raise
        return None
    return RunScores.read(path)


def covered(federation):
    """Places of the classes that no site hides."""
    hides = [described(federation, hospital)["class"] for hospital in federation.hospitals.values()]
    places = []
    for c, name in enumerate(federation.classes):
        if None not in [cells[name] for cells in hides]:
            places.append(c)
    return places


def faults(federation, scores: RunScores, folder: Path) -> list[str]:
    """Everything that the scores say and that is neither so on all images together nor called hidden."""
    faults_found = []
    classes = covered(federation)
    for client in ("", *federation.hospitals):
        clients = [client] if client else [*federation.hospitals]
        images, logits = federation.images(clients, classes)
        rounds = [(number, [table]) for number, table in zip(ROUNDS, logits, strict=True)]
        where = Where("clean", client=client)
        pooled = facts(where, images, rounds, federation.attributes)
        if len(classes) < len(federation.classes):
            pooled = _as_hidden(pooled, where, len(federation.classes))
        part = scores.part(client=client)
        faults_found += _wrong_lines(federation, scores, clients, pooled, where)
        faults_found += _wrong_between(
            part, Part.of(Where(client=client), pooled), federation, _exact(scores)
        )
        groupings = scores.clients[client].groups if client else scores.grouped
        hidden_classes = [name for c, name in enumerate(federation.classes) if c not in classes]
        faults_found += _wrong_unknown(images, groupings, hidden_classes)
        if not client:
            truth = replace(scores, table=pooled, warning="")
            faults_found += _wrong_prints(federation, scores, truth, folder)
    faults_found += _wrong_patients(federation, scores)
    faults_found += _wrong_share(federation, scores, classes, folder)
    return [*faults_found, *_wrong_warning(federation, scores, classes)]


def _as_hidden(pooled, where, classes):
    """Scores of all images together as they may be said where some classes are hidden: of one class accuracy alone."""
    table = {}
    missing = len(pooled[where._replace(metric="accuracy")].missing)
    for line, score in pooled.items():
        small = re.sub(r"(\d|no) (test )?image(s?)(?! of)", r"\1 scored image\3", score.small)
        small = re.sub(r"(\d) image(s?)", r"\1 scored image\2", small)
        is_of_one = classes - max(missing, len(score.missing)) < 2
        values = score.values
        if is_of_one and line.metric != "accuracy":
            values = [None] * len(values)
        table[line] = replace(score, small=small, values=values)
    return table


def _number(text):
    return int(text.replace(",", "")) if text and text != "some" else None


def _true_patients(federation):
    """Shared and all test patients of each site that knows them."""
    counts = {}
    for client, hospital in federation.hospitals.items():
        if hospital.patients:
            ids = {part: set(of_part) for part, of_part in hospital.patients.items()}
            shared = ids["test"] & (ids["train"] | ids["val"])
            counts[client] = len(shared), len(ids["test"])
    return counts


def _wrong_patients(federation, scores):
    """Numbers of patients on both sides of a split that are not so, or that a policy hides; a silence about them."""
    whole = shared_patients.sentence(scores.shared_patients)
    sentence = whole.partition(" validation ")[0]
    truth = _true_patients(federation)
    sharing = {client for client, (shared, _) in truth.items() if shared}
    printed = {client: numbers for client, *numbers in OF_SITE.findall(sentence)}
    if sharing - printed.keys():
        yield f"patients of {sorted(sharing - printed.keys())} are on both sides, and it says {sentence!r}"
    for client, numbers in printed.items():
        shared, of_all = map(_number, numbers)
        if shared not in (None, truth[client][0]) or of_all not in (None, truth[client][1]):
            yield f"{client}: {numbers}, not {truth[client]}"
        smallest = federation.hospitals[client].smallest
        others = truth[client][1] - truth[client][0]
        if shared is not None and (0 < shared < smallest or 0 < others < smallest):
            yield f"{client}: a small number of patients is shown by {sentence!r}"
        if (shared is None) and "hidden by the sites' policies" not in whole:
            yield f"{client} hides a number, and nothing says so: {sentence!r}"
    total = OF_ALL.search(sentence)
    sums = [sum(column) for column in zip(*truth.values(), strict=True)]
    for text, true in zip(total.groups() if total else (), sums, strict=False):
        if _number(text) not in (None, true):
            yield f"{sentence!r}, where it is {true}"


def _wrong_share(federation, scores, classes, folder):
    """Reports, cards and JSON of scores of some classes that do not say their share of the test images."""
    total = sum(len(hospital.y) for hospital in federation.hospitals.values())
    images, _ = federation.images([*federation.hospitals], classes)
    count = len(images.y)
    is_part = len(classes) < len(federation.classes)
    (row,) = rows([folder / "scores.json"], warned=True)
    (card, *_) = cards(row)
    words = " ".join(head.about([row]))
    brief = json.loads(json.dumps(pipelines.of_row(row)))
    facts_of_card = dict(card.facts)
    for name, text in {"report": words, "card": facts_of_card["Test images"]}.items():
        counts = _counts(IN_ALL, text)
        if counts != ([count, total] if is_part else []):
            yield f"the {name} says {text!r}, of {count} scored of {total} images"
        hidden_images = LEFT_OUT.search(text)
        if is_part and _number(hidden_images[1]) != total - count:
            yield f"the {name} says {text!r}, where {total - count} are hidden"
    present = sorted({federation.classes[c] for c in images.y})
    if is_part and brief["unscored"]["scored"] != present:
        yield f"its classes are {brief['unscored']['scored']}, not {present}"
    headline = brief["scores"]["balanced_accuracy"]["clean"]["mean"]
    if is_part and len(present) < 2:
        if headline is not None or scores.versions["clean"]["balanced_accuracy"].interval:
            yield "the recall of one class is called balanced accuracy"
        if "accuracy and no other score" not in words:
            yield f"nothing says why there is no score: {words!r}"
        if not pipelines.broken(pipelines.limits(["balanced accuracy < 1"]), [row]):
            yield "a limit of a score that is not there is passed"


def _tolerance(metric, exact):
    """By how much a number may differ. exact: to which AUCs are, by the warning."""
    name = metric.removeprefix("es_")
    if name in metrics.METRICS and metrics.get(name).sees != PROBABILITIES:
        return 1e-12
    return BINS + SUMMED * exact if metric.startswith("es_") else BINS + 2 * exact


def _exact(scores):
    """To which AUCs of groups and sites are exact, as the warning says."""
    number = EXACT.search(scores.warning)
    return float(number[1]) if number else 1 / FINE


def _alike(mine, true, metric, exact):
    if len(mine) != len(true):
        return False
    for value, other in zip(mine, true, strict=True):
        if (value is None) != (other is None):
            return False
        if value is not None and value != pytest.approx(other, abs=_tolerance(metric, exact)):
            return False
    return True


def _wrong_lines(federation, scores, clients, pooled, where):
    table = {line: s for line, s in scores.table.items() if line.client == where.client}
    if table.keys() != pooled.keys():
        yield f"lines {sorted(table.keys() ^ pooled.keys())[:3]}"
    hiding = {name for name, groups_hidden in _hidden(table).items() if groups_hidden}
    for line in table.keys() & pooled.keys():
        mine = table[line]
        true = pooled[line]
        if mine.hidden:
            if any(value is not None for value in mine.values):
                yield f"{line} is hidden and has a score"
            if line.metric == "accuracy":  # the same words as of every other metric
                yield from _wrong_words(federation, clients, line, mine)
        elif line.attribute in hiding and not line.group:
            if any(value is not None for value in mine.values):
                yield f"{line} compares groups, of which one is hidden"
        elif not _alike(mine.values, true.values, line.metric, _exact(scores)):
            yield f"{line} is {mine.values}, not {true.values}"
        elif (mine.count, mine.missing, mine.small) != (true.count, true.missing, true.small):
            yield f"{line} is of {mine.count} images ({mine.small}), not {true.count} ({true.small})"


def _hidden(table):
    """Attribute -> its hidden groups."""
    groups = {}
    for line, score in table.items():
        if line.group:
            groups.setdefault(line.attribute, set())
            if score.hidden:
                groups[line.attribute].add(line.group)
    return groups


def _counts(pattern, sentence) -> list[int]:
    """The two numbers that a sentence says; none where it says none."""
    match = pattern.search(sentence)
    return [int(text.replace(",", "")) for text in match.groups()] if match else []


def _wrong_words(federation, clients, line, score):
    """Words of a hidden group: its images and how many are hidden, where that is printed."""
    number = federation.attributes[line.attribute].index(line.group)
    total = sent = 0
    for client in clients:
        hospital = federation.hospitals[client]
        total += int((hospital.groups[line.attribute] == number).sum())
        tallies, _ = shown_by(federation, hospital)
        sent += tallies[f"{line.attribute}/{number}"].images
    counts = _counts(IN_GROUP, score.small)
    if counts and counts != [total - sent, total]:
        yield f"{line} says {score.small!r}, which are {total - sent} of {total}"
    if score.count not in (0, total):
        yield f"{line} is of {score.count} images, not {total}"


def _wrong_between(part, pooled, federation, exact):
    for attribute in federation.attributes:
        groups = part.groups[attribute]["clean"]
        is_partial = any(score.hidden for column in groups.values() for score in column.values())
        truth = pooled.between(attribute, "clean")
        lies = part.between(attribute, "clean")
        if lies.keys() != truth.keys():
            yield f"{attribute}: other numbers between groups"
        for line in lies.keys() & truth.keys():
            if is_partial and any(value is not None for value in lies[line].values):
                yield f"{line} is of some groups alone"
            values = lies[line].values, truth[line].values
            if not is_partial and not _alike(*values, line.metric, exact):
                yield f"{line} is {lies[line].values}, not {truth[line].values}"
        for metric in groups:
            edges = part.edges(attribute, "clean", metric)
            if is_partial and edges:
                yield f"{attribute}: a worst group among some groups alone"


def _wrong_unknown(images, groupings, hidden_classes):
    for name, grouped in groupings.items():
        true = int((images.groupings[name][0] < 0).sum())
        if grouped.unknown not in (None, true):
            yield f"{name} is unknown of {grouped.unknown} images, not of {true}"
        expected = [
            text
            for text in images.grouped()[name].undefined_rates
            if not any(f"rate of {absent} in" in text for absent in hidden_classes)
        ]
        if not grouped.hidden and grouped.undefined_rates != expected:
            yield f"{name} lacks the rates {grouped.undefined_rates}, not {expected}"
        if grouped.hidden and grouped.undefined_rates:
            yield f"{name} has rates that are not defined, of hidden groups"


def _wrong_warning(federation, scores, classes):
    total = sum(len(hospital.y) for hospital in federation.hospitals.values())
    images, _ = federation.images([*federation.hospitals], classes)
    absent = [name for c, name in enumerate(federation.classes) if c not in classes]
    counts = _counts(IN_ALL, scores.warning)
    unnamed = [name for name in absent if name not in scores.warning]
    if bool(counts) != bool(absent) or unnamed:
        yield f"classes {absent} are hidden, and it says {scores.warning!r}"
    if counts and counts != [len(images.y), total]:
        yield f"it says {counts}, of {len(images.y)} and {total}"
    if scores.images != len(images.y):
        yield f"it says {scores.images} test images, of {len(images.y)}"


def _wrong_prints(federation, scores, truth, folder):
    """Tables by group, sentences on groups and worst groups, against those of all images together."""
    mine, other = (Scored(folder / "scores.json", {}, which) for which in (scores, truth))
    metric = scores.usual[0]
    true = {table.title: table for table in single_runs.by_group(other, metric)}
    for table in single_runs.by_group(mine, metric):
        yield from _wrong_rows(table, true[table.title])
    for metric in scores.usual:
        yield from _wrong_interval(mine, Where("clean", metric=metric))
    sentences = " ".join([*unreliable_groups(scores), *single_runs.legend(scores)])
    for attribute in federation.attributes:
        for group in hidden_groups(scores, attribute):
            yield from _wrong_sentences(sentences, f"{attribute} {group}")
        if hidden_groups(scores, attribute):
            yield from _wrong_extremes(scores, mine, attribute, metric)


def _wrong_rows(table, true):
    """Rows of a table by group whose cells are not those of all images together."""
    rows = {row[0].text.rstrip("†"): row for row in true.rows}
    partial = any(row[1].text == "hidden" for row in table.rows)
    for row in table.rows:
        name = row[0].text.rstrip("†")
        cells = [cell.text.partition(" ")[0] for cell in row[1:]]
        if partial and name == "gap":
            yield f"a gap of some groups alone: {cells}"
        expected = [cell.text.partition(" ")[0] for cell in rows[name][1:]]
        if cells != expected and cells[0] != "hidden":
            yield f"{table.title}, {name}: {cells}, not {expected}"
        if cells[0] == "hidden" and cells[1] != "-":
            yield f"{name} is hidden and has the score {cells[1]}"


def _wrong_sentences(sentences, group):
    """Sentences that do not call a hidden group hidden, or speak of it as of a small one."""
    if f"{group}: " not in sentences:
        yield f"{group} is hidden, and no sentence says so"
    if f"{group} has no" in sentences or f"{group} (" in sentences:
        yield f"{sentences!r} speaks of {group} as of a group with few images"


def _wrong_extremes(scores, mine, attribute, metric):
    """The gap and the worst group of an attribute of which a group is hidden."""
    lies = scores.part().lies(attribute, "clean", metric, views.GAP)
    if lies and lies.last is not None:
        yield f"the gap by {attribute} is of some groups alone"
    worst = f"worst group by {attribute} "
    if any(worst in text for text in single_runs.worst_groups(mine)):
        yield f"a worst group by {attribute} of some groups alone"


def _wrong_interval(run, where):
    """An interval that a report shows beside a score, and that the score is not in."""
    score = run.score(where)
    limits = resampling.bounds([run], where, LAST5)
    if score is None or score.mean is None or limits is None:
        return
    if not limits[0] - BINS <= score.mean <= limits[1] + BINS:
        yield f"{where.metric} is {score.mean}, with the interval {limits}"


def wrong_comparison(federation, paths) -> list[str]:
    """Everything that a comparison of two evaluations over the sites says and that is not so."""
    scores = RunScores.read(paths[0])
    try:
        compared = compare(paths[:1], paths[1:], resamples=100)
    except FedcliError as error:
        if scores.unscored and scores.unscored.of_one_class:
            return [] if "of one class alone" in error.sentence else [error.sentence]
        if len(federation.classes) > 2 and "no score in common" not in error.sentence:
            return [error.sentence]
        return []
    found = []
    count = f"{scores.images:,}{' scored' if scores.unscored else ''} images"
    if f"resamples of the {count}" not in texts_of_comparison.legend(compared):
        found.append(f"the resamples are not called those of {count}")
    for row in compared.rows:
        if scores.versions["clean"][row.metric].last is None:
            found.append(f"{row.metric} is compared, and there is none")
    for attribute, tests in compared.groups.items():
        found += _wrong_groups(scores, texts_of_comparison.notes(compared), attribute, tests)
    return found


def _wrong_groups(scores, notes, attribute, tests):
    """Notes and tests of groups that have no score."""
    compared_groups = {row.group for row in tests.each}
    for group in scores.attributes[attribute]:
        about = [note for note in notes if note.startswith(f"{attribute} {group}: ")]
        if group not in compared_groups and any("unreliable" in note for note in about):
            yield f"no score is called unreliable: {about}"
    hidden_names = hidden_groups(scores, attribute).keys()
    for group in compared_groups & hidden_names:
        yield f"{attribute} {group} is hidden and compared"
    if hidden_names and tests.gaps:
        yield f"a gap by {attribute} of some groups alone"


def revealed(federation) -> list[str]:
    """Small cells that follow from the sums of what sites say: each is a linear equation in the hidden cells."""
    cells_revealed = []
    for client, hospital in federation.hospitals.items():
        counts = described(federation, hospital)
        tallies_shown = shown_by(federation, hospital)
        for name, values in federation.attributes.items():
            for c, g in _determined(
                federation, hospital, counts, tallies_shown, name, [*values, "unknown"]
            ):
                cells_revealed.append(f"{client}: {federation.classes[c]} of {name} {g}")
    return cells_revealed


def _determined(federation, hospital, counts, tallies_shown, name, values):
    """Class and group of each small cell whose number follows from the shown cells and the described sums."""
    shape = len(federation.classes), len(values)
    tallies, hidden_groups = tallies_shown
    cells = np.zeros(shape, int)
    np.add.at(cells, (hospital.y, hospital.groups[name]), 1)
    is_hidden = np.ones(shape, bool)  # of a group that lacks a cell nobody knows which
    for g in range(len(values) - 1):
        key = f"{name}/{g}"
        is_hidden[:, g] = tallies[key].table.sum(1) == 0
        if key not in hidden_groups:
            is_hidden[:, g] &= [counts["class"][value] is None for value in federation.classes]
    places = np.flatnonzero(is_hidden)
    sums = [c for c, value in enumerate(federation.classes) if counts["class"][value] is not None]
    equations = [np.eye(shape[0])[[c]].T @ np.ones((1, shape[1])) for c in sums]
    for g, value in enumerate(values):
        if counts[name].get(value, 0) is not None:
            equations.append(np.ones((shape[0], 1)) @ np.eye(shape[1])[[g]])
    equations.append(np.ones(shape))
    coefficients = np.array([equation.ravel()[places] for equation in equations])
    rank = np.linalg.matrix_rank(coefficients)
    for k, cell in enumerate(places):
        with_cell = np.vstack([coefficients, np.eye(len(places))[k]])
        small = 0 < cells.flat[cell] < hospital.smallest
        if small and np.linalg.matrix_rank(with_cell) == rank:
            c, g = divmod(int(cell), shape[1])
            yield c, values[g]
