"""The models that a run keeps, on its clients' validation images, and a rule's choice of one."""

from pathlib import Path
from typing import Any

from ..data import manifest
from ..errors import FedcliError
from ..metrics import Groupings
from ..runs.finished import BEST, FinishedRun
from ..runs.scoring import curve
from .answering import answers_of
from .choice import RULES, WORDS, Candidate, values
from .choice import chosen as chosen_of
from .clinical.points import Seen, validation
from .facts import ScoredImages, facts
from .parts import Chosen
from .table import BEST as OF_BEST
from .table import Number, Table, Where

NONE = "partition with --val 0.2 and train again"


def check(run: Path) -> None:
    """Refuse a run without validation images, before it is scored. Raises FedcliError."""
    if not manifest.read(run, "run").body.get("best"):
        raise FedcliError(f"{run} has no validation images to choose a model by", NONE)


def candidates(run: FinishedRun, groupings: Groupings) -> list[Candidate]:
    """Every kept model by its round, rising, of a run that check() has passed."""
    best = run.manifest.body["best"]
    names = {name: values for name, (_, values) in groupings.items()}
    models: dict[int, int | str] = {best["round"]: BEST}
    for number in run.rounds:
        models[number] = number
    rising = []
    for number in sorted(models):
        images = validation(run, names, kept_round=models[number])
        rising.append(_candidate(number, images, best["metric"]))
    return rising


def _candidate(number: int, images: Seen, metric: str) -> Candidate:
    def score(members: Any) -> float | None:
        y = images.y[members]
        return curve(images.logits[members], y)[metric] if len(y) else None

    scores: dict[str, dict[str, Number]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for attribute, (codes, names) in images.groupings.items():
        scores[attribute] = {}
        sizes[attribute] = {}
        for code, group in enumerate(names):
            members = codes == code
            size = int(members.sum())
            if size:
                scores[attribute][group] = score(members)
                sizes[attribute][group] = size
    return Candidate(number, score(slice(None)), scores, sizes)


def best(
    run: FinishedRun,
    images: ScoredImages,
    models: list[Candidate],
    rule: str | None,
) -> tuple[Chosen | None, Table]:
    """The round that was best on the clients' validation parts, and its test scores.

    The rule chooses it, if there is one. None where nothing was validated. Raises FedcliError where
    the rule has no meaning.
    """
    body = run.manifest.body.get("best")
    if not body:
        return None, {}
    chosen = Chosen(body["round"], body["metric"], body["score"])
    model: int | str = BEST
    if rule:
        chosen = _by_rule(models, rule, chosen.metric)
        if chosen.round in run.rounds:
            model = chosen.round
    table: Table = {}
    for version in run.data.test:
        rounds = [(chosen.round, answers_of(run, model, version))]
        table |= facts(Where(version, model=OF_BEST), images, rounds, images.groupings)
    return chosen, table


def _by_rule(models: list[Candidate], rule: str, metric: str) -> Chosen:
    index = chosen_of(models, rule)
    if index is None:
        raise FedcliError(
            f"--choose {rule} has no meaning: no validation image belongs to a group with a "
            f"{metric}",
            f"ask for groups with --by, or use --choose {RULES[0]}",
        )
    value = values(models, rule)[index]
    assert value is not None  # a rule takes only such a model
    return Chosen(models[index].round, WORDS[rule].format(metric), value)
