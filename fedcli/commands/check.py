"""fedcli check."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from .. import console
from ..common_options import NAME
from ..errors import FedcliError
from ..options import Flag
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..bench.checks import Verdict

EMPTY: Mapping[str, object] = MappingProxyType({})
IN_WORDS = {None: "not tried", "": "holds"}
Method = Annotated[str, "a method: ./mine.py, ./mine.py:NAME, or one by name", NAME]
Settings = Annotated[Mapping[str, object], "an option of the method; may be repeated"]
Pairs = Annotated[bool, "also check it as a base and as an add-on", Flag(typed="pairs/--alone")]


def check(
    method: Method,
    set: Settings = EMPTY,  # noqa: A002  # the name of its flag
    pairs: Pairs = True,
    json: Json = False,
) -> None:
    """Test that a method does what every method must do.

    It is trained on toy images, alone and in a pair with a method of fedcli.

    Finite, unlike FedAvg, resumed to the bit, clients in any order, one image, an absent class,
    half of the clients, and what the hooks return. The exit code is 1 where something does not
    hold.

    Example: fedcli check fedprox --alone
    """
    from ..bench import checks
    from ..methods import resolve
    from ..runs.resources import be_deterministic

    settings = dict(set)
    be_deterministic("cpu", 1)
    resolve(method, settings)
    specs = [method, *(checks.pairs_of(method) if pairs else [])]
    subjects = [checks.Subject(spec, settings) for spec in specs]
    verdicts: dict[str, list[Verdict]] = {}
    for subject in console.progress(subjects, label="check", total=len(subjects)):
        verdicts[subject.method.name] = checks.verdicts(subject)
    failures = []
    for name, checked in verdicts.items():
        failures += [(name, verdict) for verdict in checked if verdict.why]
    if json:
        show_json({name: list(map(vars, checked)) for name, checked in verdicts.items()})
    else:
        _print(verdicts)
        for name, verdict in failures:
            print(f"{name}: {verdict.about}: {verdict.why}")
    if failures:
        name, verdict = failures[0]
        count = console.counted(len(failures), "check does", "checks do")
        sentence = f"{count} not hold; the first: {name}, {verdict.about}"
        raise FedcliError(sentence, verdict.why or "")


def _print(verdicts: dict[str, "list[Verdict]"]) -> None:
    """A row for each check and a column for each method."""
    rows = []
    for row in zip(*verdicts.values(), strict=True):
        cells = [IN_WORDS.get(verdict.why, "FAILS") for verdict in row]
        rows.append([row[0].about, *cells])
    terminal.table(["check", *verdicts], rows)
