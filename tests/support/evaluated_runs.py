"""A run whose models answer as a test says, and its scores."""

import numpy as np
import torch
from whole_bodies import whole

from fedcli.data import manifest
from fedcli.data.shard import Shard, Shards
from fedcli.runs.finished import FinishedRun
from fedcli.scores import evaluate as stage
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import EvaluateOptions

ROSTER = ["north", "east", "south", "west", "harbour"]


ATTRIBUTES = {"sex": ["female", "male"], "age": ["young", "old", "eldest"]}


GAUSSIAN = {"kind": "gaussian", "severity": 3, "ratio": 0.2, "clients": ["harbour"]}


ABOUT = {
    "method": "fedheal",
    "label": "FedHEAL",
    "rule": "released",
    "settings": {"tau": 0.3},
    "rounds": 6,
    "roster": ROSTER,
    "dataset": "skin",
    "model": {"name": "cnn", "personal": [], "personal_models": False},
}


def a_run(
    tmp_path,
    *,
    noise=GAUSSIAN,
    own=None,
    rounds=(4, 5, 6),
    bn="aggregate",
    classes=3,
    units=None,
    best=None,
):
    """A chain of manifests and an opened run of 90 test images; its net is never asked."""
    path = None
    for kind in ("dataset", "partition", "corruption") if noise else ("dataset", "partition"):
        path = a_stage(
            kind, tmp_path, {"seed": 7}, path, {"dataset": "skin", "attributes": ATTRIBUTES}
        )
    options = {
        "method": "fedheal",
        "rule": "released",
        "settings": {"tau": 0.3},
        "lr": 0.1,
        "bn": bn,
        "eval_every": 2,
    }
    body = {**ABOUT, "corruption": noise}
    if best:
        body["best"] = best
    path = a_stage("run", tmp_path, options, path, body)
    versions = ["clean", "corrupted"] if noise else ["clean"]
    own = own or {}
    places = {client: np.array(own.get(client, []), int) for client in ROSTER}
    data = Shards(
        ["mel", "nv", "df"],
        ATTRIBUTES,
        ROSTER,
        train={},
        val={},
        test={v: a_shard(classes) for v in versions},
        client_test=places,
        corrupted=noise["clients"] if noise else [],
        body={},
        test_patients=units,
    )
    return FinishedRun(path, manifest.read(path), data, list(rounds), None, None, "cpu")


def a_stage(kind, tmp_path, options, parent, body):
    parents = [parent] if parent else []
    folder = tmp_path / kind
    return manifest.stage(
        kind,
        folder=folder,
        made_by=[kind],
        options=options,
        parents=parents,
        build=lambda folder: whole(kind, body, folder),
    )


def a_shard(classes, n=90):
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, classes, n))
    sex = torch.from_numpy(rng.integers(-1, 2, n))
    age = torch.from_numpy(rng.integers(0, 3, n))
    ids = np.array([f"é{i}" for i in range(n)])
    return Shard(
        torch.zeros(n, 1, 8, 8, dtype=torch.uint8),
        torch.arange(n),
        y,
        ids,
        {"sex": sex, "age": age},
        3,
        1,
    )


def scorer(monkeypatch):
    """Evaluate a made-up run; logits are random and more so on corrupted images."""

    def make(run, *, by=(), out=None):
        def predict(_, round, shard, client=None, view=None):
            version = next(v for v, test in run.data.test.items() if test is shard)
            return logits_of(run, round, version, client)

        monkeypatch.setattr("fedcli.runs.finished.load_mean_personal", lambda *_: False)
        monkeypatch.setattr(stage, "open_run", lambda *_: run)
        monkeypatch.setattr("fedcli.runs.finished.predict", predict)
        return evaluate(run.path, EvaluateOptions(by=by, out=out))

    return make


def logits_of(run, round, version="clean", client=None):
    y = run.data.test["clean"].y.numpy()
    round = 99 if round == "best" else round
    rng = np.random.default_rng(
        [round, version == "corrupted", ROSTER.index(client) + 1 if client else 0]
    )
    out = rng.normal(size=(len(y), 3))
    out[np.arange(len(y)), y] += 0.5 if version == "corrupted" else 1.5
    return out.astype(np.float32)
