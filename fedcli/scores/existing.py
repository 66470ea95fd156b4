"""Looks up scores computed before, so that evaluate and report need not import torch."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import console
from ..data import last_used, manifest, sources
from ..errors import FedcliError, HashError, UsageError, nearest
from ..io.locks import remove_abandoned
from ..labels import is_multi_label
from . import corrupted_tests, own_metrics
from .clinical_shape import check as check_clinical
from .clinical_shape import select
from .evaluation_options import EvaluateOptions
from .groups import CROSS
from .shots import thresholds

if TYPE_CHECKING:
    from . import external  # it imports torch, which scores that lie there do not need

DATA = ("corruption", "partition")  # manifests of a run's data that are at hand


def check(run_path: Path, options: EvaluateOptions) -> None:
    """Refuse attributes that a run's data do not have, and other thresholds than two numbers.

    Raises FedcliError.
    """
    path = manifest.find(run_path, "run")
    sites = _sites(path)
    if sites:
        _attributes(options.by, sites)
    else:
        asked(path, options, corrupted_tests.asked(options.corrupt, options.severity, path))


def existing(run_path: Path, options: EvaluateOptions) -> Path | None:
    """The scores that evaluate would make, if they are there whole; None where they are not."""
    path = manifest.find(run_path, "run")
    sites = _sites(path)
    if sites:
        return _from_sites(
            path,
            _attributes(options.by, sites),
            others=not options.by,
        )
    severities = corrupted_tests.asked(options.corrupt, options.severity, path)
    recorded, folder = asked(path, options, severities)
    target = folder / "scores.json"
    if not target.is_file():
        return None
    try:
        finished = manifest.verify(target, "scores")
    except FedcliError:
        # evaluate says what is wrong, and makes them again where only they are damaged
        return None
    parents = list(finished.parents.values())
    digests_of_run = [manifest.sha256(path)]
    if finished.options != recorded or parents != digests_of_run:
        return None
    remove_abandoned(folder)
    return target


def evaluations(
    folder: Path,
    *,
    warns: bool = True,
) -> Iterator[tuple[Path, manifest.Manifest]]:
    """Every scores.json in a folder of evaluations; one that cannot be read is left out.

    warns: of such a one.
    """
    for path in sorted(folder.glob("*/scores.json")):
        try:
            scores = manifest.read(path, "scores")
        except FedcliError as error:
            if warns:
                console.warn(f"left out: {error}; remove {path.parent}")
            continue
        yield path, scores


def with_operating_points(scores: Path) -> Path | None:
    """The scores of the same run on the same test images that `evaluate --clinical` made.

    They are these, or others beside them: those by the same attributes, then those with most
    classes and rules.
    """
    this = manifest.read(scores, "scores")
    tests = _tests(this)
    best = None
    highest: tuple[bool, bool, int] = (False, False, -1)
    for path, other in [(scores, this), *evaluations(scores.parent.parent)]:
        is_same = _tests(other) == tests and other.parents == this.parents
        if is_same and "clinical" in other.options:
            clinical = check_clinical(other.body.get("clinical"), path)
            count = len(list(select(clinical, "classes/*/*/operating/*")))
            has_same_by = other.options.get("by") == this.options.get("by")
            rank = (path == scores, has_same_by, count)
            if rank > highest:
                best = path
                highest = rank
    return best


def _tests(scores: manifest.Manifest) -> dict[str, Any]:
    """The options that decide on the test images."""
    names = [option.name for option in EvaluateOptions.marked("tests")]
    return {name: scores.options[name] for name in names if name in scores.options}


def _sites(run: Path) -> Path | None:
    """The manifest of the sites that hold a run's images; None where they are at hand."""
    data = manifest.parent(run, *DATA, "sites")
    return data if data and manifest.read(data).kind == "sites" else None


def _from_sites(
    run: Path,
    attributes: list[str],
    *,
    others: bool,
) -> Path | None:
    """The scores that sites have given of a run by these attributes; None where there are none.

    others: else those by other ones that were made last, since a report cannot ask the sites.
    """
    candidates = []
    for path in sorted((run.parent / "scores").glob("*/scores.json")):
        scores = manifest.read(path, "scores")
        is_federated = scores.options.get("federated")
        parents = list(scores.parents.values())
        # else of the run before it went on
        if is_federated and parents == [manifest.sha256(run)]:
            has_attributes = scores.options.get("by") == attributes
            candidates.append((has_attributes, last_used.age(path), path))
    if not candidates:
        return None
    has_attributes, _, path = max(candidates)
    return path if others or has_attributes else None


def asked(
    run: Path,
    options: EvaluateOptions,
    severities: Sequence[tuple[str, int]] = (),
    tests: "external.Asked | None" = None,
) -> tuple[dict[str, Any], Path]:
    """The options that scores record, and the folder they go to.

    severities: kinds and severities of other test sets.
    """
    others = tests.parents if tests else []
    if not others:
        _check_at_hand(run)
    if (options.shots or severities) and _sites(run):
        fault = f"what classes and corruptions {run.parent} was trained on is at its sites"
        raise UsageError(fault, "leave --shots and --corrupt out")
    refuse_changed(run)
    data = others[0] if others else manifest.parent(run, *DATA)
    if data is None:
        raise FedcliError(f"{run} names no data that it was trained on", "train the run again")
    if options.shots and is_multi_label(manifest.read(data).body):
        fault = "--shots is about the recall of classes, and images have several labels"
        raise UsageError(fault, "leave it out")
    recorded: dict[str, Any] = {"by": _attributes(options.by, data)}
    if options.shots:
        recorded["shots"] = list(thresholds(options.shots))
    if severities:
        recorded["severities"] = [list(pair) for pair in severities]
    recorded |= own_metrics.recorded()
    if tests:
        recorded |= tests.options
    recorded |= options.more
    identity = manifest.identity(recorded, [run, *others])
    return recorded, run.parent / "scores" / identity


def _check_at_hand(run: Path) -> None:
    """Refuse a run whose test images are at sites."""
    if _sites(run):
        fault = f"the test images of {run.parent} are at its sites"
        command = f"fedcli evaluate {run.parent} --engine"
        raise FedcliError(fault, f"{command} socket:DIR, nvflare:DIR or flower:DIR")


def refuse_changed(run: Path) -> None:
    """Refuse a run whose manifest is not the one that its scores were made from.

    Raises HashError.
    """
    digest = manifest.sha256(run)
    # without a warning, since scores that cannot be read may be made again
    for path, scores in evaluations(run.parent / "scores", warns=False):
        if digest not in scores.parents.values():
            hint = f"restore it; or, if the run was trained again, remove {path.parent}"
            raise HashError(f"{run} has changed since {path} was made from it", hint)


def _attributes(requested: Sequence[str], data: Path) -> list[str]:
    """The requested attributes in the dataset's order, then the crossed ones.

    All attributes where none are requested. Raises UsageError.
    """
    source = manifest.read(data)
    attributes = source.body["attributes"]
    dataset = source.body["name" if source.kind == "dataset" else "dataset"]
    crossed = set()
    for name in requested:
        parts = [part.strip() for part in name.split(CROSS)]
        for part in parts:
            if part not in attributes:
                hint = _where(part, attributes, dataset)
                raise UsageError(f"{dataset} has no attribute {part!r}", hint)
        if len(set(parts)) < len(parts):
            hint = "give each once, such as race*sex"
            raise UsageError(f"--by {name!r} crosses an attribute with itself", hint)
        if len(parts) > 1:
            crossed.add(CROSS.join(parts))
    if not requested:
        return list(attributes)
    single = [name for name in attributes if name in requested]
    return single + sorted(crossed)


def _where(attribute: str, attributes: Iterable[str], dataset: str) -> str:
    """A hint: the attribute that was meant, else the datasets that have it and a way to add it."""
    hint = nearest(attribute, attributes)
    if hint.startswith("did you mean"):
        return hint
    datasets = sources.having(attribute)
    if datasets:
        listed = ", ".join(datasets)
        hint += f"; datasets that have it: {listed}"
    return (
        f"{hint}; to give it to {dataset}, prepare with --attributes FILE, a CSV with image or "
        f"patient ids and {attribute}"
    )
