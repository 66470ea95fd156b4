"""The words of a page, in the order in which they are explained."""

from collections.abc import Iterable

METRICS = {
    "accuracy": "share of images whose class was predicted correctly",
    "balanced_accuracy": "mean recall over classes: every class counts the same, however rare",
    "f1_macro": "mean over classes of 2PR / (P + R), with precision P and recall R",
    "f1_weighted": "the same, each class weighted by its number of images",
    "precision_macro": "mean over classes: of the images predicted as the class, the share that belongs to it",
    "precision_weighted": "the same, each class weighted by its number of images",
    "recall_macro": "mean over the classes present in labels or predictions: of the images of the class, the share "
    "predicted correctly",
    "recall_weighted": "the same, each class weighted by its number of images",
    "auc_ovo_macro": "area under the ROC curve, mean over pairs of classes (Hand and Till 2001); 50 % is chance level",
    "auc_ovr_macro": "area under the ROC curve of each class against all others, mean over classes",
    "auc_ovr_weighted": "the same, each class weighted by its number of images",
    "auc_binary": "area under the ROC curve of the second of two classes",
    "auc_macro": "of several labels per image: area under the ROC curve, mean over labels; 50 % is chance level",
    "average_precision_macro": "average precision, mean over labels; chance level is the share of images with a label",
    "balanced_accuracy_macro": "mean of sensitivity and specificity of each label at a probability of 1/2, mean over "
    "labels; 50 % is chance level",
    "exact_match_accuracy": "share of images of which every label is predicted correctly",
    "hamming_accuracy": "share of all labels of all images that are predicted correctly",
    "calibration_error_macro": "expected difference between a label's probability and how often images have it, mean "
    "over labels",
    "calibration_error_top_label": "expected difference between the probability of the predicted class and how often "
    "the prediction is correct",
    "calibration_error_positive_class": "the same for the second of two classes",
}
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
    "demographic_parity_difference": "largest minus smallest share of images predicted positive, over groups",
    "equalized_odds_difference": "the larger of the ranges over groups of the true and the false positive rate",
    "average_odds_difference": "mean over groups of the average distance of both rates from those of all other groups",
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
    return [*((name, meaning) for name, meaning in METRICS.items() if name in words), *TERMS.items()]
