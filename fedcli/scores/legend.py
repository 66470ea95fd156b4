"""The numbers of a run explained, in the words that stand beside them in scores.json."""

LEGEND = {
    "scale": "scores run from 0 to 1; null, or an empty cell of scores.csv, where a score has no meaning",
    "classes_missing": "indices into classes; they are left out of the AUC",
    "last": "the last round's model",
    "mean_last5": "mean over the rounds in kept_rounds: the last five, or all of a shorter run",
    "std_last5": "population standard deviation (ddof 0) over the same rounds; null for a single round",
    "average": "mean of clean and corrupted in each round",
    "intervals": (
        "95 % intervals, percentile or BCa, of the last round's model, from bootstrap resamples of whole patients "
        "(or lesions), or of images where the dataset names no patients; bounds are null where there is one "
        "patient only"
    ),
    "groups": (
        "last_round holds every group; over_rounds has worst group, gap, population std and average over groups of"
        " each round; each has every group over rounds; across is the average and the sample std (ddof 1) over "
        "groups of their means over rounds. Attributes may be crossed: race*sex; a combination without a test "
        "image is no group there. Groups in `clients` are those of the client's own test part, by the model that "
        "the client is scored with"
    ),
    "demographic_parity_difference": "largest minus smallest share of images predicted positive, over groups",
    "equalized_odds_difference": "the larger of the ranges over groups of true and of false positive rate",
    "average_odds_difference": (
        "mean over groups of the absolute mean of the differences in true and in false positive rate between all "
        "other groups together and this one"
    ),
    "ovr_macro": (
        "mean over classes, each against all others; with two classes the positive one is the second. A rate that "
        "is not defined is left out and named in undefined_rates; where that leaves nothing to compare, null"
    ),
    "calibration_error": (
        "mean distance between predicted probability and observed share in 15 bins of equal width, weighted by "
        "images: of the most likely class (top_label) or of the second of two classes (positive_class); a group's "
        "worst is the highest"
    ),
    "single_site": (
        "every client trained alone, so there is no global model: `versions`, `groups` and `shots` are of the "
        "clients' own models, each on the images of its own test part where the parts make up the whole test set, "
        "else the mean over clients of each one's score on the whole test set, where a worst group's name is null "
        "if clients differ; `warning` says which"
    ),
    "bytes": (
        "bytes to and from a client in a round, mean over clients and rounds: the model, and what the method sends"
        " beside it"
    ),
    "views": (
        "other ways than `view` in which the method can be shown test images; `view` uses the images' groups, here"
        " no image's group is used, and unknown groups are scored as all others are"
    ),
    "severities": (
        "kind -> severity -> the run's models on all test images under that corruption, as `evaluate --corrupt` "
        "asked; nothing was trained for it"
    ),
    "curves": (
        "of an evaluation over sites. at_false_positives: of two classes, the lowest threshold on the chance of "
        "the second whose false positive rate on these images is no higher, and the rates there; it describes the "
        "model and is no threshold for use, since test images chose it. reliability: the 15 bins of "
        "calibration_error"
    ),
    "best_on_validation": (
        "the global model of the round that was best on the clients' validation parts, the first of equals; test "
        "images are not used to choose it. null where the partition has no validation parts"
    ),
    "candidates": (
        "as `evaluate --choose` asked: the kept models on the clients' validation images, one of which the rule "
        "made best_on_validation"
    ),
    "external": "the test images that `evaluate --on` asked for in place of the run's own; every score is on them",
    "cross_site": (
        "as `evaluate --cross-site` asked: whose model -> whose own clean test images -> scores of the last round"
    ),
    "clinical": (
        "as `evaluate --clinical` asked: thresholds from validation images carried to test images, calibration, "
        "decision curves and conformal sets of the last round's model"
    ),
    "shots": (
        "the global model's mean recall of classes by training images of all clients: head above `upper`, tail "
        "below `lower`, medium between; a class without a test image is skipped; all is the mean of the groups "
        "that have a score"
    ),
    "labels": (
        "of several labels per image each one by itself, at a threshold of 1/2: version -> label; images: test "
        "images that have it; groups are of the last round's model"
    ),
    "personal": (
        "where clients keep models of their own: `personal` is the mean over clients of each one's model on the "
        "whole test set, `mean_personal` the model that is their mean by image count. A client that never took "
        "part has the global model. Of `personal` a worst group's name is null if clients differ"
    ),
    "clients": (
        "a client's own test part where it has one, else the whole test set; corrupted images for corrupted "
        "clients, clean for others; by the client's own model if personal_models, else by the global one"
    ),
    "among_clients": (
        "mean, population std and minimum over clients in each round (per_round), then the mean over rounds; null "
        "where all clients share model and images"
    ),
    "among_clients_global": (
        "among_clients with global_model in place of a client's own; std and worst are null where clients share "
        "images. The mean of own models is what Fed-MAS calls pFL (a client's model on the client's images); its "
        "gFL is the global model on all test images: versions. Fed-MAS reports the best round of each, here no "
        "round is chosen"
    ),
}
