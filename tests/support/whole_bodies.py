"""Bodies of manifests that lack what a test does not ask about, completed so that they can be verified."""

DATA = {"classes": ["a", "b"], "attributes": {}, "size": [8, 8], "channels": 1, "augment": "none"}
CLIENT = {"client": "a", "train": 1, "val": 0, "test": 0, "class_counts": [1, 0]}
SPLIT = {**DATA, "dataset": "made", "roster": []}
MODEL = {
    "name": "cnn",
    "channels": 1,
    "size": 8,
    "precision": "fp32",
    "personal": [],
    "frozen": [],
    "teacher_width": None,
    "personal_models": False,
}
ABOUT = {
    "method": "fedavg",
    "label": "FedAvg",
    "rule": "paper",
    "settings": {},
    "rounds": 1,
    "dataset": "made",
}
WHOLE = {
    "dataset": {**DATA, "name": "made", "unit": None, "sites": None},
    "partition": {**SPLIT, "scheme": "iid"},
    "corruption": {**SPLIT, "kind": "fog", "severity": 3, "ratio": 0.25, "clients": []},
    "run": {**ABOUT, "roster": [], "corruption": None},
}
FILES = {
    "dataset": "pool.h5",
    "partition": "rows.h5",
    "corruption": "changed.h5",
    "run": "rounds.jsonl",
}


def whole(kind, body, folder):
    """The body with what it lacks; the file that such a manifest lists is put into the folder where it is not there."""
    if not (folder / FILES[kind]).exists():
        (folder / FILES[kind]).write_text("")
    model = {"model": MODEL | body.get("model", {})} if kind == "run" else {}
    return WHOLE[kind] | body | model
