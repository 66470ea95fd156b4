"""The words of a page, in the order in which they are explained."""

from collections.abc import Iterable

from ...metrics import METRICS, PARITY, get

TERMS = {
    "clean, corrupted, average": "score on the original test images, on a corrupted copy of all of them, and the mean "
    "of both",
    "± over rounds": "population standard deviation over the last five rounds: how much the score varies from round "
    "to round",
    "± over seeds": "pooled: over the rounds of all runs; runs: sample standard deviation (ddof 1) of the runs' means",
    "interval": "of the last round's score: percentile interval, or BCa where that was asked for, over bootstrap "
    "resamples of the test patients, drawn with replacement",
    "group": "images that share the value of an attribute, such as sex; race*sex crosses two attributes",
    "worst group, gap": "the lowest score among groups; the best group's score minus the worst's; in each round, then "
    "averaged over rounds",
    "†": "decided by a group with too few images, or without one of the classes: not reliable",
    "mean, std over groups": "each group's mean over the last five rounds first; the standard deviation has ddof 1",
    "ES-AUC": "equity-scaled AUC: the AUC divided by one plus the sum of its distances to the AUCs of the groups",
    **{name: get(name).meaning for name in PARITY},
    "_ovr_macro": "of a difference: the mean over classes, each against all others",
    "std among clients": "population standard deviation of the clients' scores in each round, then the mean over "
    "rounds",
    "client, roster": "one hospital of the federation; all clients in a fixed order",
    "round": "the server sends the model, clients train it on their own images, the server aggregates their updates",
    "weight": "a client's share in the server's weighted mean of models",
    "rule": "which version of a published method ran: paper, the paper's formula; released, the authors' code; "
    "original, a baseline's own first paper",
    "seed": "the number that all random choices of a run derive from; runs of several seeds differ in nothing else",
    "best on validation": "the round whose model scored best on the clients' validation images; test images are never "
    "used for selection",
    "sha256": "a fingerprint of a file's content; equal fingerprints mean equal files",
}


def used(names: Iterable[str]) -> list[tuple[str, str]]:
    """The metrics that a page shows, then all other terms."""
    words = {word for name in names for word in name.split(" ")}
    return [*((name, get(name).meaning) for name in METRICS if name in words), *TERMS.items()]
