"""Runs made up from logits: their scores and predictions, as evaluate would write them."""

from operator import attrgetter

import h5py
import numpy as np
from nested_scores import over, staged
from score_json import summary, summary_of_groups

from fedcli.comparison.systems import grouped, read
from fedcli.comparison.tested import order
from fedcli.scores.statistics.bootstrap import bootstrap_all, draw
from fedcli.seeds import derive

N = 60
Y = np.arange(N) % 3
PATIENTS_OF = np.array([f"patient {i // 2}" for i in range(N)])
SEX = np.arange(N) // 2 % 2
NO_SHOTS = {"upper": 700, "lower": 70, "skipped": [], "versions": {}}


def model(skill, seed, classes=3, y=Y):
    """Logits of a model that knows this much, in two kept rounds; one seed's noise is the same for every skill."""
    noise = np.random.default_rng(seed).normal(size=(2, len(y), classes))
    return [(table + skill * np.eye(classes)[y]).astype(np.float32) for table in noise]


def bootstrap(logits, y, *units, **how):
    """Scores of one model in resamples."""
    return bootstrap_all([logits], y, *units, **how)[0]


def scored(  # noqa: PLR0913 - a test names the few that it changes
    folder,
    logits,
    *,
    seed=0,
    y=Y,
    ids=None,
    units=PATIENTS_OF,
    corrupted=None,
    groups=True,
    lone=False,
    by=("sex",),
    sex=None,
    extra=(),
    groups_of=(),
    **about,
):
    """A scores.json and its predictions, of logits [N, C] in two kept rounds.

    lone: the logits are of clients, each of which answers for itself in one round.
    extra: further attributes of the images. groups_of: further groups, as the body holds them.
    """
    versions = {"clean": logits}
    if corrupted:
        versions["corrupted"] = corrupted
    if ids is None:
        ids = ids_of(len(y))
    if sex is None:
        sex = sex_of(len(y), groups)
    by_version = groups_by_version(versions, y, sex)
    body = {
        "method": "fedavg",
        "label": "FedAvg",
        "rule": "paper",
        "settings": {},
        "rounds": 6,
        "roster_size": 4,
        "dataset": "made",
        "classes": list("abc")[: logits[0].shape[1]],
        "attributes": {"sex": ["f", "m"], "age": ["old", "young"]},
        "options": {"lr": 0.1, "seed": seed},
        "model": {"name": "cnn", "size": 8},
        "warning": "",
        "data": {"dataset": stage("d"), "partition": stage("p", seed=0), "corruption": None},
        "among_clients": {"auc_ovo_macro": {"std": None}},
        "personal": {},
        "versions": summary(versions, y),
        "groups": dict.fromkeys(by, by_version) | dict(groups_of),
    }
    if lone:
        body["versions"] = {"clean": means_of(body["versions"]["clean"])}
        body["groups"] = {}

    def write(temporary):
        with h5py.File(temporary / "predictions.h5", "w") as file:
            for version, rounds in versions.items():
                name = "clients/{}/logits/{}/6" if lone else "logits/{1}/{2}"
                for i, single in enumerate(rounds):
                    file[name.format(i, version, i + 5)] = single
            file["y"] = y.astype(np.int16)
            file["id"] = np.char.encode(ids)
            if units is not None:
                file["unit"] = np.char.encode(units)
            for name, column in {"sex": sex, **dict(extra)}.items():
                file[f"group/{name}"] = column.astype(np.int16)

    return staged(folder, body | about, write=write)


def groups_by_version(versions, y, sex):
    groups = {}
    for version, rounds in versions.items():
        groups[version] = summary_of_groups(rounds, y, sex, ["f", "m"])
    return groups


def sex_of(count, has_groups):
    if not has_groups:
        return np.full(count, -1)
    return SEX if count == N else np.arange(count) % 2


def means_of(scores):
    """One mean over the rounds for each score."""
    means = {}
    for metric, numbers in scores.items():
        if isinstance(numbers, dict):
            means[metric] = over(float(np.mean(numbers["per_round"])))
    return means


def ids_of(count):
    return np.array([f"image-{i}" for i in range(count)])


def stage(sha256, **options):
    return {"sha256": sha256, "options": options}


def heal(folder, logits, **about):
    return scored(
        folder,
        logits,
        **({"method": "fedheal", "label": "FedHEAL", "settings": {"tau": 0.3}} | about),
    )


def row(comparison, version, metric):
    return next(r for r in comparison.rows if (r.version, r.metric) == (version, metric))


def drawn(resamples, units=PATIENTS_OF, ids=None):
    """The draws that compare makes, for images in the order of their ids."""
    if ids is None:
        ids = ids_of(N)
    order = np.argsort(ids)
    weights = draw(units[order], resamples, derive("compare", 0, *ids[order]))
    return weights[:, np.argsort(order)]


def systems_of(paths):
    groups = grouped(read(paths), lambda run: run.identity)
    return [[*map(attrgetter("path"), runs)] for runs in groups]


def fold(k, count=3, trained=2 * N):
    """Data, test images and sizes of one fold."""
    data = {
        "dataset": stage(f"d{k}", fold=k, folds=count),
        "partition": stage(f"p{k}"),
        "corruption": None,
    }
    ids = np.array([f"fold {k} image {i}" for i in range(N)])
    return {
        "data": data,
        "ids": ids,
        "shots": {
            "classes": {"head": {"a": trained - 10}, "medium": {}, "tail": {"b": 10}},
            **NO_SHOTS,
        },
    }


def fold_of(folder, k, count):
    """Scores of one fold, whose test set has so many images."""
    y = Y[:count]
    tests = {"y": y, "ids": ids_of(count), "units": PATIENTS_OF[:count]}
    return scored(folder, model(1, k, y=y), **fold(k) | tests)


def ordered(systems, *asked, **how):
    """order() of systems whose scores lie at these paths."""
    return order({name: read(paths) for name, paths in systems.items()}, *asked, **how)
