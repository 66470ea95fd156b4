"""fedcli check."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from .. import console
from ..common_options import NAME
from ..errors import FedcliError
from ..options import Flag
from ..system import terminal
from .shell.common import Json
from .shell.shown import show_json

EMPTY: Mapping[str, object] = MappingProxyType({})
SAID = {None: "not tried", "": "holds"}


def check(
    method: Annotated[str, "a method: ./mine.py, ./mine.py:NAME, or one by name", NAME],
    set: Annotated[Mapping[str, object], "an option of the method; may be repeated"] = EMPTY,
    pairs: Annotated[
        bool, "also check it as a base and as an add-on", Flag(typed="pairs/--alone")
    ] = True,
    json: Json = False,
) -> None:
    """Test that a method does what every method must do.

    It is trained on toy images, alone and in a pair with a method of fedcli.

    Finite, unlike FedAvg, resumed to the bit, clients in any order, one image, an absent class, half of the clients,
    and what the hooks return. The exit code is 1 where something does not hold.

    Example: fedcli check fedprox --alone
    """
    from ..bench import checks
    from ..methods import resolve
    from ..runs.resources import be_deterministic

    be_deterministic("cpu", 1)
    resolve(method, dict(set))
    specs = [method, *(checks.pairs_of(method) if pairs else [])]
    subjects = [checks.Subject(spec, dict(set)) for spec in specs]
    made: dict[str, list[Any]] = {}
    for subject in console.progress(subjects, label="check", total=len(subjects)):
        made[subject.method.name] = checks.verdicts(subject)
    if json:
        show_json(
            {name: [vars(verdict) for verdict in verdicts] for name, verdicts in made.items()}
        )
    else:
        _print(made)
    failed = [
        (name, verdict) for name, verdicts in made.items() for verdict in verdicts if verdict.why
    ]
    if failed:
        name, first = failed[0]
        count = console.counted(len(failed), "check does", "checks do")
        raise FedcliError(f"{count} not hold; the first: {name}, {first.about}", first.why)


def _print(made: dict[str, list[Any]]) -> None:
    """A row for each check and a column for each method, then why something does not hold."""
    first = next(iter(made.values()))
    rows = [
        [check.about, *(SAID.get(verdicts[k].why, "FAILS") for verdicts in made.values())]
        for k, check in enumerate(first)
    ]
    terminal.table(["check", *made], rows)
    for name, verdicts in made.items():
        for verdict in verdicts:
            if verdict.why:
                print(f"{name}: {verdict.about}: {verdict.why}")
