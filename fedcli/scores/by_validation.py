"""The models that a run keeps, on its clients' validation images, and which of them a rule takes."""

from pathlib import Path
from typing import Any

from ..data import manifest
from ..errors import FedcliError
from ..metrics import Groupings
from ..runs.finished import BEST, Run
from ..runs.scoring import curve
from .answering import answers_of
from .choice import RULES, WORDS, Candidate, values
from .choice import chosen as chosen_of
from .clinical.points import Seen, validation
from .facts import Images, facts
from .parts import Chosen
from .table import BEST as OF_BEST
from .table import Table, Where

NONE = "partition with --val 0.2 and train again"


def check(run: Path) -> None:
    """Refuse a run without validation images, before it is scored. Raises FedcliError."""
    if not manifest.read(run, "run").body.get("best"):
        raise FedcliError(f"{run} has no validation images to choose a model by", NONE)


def candidates(run: Run, groupings: Groupings) -> list[Candidate]:
    """Every kept model by its round, rising, of a run that check() has passed."""
    best = run.manifest.body["best"]
    names = {name: values for name, (_, values) in groupings.items()}
    kept: dict[int, int | str] = {best["round"]: BEST} | {round: round for round in run.rounds}
    return [
        _candidate(r, validation(run, names, kept_round=kept[r]), best["metric"])
        for r in sorted(kept)
    ]


def _candidate(round: int, images: Seen, metric: str) -> Candidate:
    def score(at: Any) -> float | None:
        return curve(images.logits[at], images.y[at])[metric] if len(images.y[at]) else None

    members = {
        name: {value: place == k for k, value in enumerate(names) if (place == k).any()}
        for name, (place, names) in images.groupings.items()
    }
    return Candidate(
        round,
        score(slice(None)),
        {name: {value: score(at) for value, at in each.items()} for name, each in members.items()},
        {
            name: {value: int(at.sum()) for value, at in each.items()}
            for name, each in members.items()
        },
    )


def best(
    run: Run, images: Images, known: list[Candidate], rule: str | None
) -> tuple[Chosen | None, Table]:
    """The round that was best on the clients' validation parts, by the rule if there is one, and its test scores; None
    where nothing was validated. Raises FedcliError where the rule has no meaning."""
    chosen = run.manifest.body.get("best")
    if not chosen:
        return None, {}
    taken: int | str = BEST
    if rule:
        place, metric = chosen_of(known, rule), chosen["metric"]
        if place is None:
            what = f"--choose {rule} has no meaning: no validation image belongs to a group with a {metric}"
            raise FedcliError(what, f"ask for groups with --by, or use --choose {RULES[0]}")
        value = values(known, rule)[place]
        chosen = {"round": known[place].round, "metric": WORDS[rule].format(metric), "score": value}
        taken = chosen["round"] if chosen["round"] in run.rounds else BEST
    table: Table = {}
    for version in run.data.test:
        rounds = [(chosen["round"], answers_of(run, taken, version))]
        table |= facts(Where(version, model=OF_BEST), images, rounds, images.groupings)
    return Chosen(chosen["round"], chosen["metric"], chosen["score"]), table
