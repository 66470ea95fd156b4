"""fedcli check."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from .. import console, extensions
from ..common_options import NAME
from ..errors import FedcliError, UsageError
from ..options import Flag
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json

if TYPE_CHECKING:
    from ..bench.checks import Verdict

EMPTY: Mapping[str, object] = MappingProxyType({})
IN_WORDS = {None: "not tried", "": "holds"}
Method = Annotated[str, "a method or corruption: ./mine.py, ./mine.py:NAME, or one by name", NAME]
Settings = Annotated[Mapping[str, object], "an option of the method; may be repeated"]
Pairs = Annotated[bool, "also check it as a base and as an add-on", Flag(typed="pairs/--alone")]


def check(
    method: Method,
    set: Settings = EMPTY,  # noqa: A002  # the name of its flag
    pairs: Pairs = True,
    json: Json = False,
) -> None:
    """Test that a method or a corruption does what it must.

    A method is trained on toy images, alone and in a pair with a method of fedcli.

    Checked for a method: finite numbers, a difference from FedAvg, resuming to the bit, any order
    of clients, one image, an absent class, half of the clients, and what the hooks return. For a
    corruption: the same bytes for the same seed; shape, type and range; rising severities. The exit
    code is 1 if a check fails.

    Examples: fedcli check fedprox --alone; fedcli check hair
    """
    if _is_corruption(method):
        from ..bench import corruption_checks

        verdicts = {method: corruption_checks.verdicts(method)}
    else:
        verdicts = _of_methods(method, dict(set), pairs=pairs)
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


def _is_corruption(name: str) -> bool:
    """Tell whether a name is that of a corruption, or of a file that registers no method."""
    if extensions.is_file(name):
        path = extensions.split(name)[0]
        loaded = extensions.load(path)
        if "methods" in loaded.tables:
            return False
        if not extensions.functions_in(loaded):
            hint = "; ".join(extensions.KINDS[kind][1] for kind in ("methods", "corruptions"))
            raise UsageError(f"{path} holds no method and no corruption", hint)
        return True
    from ..data.corruption.kinds import is_taken

    return is_taken(name) or name in extensions.packages("corruptions")


def _of_methods(
    method: str,
    settings: dict[str, object],
    *,
    pairs: bool,
) -> dict[str, list["Verdict"]]:
    """Method, alone and in pairs -> its checks."""
    from ..bench import checks
    from ..methods import resolve
    from ..runs.resources import be_deterministic

    be_deterministic("cpu", 1)
    resolve(method, settings)
    specs = [method, *(checks.pairs_of(method) if pairs else [])]
    subjects = [checks.Subject(spec, settings) for spec in specs]
    verdicts: dict[str, list[Verdict]] = {}
    for subject in console.progress(subjects, label="check", total=len(subjects)):
        verdicts[subject.method.name] = checks.verdicts(subject)
    return verdicts


def _print(verdicts: dict[str, "list[Verdict]"]) -> None:
    """A row for each check and a column for each method."""
    rows = []
    for row in zip(*verdicts.values(), strict=True):
        cells = [IN_WORDS.get(verdict.why, "FAILS") for verdict in row]
        rows.append([row[0].about, *cells])
    terminal.table(["check", *verdicts], rows)
