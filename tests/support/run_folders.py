"""The folder of a run, with a record of rounds made by hand."""

import json

from conftest import ROSTER
from whole_bodies import whole

from fedcli.data import manifest


def a_line(t, **more):
    """A round of four clients, weights falling and losses rising along the roster."""
    losses = [1 / t + k for k in range(4)]
    return {"round": t, "loss": losses, "weights": [0.4, 0.3, 0.2, 0.1], "reports": {}} | more


def a_run(folder, lines, *, label="FedMRL", roster=ROSTER, finished=True, options=None):
    """The folder of a run with this record."""
    folder.mkdir(parents=True)
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if not finished:
        settings = {
            "options": {"method": "fedmrl", "rounds": 9},
            "data_path": "../../partitions/made/partition.json",
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        return folder
    body = {"label": label, "dataset": "skin", "rounds": len(lines), "roster": roster}
    manifest.seal(
        folder,
        manifest.Manifest("run", ["train"], options or {}, {}, {}, whole("run", body, folder)),
    )
    return folder
