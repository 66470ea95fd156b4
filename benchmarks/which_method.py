"""docs/which-method.md and docs/which-method-tables.md, from the CSV files of results/.

    python benchmarks/which_method.py

The text is in which_method.md and which_method_tables.md; a field in braces stands for numbers of
the CSV files, such as {difference: office | all images, accuracy | AFL}. The functions that are
registered by @field say what each of them is. An interval is of 95 %: over patients or images where
results.py wrote it, over seeds in a change.
"""

import csv
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeVar

from scipy.stats import t as student

from fedcli.comparison.ranks import Ranks, friedman
from fedcli.comparison.verdict import ENOUGH, HIGHER, LOWER, MODELS_ONLY
from fedcli.reproduction import recipe as recipes_of_tables

ROOT = Path(__file__).parent
HERE = ROOT / "results"
DOCS = ROOT.parent / "docs"
PAGES = {  # template -> page
    ROOT / "which_method.md": DOCS / "which-method.md",
    ROOT / "which_method_tables.md": DOCS / "which-method-tables.md",
}
FOLDER = "benchmark/"
WIDTH = 140  # of a line of the page
REFERENCE = "FedAvg"
BEST = 2  # of a column
MOST = 8  # methods that a sentence lists
PROBES = {  # name in a field -> recipe, and the score in which the methods are ranked
    "hospitals": ("ham10000-hospitals-probe", "both balanced accuracy"),
    "twenty": ("ham10000-twenty-probe", "both balanced accuracy"),
    "office": ("office-probe", "mean of domains"),
    "digits": ("digits-probe", "mean of domains"),
}
OTHERS = {  # other regimes
    "hospitals-scratch": "ham10000-hospitals-scratch",
    "office-tuned": "office-tuned",
}
TESTED = {  # federation -> the score in which the table of answers has tests
    "hospitals": "both balanced accuracy",
    "twenty": "both balanced accuracy",
    "office": "all images, accuracy",
    "digits": "all images, accuracy",
}
TITLES = {
    "hospitals": "HAM10000, four hospitals",
    "twenty": "HAM10000, twenty clients",
    "office": "Office-Caltech-10, four domains",
    "digits": "digits, twenty clients of two domains",
}
SHORT = {
    "hospitals": "hospitals",
    "twenty": "twenty clients",
    "office": "Office-Caltech-10",
    "digits": "digits",
    "hospitals-scratch": "hospitals from scratch",
    "office-tuned": "Office-Caltech-10 fine-tuned",
}
SHOWN = {  # column -> its head; a federation has some of them
    "clean balanced accuracy": "clean",
    "noisy balanced accuracy": "noisy",
    "both balanced accuracy": "both",
    "both AUC": "both, AUC",
    "worst client, balanced accuracy": "worst client †",
    "mean of domains": "mean of domains",
    "worst domain": "worst domain",
    "std of domains": "std of domains",
    "all images, AUC": "all images, AUC",
}
LOWER_IS_BETTER = ("std of domains",)
WHOLE = {  # columns of the table with every method -> their heads
    "clean balanced accuracy": "clean balanced accuracy",
    "noisy balanced accuracy": "noisy balanced accuracy",
    "clean AUC": "clean AUC",
    "noisy AUC": "noisy AUC",
    "worst sex, AUC": "worst sex, AUC †",
    "gap between values of sex, AUC": "gap †",
    "worst age, AUC": "worst age, AUC †",
    "gap between values of age, AUC": "gap †",
}
COMPARED = ("clean AUC", "noisy AUC")  # columns that a difference from FedAvg follows
NO_SCORE = "-"
VERSIONS = {"clean": "clean", "noisy": "corrupted", "both": "average", "all images,": "clean"}
METRICS = {
    "balanced accuracy": "balanced_accuracy",
    "accuracy": "accuracy",
    "AUC": "auc_ovo_macro",
}
MARKS = {HIGHER: " s", LOWER: " s", MODELS_ONLY: " m"}
CONFIRMED, NOT_CONFIRMED, CONTRADICTED = "confirmed", "not confirmed", "contradicted"
NUMBERS = "no", "one", "two", "three", "four", "five"
BLANK = re.compile(r"\n{3,}")
FIELD = re.compile(r"\{(\w+)(?:: ([^{}]*))?\}")


class NotPlayedError(Exception):
    """A row or a recipe that has no scores yet: the line that names it is left out."""


Numbers = dict[str, dict[str, dict[int, float]]]  # method -> column -> seed -> value
Line = dict[str, str]
Value = TypeVar("Value")
FIELDS: dict[str, Callable[..., str]] = {}


def field(function: Callable[..., str]) -> Callable[..., str]:
    """Register a function as the field of its name."""
    FIELDS[function.__name__] = function
    return function


def recipes() -> list[str]:
    """The recipes whose scores are there."""
    return [path.stem for path in sorted(HERE.glob("*.csv")) if "-differences" not in path.stem]


def recipe_of(federation: str) -> str:
    """The recipe of a federation, by its name in a field. Raises NotPlayedError."""
    recipe = PROBES[federation][0] if federation in PROBES else OTHERS[federation]
    if recipe not in recipes():
        raise NotPlayedError(recipe)
    return recipe


@cache
def planned(recipe: str) -> list[str]:
    """The rows of a recipe."""
    path = recipes_of_tables.find(f"{FOLDER}{recipe}")
    return [row.name for row in recipes_of_tables.load(path).rows]


def of_method(values: Mapping[str, Value], federation: str, method: str) -> Value:
    """A value of a method. Raises NotPlayedError, and KeyError for a row that no recipe has."""
    if method not in values and method in planned(recipe_of(federation)):
        raise NotPlayedError(method)
    return values[method]


def probes() -> list[str]:
    """The federations whose frozen network was played."""
    return [name for name, (recipe, _) in PROBES.items() if recipe in recipes()]


def is_there(federation: str) -> bool:
    """Tell whether a federation was played."""
    with suppress(NotPlayedError):
        recipe_of(federation)
        return True
    return False


def has_verdicts(federation: str) -> bool:
    """Tell whether a federation has enough seeds for a verdict on a method."""
    return is_there(federation) and len(seeds(recipe_of(federation))) >= ENOUGH


def several() -> list[str]:
    """The federations whose frozen network was played with enough seeds for a verdict."""
    return list(filter(has_verdicts, probes()))


def lines(name: str) -> list[Line]:
    """The lines of a CSV file of the results."""
    with (HERE / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def numbers(recipe: str) -> Numbers:
    """Every number of a recipe."""
    values: Numbers = {}
    for line in lines(recipe):
        columns = values.setdefault(line["method"], {})
        columns.setdefault(line["column"], {})[int(line["seed"])] = float(line["value"])
    return values


@cache
def means(recipe: str) -> dict[str, dict[str, float]]:
    """Method -> column -> the mean over seeds."""
    scores = {}
    for method, columns in numbers(recipe).items():
        scores[method] = {column: fmean(values.values()) for column, values in columns.items()}
    return scores


@cache
def tests(federation: str, score: str) -> dict[str, Line]:
    """Method -> its test against FedAvg in a score, such as "noisy AUC" or "all images, accuracy";
    none for a score that is not tested.
    """
    wanted = None
    for name, metric in METRICS.items():
        version = VERSIONS.get(score.removesuffix(name).strip())
        if score.endswith(f" {name}") and version:
            wanted = (version, metric)
    rows = lines(f"{recipe_of(federation)}-differences")
    return {row["method"]: row for row in rows if (row["version"], row["metric"]) == wanted}


def seeds(recipe: str) -> list[int]:
    """The seeds that every method has."""
    of_methods = [set(next(iter(columns.values()))) for columns in numbers(recipe).values()]
    return sorted(set.intersection(*of_methods))


def ranked() -> dict[str, list[float]]:
    """Method -> its mean score on each federation, for those methods that all of them have."""
    by_federation = []
    for federation in probes():
        recipe, column = PROBES[federation]
        scores = means(recipe)
        by_federation.append({name: row[column] for name, row in scores.items() if column in row})
    shared = [name for name in by_federation[0] if all(name in row for row in by_federation)]
    return {name: [row[name] for row in by_federation] for name in shared}


@cache
def rank_tests() -> Ranks:
    """Friedman's and Nemenyi's tests over the federations."""
    return friedman("score", ranked())


def in_words(line: Line) -> str:
    """A tested difference, such as "+1.2 (-0.1 to +2.5)"."""
    values = [float(line[name]) for name in ("difference", "low", "high")]
    return "{:+.1f} ({:+.1f} to {:+.1f})".format(*values).replace("-0.0", "+0.0")


def joined(parts: Sequence[str], none: str = "no method") -> str:
    """A list in English; after MOST parts it says how many more there are."""
    if not parts:
        return none
    shown = list(parts)
    if len(parts) > MOST:
        rest = len(parts) - MOST + 1
        shown = [*parts[: MOST - 1], f"{rest} more"]
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def with_verdict(federation: str, score: str, verdict: str, sign: int = 0) -> list[Line]:
    """The tests that end in a verdict, and with this sign if one is asked for, largest first."""
    chosen = []
    for line in tests(federation, score).values():
        if line["verdict"] == verdict and sign * float(line["difference"]) >= 0:
            chosen.append(line)
    return sorted(chosen, key=lambda line: -abs(float(line["difference"])))


def described(found: Sequence[Line]) -> str:
    return joined([f"{line['method']} {in_words(line)}" for line in found])


def test_of(federation: str, score: str, method: str) -> Line:
    """The test of a method against FedAvg. Raises NotPlayedError."""
    return of_method(tests(federation, score), federation, method)


@field
def difference(federation: str, score: str, method: str) -> str:
    """A method's tested difference to FedAvg with its interval over patients or images."""
    return in_words(test_of(federation, score, method))


@field
def marked(federation: str, score: str, method: str) -> str:
    """A difference with the mark of its verdict, for a table."""
    about = federation, score, method
    mark = MARKS.get(test_of(federation, score, method)["verdict"], "")
    return f"{difference(*about)}{mark}"


@field
def mean(federation: str, column: str, method: str = REFERENCE) -> str:
    """A mean over seeds."""
    return f"{of_method(means(recipe_of(federation)), federation, method)[column]:.1f}"


def over_seeds(
    federation: str,
    column: str,
    method: str,
    base: str = REFERENCE,
) -> tuple[float, float, float]:
    """The mean over seeds of a method's difference to another in a column, and its t interval; of
    one seed the interval is endless."""
    scores = numbers(recipe_of(federation))
    values = of_method(scores, federation, method)[column]
    others = of_method(scores, federation, base)[column]
    differences = [values[seed] - others[seed] for seed in values if seed in others]
    centre = fmean(differences)
    count = len(differences)
    if count < 2:
        return centre, -math.inf, math.inf
    half = float(student.ppf(0.975, count - 1)) * stdev(differences) / math.sqrt(count)
    return centre, centre - half, centre + half


@field
def change(federation: str, column: str, method: str, base: str = REFERENCE) -> str:
    """The mean over seeds of the difference in a column, with its t interval over seeds."""
    centre, low, high = over_seeds(federation, column, method, base)
    if math.isinf(low):
        return f"{centre:+.1f}"
    return f"{centre:+.1f} ({low:+.1f} to {high:+.1f})".replace("-0.0", "+0.0")


@field
def changes(federations: str, column: str, method: str, base: str = REFERENCE) -> str:
    """The change on each of some federations, such as "office, digits", that were played."""
    return _on_each(federations, lambda name: change(name, column, method, base))


@field
def differences(federations: str, score: str, method: str) -> str:
    """The difference on each of some federations that were played, with its mark."""
    return _on_each(federations, lambda name: marked(name, score, method))


@field
def gain(federations: str, score: str, method: str) -> str:
    """These differences of a method that is recommended for them.

    Raises ValueError where none of them is significantly above FedAvg any more.
    """
    found = []
    for name in federations.split(", "):
        if is_there(name):
            found.append(test_of(name, score, method))
    if not any(float(line["difference"]) > 0 and line["verdict"] in MARKS for line in found):
        raise ValueError(f"{method} is not above FedAvg in {score}: recommend another method")
    return differences(federations, score, method)


@field
def raised(federations: str, column: str, method: str) -> str:
    """The changes of a method that is recommended for them.

    Raises ValueError where no interval over seeds is above 0 any more.
    """
    names = filter(is_there, federations.split(", "))
    lows = [over_seeds(name, column, method)[1] for name in names]
    if not any(low > 0 for low in lows):
        raise ValueError(f"{method} does not raise {column}: recommend another method")
    return changes(federations, column, method)


def _on_each(federations: str, number: Callable[[str], str]) -> str:
    parts = [f"{SHORT[name]} {number(name)}" for name in federations.split(", ") if is_there(name)]
    if not parts:
        raise NotPlayedError(federations)
    return ", ".join(parts)


@field
def higher(federation: str, score: str) -> str:
    """The methods that are significantly higher than FedAvg over seeds."""
    return described(with_verdict(federation, score, HIGHER))


@field
def lower(federation: str, score: str) -> str:
    """The methods that are significantly lower than FedAvg over seeds."""
    return described(with_verdict(federation, score, LOWER))


def candidates(federation: str, score: str) -> list[Line]:
    """The methods that are higher for these trained models, and whose interval over seeds, which is
    not adjusted, is above 0."""
    found = []
    for line in with_verdict(federation, score, MODELS_ONLY, 1):
        _, low, _ = over_seeds(federation, score, line["method"])
        if low > 0:
            found.append(line)
    return found


@field
def trial(federation: str, score: str) -> str:
    """These candidates with their differences."""
    return described(candidates(federation, score))


@field
def largest(federation: str, score: str, count: str = "2") -> str:
    """The methods with the largest differences above zero."""
    order = sorted(tests(federation, score).values(), key=lambda line: -float(line["difference"]))
    return described(order[: int(count)])


@field
def rows(federation: str) -> str:
    """The numbers of rows and seeds, such as "76 of 76 rows, seeds 0 to 2"."""
    recipe = recipe_of(federation)
    played = seeds(recipe)
    about = f"seeds {played[0]} to {played[-1]}" if len(played) > 1 else f"seed {played[0]}"
    return f"{len(numbers(recipe))} of {len(planned(recipe))} rows, {about}"


@field
def seeds_of(federation: str) -> str:
    """The number of seeds of a federation, as an option."""
    return str(len(seeds(recipe_of(federation))))


@field
def not_played() -> str:
    """The recipes of the benchmark without scores, each as code."""
    stems = [name.removeprefix(FOLDER) for name in recipes_of_tables.names() if FOLDER in name]
    return ", ".join(f"`{FOLDER}{stem}`" for stem in stems if stem not in recipes())


@field
def partly_played() -> str:
    """The recipes of which some rows have scores, with the number of rows. Raises NotPlayedError
    where there is none."""
    parts = []
    for name in recipes():
        rows_played = len(numbers(name))
        if rows_played < len(planned(name)):
            parts.append(f"`{FOLDER}{name}` {rows_played} of {len(planned(name))}")
    if not parts:
        raise NotPlayedError("every recipe is whole")
    return ", ".join(parts)


@field
def seeds_left() -> str:
    """The number of seeds that each federation has, of those of its recipe."""
    parts = []
    for name in probes():
        recipe = recipes_of_tables.load(recipes_of_tables.find(f"{FOLDER}{recipe_of(name)}"))
        parts.append(f"{TITLES[name]} {len(seeds(recipe_of(name)))} of {len(recipe.seeds)}")
    return "; ".join(parts)


@field
def answer() -> str:
    """The first sentence: whether any method beats FedAvg over seeds and over federations."""
    names = [set(of_one) for of_one in _names(HIGHER)]
    count = NUMBERS[len(probes())]
    over_ranks = f"ranks over {count} federations put {ranked_higher()} significantly above it"
    if not names:
        return (
            f"No method is shown to beat FedAvg over seeds: no federation has {ENOUGH} of them yet"
        )
    counts = {len(seeds(recipe_of(name))) for name in several()}
    begin = f"With {NUMBERS[min(counts)]}{' or more' if len(counts) > 1 else ''} seeds"
    where = f" on all {count} federations"
    if len(names) < len(probes()):
        begin += f" on {NUMBERS[len(names)]} of {count} federations,"
        where = " on all of them" if len(names) > 1 else ""
    everywhere = set.intersection(*names)
    if len(names) > 1 and not set.union(*names):
        where = where.replace("all", "any of")
    verb = "have" if len(everywhere) > 1 else "has"
    return (
        f"{begin} {joined(sorted(everywhere))} {verb} a significantly higher balanced accuracy "
        f"(HAM10000) or accuracy (domains) than FedAvg{where}, and {over_ranks}"
    )


@field
def somewhere() -> str:
    """A sentence on the methods that are higher over seeds on single federations."""
    parts = []
    for name, methods in zip(several(), _names(HIGHER), strict=True):
        if methods:
            parts.append(f"{joined(methods)} on {TITLES[name]}")
    if not parts:
        return "On no single federation is one higher either."
    return f"On single federations some are: {'; '.join(parts)}."


def _names(verdict: str) -> list[list[str]]:
    """The names of the methods with a verdict in the tested score, for each federation."""
    tested = [with_verdict(name, TESTED[name], verdict) for name in several()]
    return [[line["method"] for line in found] for found in tested]


@field
def ranked_higher() -> str:
    """The methods that Nemenyi's test ranks above FedAvg."""
    pairs = rank_tests().differ
    return joined([better for better, worse in pairs if worse == REFERENCE])


@field
def ranked_lower() -> str:
    """The methods that Nemenyi's test ranks below FedAvg."""
    pairs = rank_tests().differ
    return joined([worse for better, worse in pairs if better == REFERENCE])


@field
def rank(method: str = REFERENCE) -> str:
    """A method's mean rank over the federations."""
    return f"{rank_tests().ranks[method]:.1f}"


@field
def best_ranks(count: str = "5") -> str:
    """The methods with the best mean ranks."""
    best = list(rank_tests().ranks.items())[: int(count)]
    return joined([f"{name} ({value:.1f})" for name, value in best])


@field
def friedman_test() -> str:
    """The numbers of the tests over federations."""
    found = rank_tests()
    f = "infinite" if found.f is None else f"{found.f:.2f}"
    return (
        f"{len(found.ranks)} methods, F({found.degrees[0]}, {found.degrees[1]}) {f}, "
        f"p {found.p:.1g}; critical difference {found.critical_difference:.1f}"
    )


@field
def claim(method: str, *scores: str) -> str:
    """The end of a claim, each score as "hospitals > noisy AUC" (or <): confirmed on a federation
    of several() that differs that way from FedAvg, contradicted where it differs the other way;
    the federations are named where their ends differ."""
    return claim_against(REFERENCE, method, *scores)


@field
def claim_against(base: str, method: str, *scores: str) -> str:
    """The same against another row than FedAvg."""
    federations: dict[str, list[str]] = {}
    for text in scores:
        federation, sign, score = text.split(" ", 2)
        if has_verdicts(federation):
            end = _end(base, method, federation, sign, score)
            federations.setdefault(end, []).append(SHORT[federation])
    if len(federations) < 2:
        return next(iter(federations), NOT_CONFIRMED)
    ends = (CONFIRMED, CONTRADICTED, NOT_CONFIRMED)
    parts = [f"{end}: {joined(federations[end])}" for end in ends if end in federations]
    return "; ".join(parts)


def _end(base: str, method: str, federation: str, sign: str, score: str) -> str:
    """The end of one score: by its verdict, or where it is not tested by its interval over
    seeds."""
    if base == REFERENCE and tests(federation, score):
        found = test_of(federation, score, method)
        difference = float(found["difference"])
        is_shown = found["verdict"] in (HIGHER, LOWER)
    else:
        difference, low, high = over_seeds(federation, score, method, base)
        is_shown = low > 0 or high < 0
    if not is_shown:
        return NOT_CONFIRMED
    return CONFIRMED if (difference > 0) == (sign == ">") else CONTRADICTED


@field
def answers() -> str:
    """A table with a row for each federation: the methods above and below FedAvg."""
    made = [
        "| federation | tested | FedAvg | significantly higher | worth a trial | "
        "significantly lower | largest gain |",
        "|---|---|---:|---|---|---|---|",
    ]
    for name in probes():
        score = TESTED[name]
        above, below = (with_verdict(name, score, end) for end in (HIGHER, LOWER))
        cells = [
            f"{TITLES[name]} ({rows(name)})",
            score,
            mean(name, score),
            joined([line["method"] for line in above], "none"),
            joined([line["method"] for line in candidates(name, score)], "none"),
            joined([line["method"] for line in below], "none"),
            largest(name, score, "1"),
        ]
        made.append(f"| {' | '.join(cells)} |")
    return "\n".join(made)


@field
def section(federation: str, head: str) -> str:
    """The head of a section on a federation. Raises NotPlayedError."""
    recipe_of(federation)
    return head


@field
def difference_table(federation: str, scores: str, *methods: str) -> str:
    """The differences of some methods, and of all that are significantly higher than FedAvg in one
    of the scores, as Markdown. scores: separated by semicolons.
    """
    columns = scores.split("; ")
    shown = dict.fromkeys(method for method in methods if method in tests(federation, columns[0]))
    for score in columns:
        higher_lines = with_verdict(federation, score, HIGHER)
        shown |= dict.fromkeys(line["method"] for line in higher_lines)
    made = ["| method | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for method in shown:
        cells = [marked(federation, score, method) for score in columns]
        made.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(made)


@field
def table(federation: str) -> str:
    """FedAvg and the methods that are first to third in a column, as Markdown."""
    scores = means(recipe_of(federation))
    columns = [column for column in SHOWN if column in scores[REFERENCE]]
    chosen = {REFERENCE: True}
    best = {}
    for column in columns:
        with_score = [method for method in scores if column in scores[method]]
        is_higher_better = column not in LOWER_IS_BETTER
        with_score.sort(key=lambda method: scores[method][column], reverse=is_higher_better)
        best[column] = scores[with_score[0]][column]
        chosen |= dict.fromkeys(with_score[:BEST], True)
    made = ["| method | " + " | ".join(SHOWN[column] for column in columns) + " |"]
    made.append("|---|" + "---:|" * len(columns))
    for method in scores:
        if method in chosen:
            cells = []
            for column in columns:
                cell = f"{scores[method][column]:.1f}" if column in scores[method] else NO_SCORE
                is_best = cell == f"{best[column]:.1f}"
                cells.append(f"**{cell}**" if is_best else cell)
            made.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(made)


@field
def whole_table(federation: str) -> str:
    """Every method's scores with some differences from FedAvg, as Markdown."""
    scores = means(recipe_of(federation))
    heads = []
    for column, head in WHOLE.items():
        heads.append(head)
        if column in COMPARED:
            heads.append(f"to {REFERENCE}")
    made = ["| method | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for method, of_columns in scores.items():
        cells = []
        for column in WHOLE:
            cells.append(f"{of_columns[column]:.1f}" if column in of_columns else NO_SCORE)
            if column in COMPARED:
                is_tested = method in tests(federation, column)
                cells.append(marked(federation, column, method) if is_tested else NO_SCORE)
        made.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(made)


def filled(text: str) -> str:
    """A text with a value in place of each field. Raises KeyError for an unknown one."""

    def value(match: re.Match[str]) -> str:
        name, arguments = match.groups()
        values = [part.strip() for part in arguments.split(" | ")] if arguments else []
        try:
            return FIELDS[name](*values)
        except KeyError as error:
            raise KeyError(f"{match.group()}: no {error}") from error

    return FIELD.sub(value, text)


def wrapped(text: str) -> str:
    """A block of the page, such as a paragraph, in lines of WIDTH; code, heads and tables stay."""
    if text.startswith(("#", "|", "    ", "!")):
        return text
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text,
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def page(template: Path) -> str:
    """A page. Each paragraph and point of its template is one line; one that names what was not
    played is left out.
    """
    made = []
    for line in template.read_text(encoding="utf-8").split("\n"):
        with suppress(NotPlayedError):
            made.append(wrapped(filled(line)))
    return BLANK.sub("\n\n", "\n".join(made))


def main() -> None:
    for template, file in PAGES.items():
        file.write_text(page(template), encoding="utf-8")
        print(file)


if __name__ == "__main__":
    main()
