"""Operating points and calibration in scores.json, under `clinical`: the shape and parts by path.

All is of the last round's model. Thresholds, temperature and quantiles are chosen on the clients'
validation images.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import shapes
from ..errors import UsageError, nearest
from ..shapes import NUMBER

POOLED = "pooled"  # the choice of one threshold for all images
CLIENT = "client"  # the choice of one for each client; other choices are an attribute
RATES = ("sensitivity", "specificity", "ppv", "npv")
BEFORE_AFTER = (  # temperature scaling
    "negative_log_likelihood",
    "calibration_error_top_label",
    "brier",
)
KNOWN = (*NUMBER, None)  # null where it has no meaning
RATE = {  # with its 95 % Wilson interval
    "value": KNOWN,
    "low": KNOWN,
    "high": KNOWN,
    "counted": int,
    "total": int,
}
DESCRIBED = {  # the probabilities of one class on some images
    "count": int,
    "positives": int,
    "prevalence": KNOWN,
    "average_precision": KNOWN,
    # on these images' own ROC curve: no threshold is carried to them
    "sensitivity_at_specificity_95": KNOWN,
    "brier": KNOWN,
    "brier_reliability": KNOWN,
    "brier_resolution": KNOWN,
    "brier_uncertainty": KNOWN,
    "calibration_slope": KNOWN,
    "calibration_intercept": KNOWN,
    "integrated_calibration_index": KNOWN,
    "bins": [[NUMBER]],  # mean probability, share of the class, images, of each that holds any
    "net_benefit": [[NUMBER]],  # threshold probability, of the model, of treating all
}
POINT = {  # decisions at one threshold; selected: share of images at or above it
    "threshold": KNOWN,
    **dict.fromkeys((*RATES, "selected"), RATE),
    "matthews_correlation": KNOWN,
}
GAP = {  # p over deals of the groups among patients and their images
    "gap": NUMBER,
    "p": KNOWN,
    "deals": int,
}


def _by_part(shape: Any) -> dict[str, Any]:
    """A shape for all images, for each group of each attribute, and for each client with any."""
    return {
        "overall": shape,
        "groups": {str: {str: shape}},
        "clients": {str: shape},
    }


OPERATING = {  # one rule with the thresholds of one choice, carried to the test images
    "rule": str,
    "choice": str,
    # "" for the pooled one, which stands in where one's own images have one label
    "thresholds": {str: KNOWN},
    **_by_part(POINT),
    "differences": {str: {str: KNOWN}},  # attribute -> differences in decisions between its groups
}
COVERED = {  # sets of classes that hold the true one with a chance of at least the level
    "level": NUMBER,
    "choice": str,
    "quantiles": {str: KNOWN},
    "coverage": RATE,
    "groups": {str: {str: RATE}},
    "set_size": KNOWN,
    "set_sizes": {str: {str: KNOWN}},
}
SUBGROUP = {  # of one attribute or two crossed; difference: from the accuracy of all other images
    "attribute": str,
    "group": str,
    "images": int,
    "accuracy": NUMBER,
    "difference": NUMBER,
    "p": KNOWN,
    "p_holm": KNOWN,
}
CLASS = {**_by_part(DESCRIBED), "operating": [OPERATING]}
AGREEMENT = {"matthews_correlation": KNOWN, "quadratic_kappa": KNOWN}
TEMPERATURE = {"temperature": NUMBER} | {name: [KNOWN] for name in BEFORE_AFTER}
SHAPE = {  # by version of the test images, if not said
    "validation": int,  # images of the clients' validation parts; where it is 0 nothing is chosen
    "classes": {str: {str: CLASS}},  # class -> version
    "agreement": {str: AGREEMENT},
    "temperature": {str: TEMPERATURE},
    "conformal": {str: [COVERED]},
    "gaps": {str: {str: {str: GAP}}},  # attribute -> version -> metric
    "subgroups": {str: [SUBGROUP]},  # the least accurate first
}


def check(clinical: Any, path: Path) -> dict[str, Any]:
    """The facts under `clinical` in the scores.json at this path.

    Raises FedcliError where they have another shape.
    """
    shapes.check(
        clinical,
        SHAPE,
        path,
        f"remove {path.parent} and evaluate the run again",
    )
    return clinical


def select(tree: Any, path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The parts at a path such as classes/*/*/operating/*, each after the names of its stars.

    Items of a list have no name.
    """
    key, _, rest = path.partition("/")
    if not key:
        yield (), tree
    elif key != "*":
        yield from select(tree[key], rest)
    elif isinstance(tree, list):
        for item in tree:
            yield from select(item, rest)
    else:
        for name, item in tree.items():
            for names, part in select(item, rest):
                yield (name, *names), part


def positives(
    classes: list[str],
    requested: Sequence[str],
    *,
    several: bool = False,
) -> list[str]:
    """The classes to describe: the requested ones, else the second of two, else all.

    several: an image may have several of them, which are labels then. Raises UsageError.
    """
    for name in requested:
        if name not in classes:
            raise UsageError(f"--positive {name!r} is no class", nearest(name, classes))
    if requested:
        return [name for name in classes if name in requested]
    if len(classes) == 2 and not several:
        return classes[1:]
    return classes
