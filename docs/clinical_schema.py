"""The JSON Schema of `clinical` in scores.json, with the meaning of its keys."""

from collections.abc import Callable
from typing import Any

from fedcli.scores.clinical_shape import SHAPE

MEANING = {
    "validation": "images of the clients' validation parts, on which alone thresholds, "
    "temperature and quantiles are chosen; 0 where there are none, and then there "
    "are none of these",
    "classes": "class -> version of the test images: one class against all others",
    "groups": "attribute -> group",
    "operating": "one rule with thresholds from one choice of validation images, carried to the "
    "test images",
    "rule": "youden, sensitivity=0.95, specificity=0.9 or cost=5",
    "choice": "pooled, client, or the attribute whose groups have a threshold or a quantile each; "
    "test images that no threshold of their own is known for have the pooled one",
    "thresholds": '"" for the pooled one, else by client or group; null where its validation '
    "images have one label",
    "differences": "attribute -> demographic parity, equalized odds and average odds differences "
    "of the decisions",
    "low": "of the 95 % Wilson interval of counted of total images",
    "selected": "share of images at or above the threshold",
    "sensitivity_at_specificity_95": "a point of these images' own ROC curve, so no threshold is "
    "carried to them",
    "brier_reliability": "of Murphy's parts over ten bins, as brier_resolution and "
    "brier_uncertainty",
    "calibration_slope": "1 is ideal",
    "calibration_intercept": "0 is ideal",
    "integrated_calibration_index": "mean distance of the probabilities from the smoothed share "
    "that they came true in; null of fewer than ten images",
    "bins": "mean probability, share of the class, images, of each bin that holds any",
    "net_benefit": "threshold probability, net benefit of the model, and of treating all",
    "agreement": "decisions, which are the most likely class, against labels",
    "temperature": "fitted on validation images: scores on test images before and after",
    "conformal": "a set of classes for each image that holds the true one with a chance of at "
    "least `level`",
    "coverage": "share of images whose set holds their class; by group under groups",
    "set_size": "mean number of classes in a set; by group under set_sizes",
    "gaps": "attribute -> version -> metric: the gap between best and worst group, and its p over "
    "deals of the groups among patients and their images",
    "subgroups": "of at least 30 patients and one value of an attribute, or two crossed, the "
    "least accurate first",
    "difference": "accuracy of the subgroup minus that of all others",
    "p_holm": "adjusted for all subgroups that were tested on one version of the test images",
}


def schema(of_shape: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """of_shape: a shape of fedcli.shapes as JSON Schema."""
    whole = _closed(of_shape(SHAPE))
    return {"anyOf": [whole, {"type": "null"}]}


def _closed(schema: Any) -> Any:
    """The schema without other keys than it names, and with their meaning."""
    if isinstance(schema, list):
        return [_closed(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(inner) for key, inner in schema.items()}
    if "required" in schema:
        closed["additionalProperties"] = False
        closed["properties"] = {
            key: inner | ({"description": MEANING[key]} if key in MEANING else {})
            for key, inner in closed["properties"].items()
        }
    return closed
