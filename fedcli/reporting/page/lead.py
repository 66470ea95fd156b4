"""The head of a page: where its images come from, the comparison in one sentence, the numbers that a reader looks for
first."""

from collections.abc import Sequence

from ... import console
from ...scores.scores import Scores
from ..evidence import card_of
from ..head import chance
from ..row import Row

MADE_UP = "Generated images: a made-up sample in the layout of {}. Its numbers say nothing about patients."
MOST_NAMED = 7  # classes or clients


def title(compared: Sequence[Row]) -> str:
    """The methods and their data."""
    labels = list(dict.fromkeys(row.label for row in compared))
    named = ", ".join(labels[:-1]) + f" and {labels[-1]}" if len(labels) > 1 else labels[0]
    datasets = list(dict.fromkeys(row.scores.dataset for row in compared))
    return f"{named if len(labels) < 6 else f'{len(labels)} methods'} on {', '.join(datasets)}"


def generated(compared: Sequence[Row]) -> str:
    """A sentence that says so where images are generated, as their samples and cards declare; "" of real ones."""
    said = [
        MADE_UP.format(row.scores.dataset) if row.scores.sample else card_of(row.scores).get("generated", "")
        for row in compared
    ]
    return " ".join(filter(None, dict.fromkeys(said)))


def sentence(compared: Sequence[Row]) -> str:
    """The comparison in one sentence."""
    several = len(compared) > 1
    what = f"{len(compared)} systems" if several else compared[0].label
    datasets = list(dict.fromkeys(described(row.scores) for row in compared))
    seeds = {row.runs for row in compared}
    repeated = f" with {console.counted(max(seeds), 'seed', 'seeds')}{' each' * several}" if len(seeds) == 1 else ""
    clients = _span("client", [row.scores.roster_size for row in compared])
    rounds = _span("round", [row.scores.rounds for row in compared])
    data = f"{'; '.join(datasets)}. {console.capital(what)}"
    return f"{data} trained by {clients} for {rounds}{repeated}, {_corrupted(compared)}."


def described(scores: Scores) -> str:
    """The images in words; of a card of any images, which has no classes, without what it says of their files."""
    card = card_of(scores)
    title = card.get("title", scores.dataset)
    return title if card.get("classes") else title.partition(":")[0]


def facts(compared: Sequence[Row]) -> list[tuple[str, str]]:
    """The numbers a reader looks for first; of data and model those that all systems share."""
    each = [
        {
            "Test images": _tested(row.scores),
            "Classes": _named(row.scores.classes),
            "Chance": chance([row]).partition(": ")[2].rstrip("."),
            "Clients": _named(list(row.scores.clients)) or str(row.scores.roster_size),
            "Model": _model(row.scores),
        }
        for row in compared
    ]
    values_of = {name: {about[name] for about in each} for name in each[0]}
    return [(name, values.pop()) for name, values in values_of.items() if len(values) == 1 and "" not in values]


def _tested(scores: Scores) -> str:
    known = [score for score in scores.versions["clean"].values() if score.unit.startswith("patient")]
    return f"{scores.images:,}" + (f" of {known[0].units:,} patients or lesions" if known else "")


def _named(names: Sequence[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if 0 < len(names) <= MOST_NAMED else f"{len(names) or ''}"


def _model(scores: Scores) -> str:
    about = scores.model
    trained = f", {about['trainable']:,} trained parameters" if about.get("trainable") else ""
    return f"{about['name']}{trained}" if about.get("name") else ""


def _span(noun: str, numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low if low == high else f'{low} to {high}'} {noun}{'s' * (high != 1)}"


def _corrupted(compared: Sequence[Row]) -> str:
    kinds = [row.scores.corruption for row in compared]
    about = kinds[0]
    if not any(kinds):
        return "on images as they are"
    if about is None or any(kind != about for kind in kinds):
        return "on data that are not the same for all (see the notes)"
    who = console.counted(len(about["clients"]), "client", "clients")
    named = f" ({', '.join(about['clients'])})" if 0 < len(about["clients"]) < 4 else ""
    kind = about["kind"].replace("-", " ")
    return f"with {kind} of severity {about['severity']} on {who}{named} and on a copy of the test set"
