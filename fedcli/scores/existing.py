"""Scores that a run has already, by what evaluate is asked for; all that is possible without its models."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console
from ..data import last_used, manifest, sources
from ..errors import FedcliError, HashError, UsageError, nearest
from ..io.locks import remove_abandoned
from ..labels import is_multi_label
from . import own_metrics
from .clinical_shape import check as check_clinical
from .clinical_shape import select
from .evaluation_options import EvaluateOptions
from .groups import CROSS
from .shots import thresholds

if TYPE_CHECKING:
    from . import external  # it imports torch, which scores that lie there do not need

# options that do not change test images
QUESTIONS = (
    "by",
    "shots",
    "severities",
    "metrics",
    "cross_site",
    "clinical",
    "adapt",
    "choose",
    "interval",
)


def check(run_path: Path, options: EvaluateOptions) -> None:
    """Refuse attributes that a run's data do not have, and other thresholds than two numbers. Raises FedcliError."""
    path = manifest.find(run_path, "run")
    if sites := _sites(path):
        _attributes(options.by, sites)
    else:
        asked(path, options)


def existing(run_path: Path, options: EvaluateOptions) -> Path | None:
    """The scores that evaluate would make, if they lie there whole; None where they are to be made."""
    path = manifest.find(run_path, "run")
    if sites := _sites(path):
        return _from_sites(path, _attributes(options.by, sites), others=not options.by)
    recorded, folder = asked(path, options)
    target = folder / "scores.json"
    if not target.is_file():
        return None
    known = manifest.read(target, "scores")
    if known.options != recorded or list(known.parents.values()) != [manifest.sha256(path)]:
        return None
    try:
        manifest.verify(target, "scores")
    except (
        FedcliError
    ):  # evaluate says what is wrong, and makes them again where only they are damaged
        return None
    remove_abandoned(folder)
    return target


def evaluations(folder: Path) -> Iterator[tuple[Path, manifest.Manifest]]:
    """Every scores.json that lies in a folder of evaluations; one that cannot be read is named and left out."""
    for path in sorted(folder.glob("*/scores.json")):
        try:
            known = manifest.read(path, "scores")
        except FedcliError as error:
            console.warn(f"left out: {error}; remove {path.parent}")
            continue
        yield path, known


def with_operating_points(scores: Path) -> Path | None:
    """The scores of the same run on the same test images that `evaluate --clinical` made: these, or others beside them.

    Of several those by the same attributes, then those with most classes and rules.
    """
    own = manifest.read(scores, "scores")
    tests = {key: value for key, value in own.options.items() if key not in QUESTIONS}
    made: dict[tuple, Path] = {}
    for path, known in [(scores, own), *evaluations(scores.parent.parent)]:
        same = tests == {key: value for key, value in known.options.items() if key not in QUESTIONS}
        if "clinical" in known.options and same and known.parents == own.parents:
            points = len(
                [
                    *select(
                        check_clinical(known.body.get("clinical"), path), "classes/*/*/operating/*"
                    )
                ]
            )
            made.setdefault(
                (path == scores, known.options["by"] == own.options["by"], points), path
            )
    return made[max(made)] if made else None


def _sites(run: Path) -> Path | None:
    """The manifest of the sites that hold a run's images; None where they are at hand."""
    data = manifest.parent(run, "corruption", "partition", "sites")
    return data if data and manifest.read(data).kind == "sites" else None


def _from_sites(run: Path, by: list[str], *, others: bool) -> Path | None:
    """The scores that sites have given of a run by these attributes; None where there are none.

    others: else those by other ones that were made last, since a report cannot ask the sites.
    """
    made = []
    for path in sorted((run.parent / "scores").glob("*/scores.json")):
        known = manifest.read(path, "scores")
        asked = known.options.get("federated")
        if asked and list(known.parents.values()) == [
            manifest.sha256(run)
        ]:  # else of the run before it went on
            made.append((known.options["by"] == by, last_used.age(path), path))
    return max(made)[-1] if made and (others or max(made)[0]) else None


def asked(
    run: Path,
    options: EvaluateOptions,
    severities: Sequence[tuple[str, int]] = (),
    tests: "external.Asked | None" = None,
) -> tuple[dict[str, Any], Path]:
    """The options that scores record, and the folder they go to. severities: kinds and severities of other test
    sets."""
    others, shots = tests.parents if tests else [], options.shots
    if not others and _sites(run):
        what = f"the test images of {run.parent} are at its sites"
        raise FedcliError(
            what, f"fedcli evaluate {run.parent} --engine socket:DIR, nvflare:DIR or flower:DIR"
        )
    if (shots or severities) and _sites(run):
        raise UsageError(
            f"what classes and corruptions {run.parent} was trained on is at its sites",
            "leave --shots and --corrupt out",
        )
    refuse_changed(run)
    data = others[0] if others else manifest.parent(run, "corruption", "partition")
    if data is None:
        raise FedcliError(f"{run} names no data that it was trained on", "train the run again")
    if shots and is_multi_label(manifest.read(data).body):
        raise UsageError(
            "--shots is about the recall of classes, and images have several labels", "leave it out"
        )
    recorded: dict[str, Any] = {"by": _attributes(options.by, data)}
    recorded |= {"shots": list(thresholds(shots))} if shots else {}
    recorded |= {"severities": [list(pair) for pair in severities]} if severities else {}
    recorded |= own_metrics.recorded() | (tests.options if tests else {}) | options.more
    return recorded, run.parent / "scores" / manifest.identity(recorded, [run, *others])


def refuse_changed(run: Path) -> None:
    """Refuse a run whose manifest is not the one that its scores were made from. Raises HashError."""
    now = manifest.sha256(run)
    for path, known in evaluations(run.parent / "scores"):
        if now not in known.parents.values():
            hint = f"restore it; or, where the run was trained again, remove {path.parent}"
            raise HashError(f"{run} has changed since {path} was made from it", hint)


def _attributes(by: Sequence[str], data: Path) -> list[str]:
    """The attributes asked for in the dataset's order, then the crossed ones; all attributes where none are named."""
    made = manifest.read(data)
    body = made.body
    known, crossed, dataset = (
        body["attributes"],
        [],
        body["name" if made.kind == "dataset" else "dataset"],
    )
    for name in by:
        parts = [part.strip() for part in name.split(CROSS)]
        for part in parts:
            if part not in known:
                raise UsageError(
                    f"{dataset} has no attribute {part!r}", _where(part, known, dataset)
                )
        if len(set(parts)) < len(parts):
            raise UsageError(
                f"--by {name!r} crosses an attribute with itself",
                "give each once, such as race*sex",
            )
        crossed += [CROSS.join(parts)] if len(parts) > 1 else []
    return [name for name in known if name in by or not by] + sorted(set(crossed))


def _where(attribute: str, known: Iterable[str], dataset: str) -> str:
    """A hint: the attribute that was meant, else which datasets have it and how this one could."""
    if (meant := nearest(attribute, known)).startswith("did you mean"):
        return meant
    having = sources.having(attribute)
    others = f"datasets that have it: {', '.join(having)}; " if having else ""
    own = f"to give it to {dataset}, prepare with --attributes FILE, a CSV with image or patient ids and {attribute}"
    return f"{meant}; {others}{own}"
