"""A fixed session gives the numbers recorded in golden/numbers.json, on any processor.

Counts and keys are exact, and so are the options that were recorded; losses hold within 1 %, aggregation weights within
0.001 and areas under the curve within 2 points: rounding grows slowly enough for two rounds. After an intended change
of numbers, `python tests/test_golden.py` records them anew.
"""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import session
from nested_scores import body_of

NUMBERS = Path(__file__).parent / "golden" / "numbers.json"
# three at small batches, then one method of each family
METHODS = (
    "fedavg --batch-size 16",
    "fedheal --batch-size 16",
    "fedism-plus --batch-size 16",
    "fedprox+afl",
    "scaffold",
    "fednova",
    "ditto --personal",
    "fedbn",
    "fedproto",
    "creff --set epochs=30 --set steps=10",
    "fedmrl",
)
EXACT = (
    "bytes_down",
    "bytes_up",
    "numbers_sent",
    "roster",
    "rounds",
    "rule",
    "settings",
    "corruption",
    "model",
)


def play() -> dict[str, dict[str, Any]]:
    """Play two rounds of every method in this folder; the numbers of each, by its name."""
    session.run("fedcli prepare toy --size 12 --sample-images 480 --work golden --jobs 1")
    session.run("fedcli partition --dirichlet 1.0 --clients 4 --work golden")
    data = session.run(
        "fedcli corrupt gaussian --severity 5 --ratio 0.25 --work golden"
    ).splitlines()[-1]
    for words in METHODS:
        method, *flags = words.split()
        session.run(
            f"fedcli train {method} {data} --rounds 2 --batch-size 32 --lr 0.003 --work golden {' '.join(flags)}"
        )
        session.run("fedcli evaluate --work golden")
    runs = {}
    for path in Path("golden").glob("runs/*/run.json"):
        runs[read(path)["body"]["method"]] = path.parent
    return {method: numbers(runs[method]) for method in sorted(runs)}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def numbers(run: Path) -> dict[str, Any]:
    """Facts of one run that are compared: its settings, its rounds, and its scores after each round."""
    summary = read(run / "run.json")
    record = (run / "rounds.jsonl").read_text(encoding="utf-8")
    rounds = [json.loads(line) for line in record.splitlines()]
    versions = body_of(next(run.glob("scores/*/scores.json")))["versions"]
    auc = {}
    for version in ("clean", "corrupted"):
        auc[version] = versions[version]["auc_ovo_macro"]["per_round"]
    return {
        "facts": {key: summary["body"][key] for key in EXACT},
        "options": summary["options"],
        "columns": {key: len(value) for key, value in rounds[-1]["reports"].items()},
        "loss": [line["loss"] for line in rounds],
        "weights": [line["weights"] for line in rounds],
        "auc": auc,
    }


def shared(options: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The options that others have too: a new option of train needs no new numbers."""
    return {name: value for name, value in options.items() if name in others}


def test_a_new_option_is_not_compared_and_a_changed_one_is():
    result = shared({"lr": 0.1, "lr_floor": 0.0}, {"lr": 0.2})
    assert result == {"lr": 0.1}


def test_two_rounds_of_each_method_give_the_recorded_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    played = play()
    recorded = read(NUMBERS)
    assert list(played) == list(recorded)
    for method, before in recorded.items():
        now = played[method]
        for part in ("facts", "columns"):
            assert now[part] == before[part], method
        expected = shared(before["options"], now["options"])
        assert shared(now["options"], before["options"]) == expected, method
        expected = pytest.approx(np.array(before["loss"]), rel=0.01)
        assert np.array(now["loss"]) == expected, method
        expected = pytest.approx(np.array(before["weights"]), abs=1e-3)
        assert np.array(now["weights"]) == expected, method
        for version, scores in before["auc"].items():
            assert now["auc"][version] == pytest.approx(scores, abs=0.02), method


if __name__ == "__main__":
    os.environ["NO_COLOR"] = "1"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        played = play()
    NUMBERS.parent.mkdir(exist_ok=True)
    lines = []
    for method, facts in played.items():
        lines.append(f" {json.dumps(method)}: {json.dumps(facts, sort_keys=True)}")
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
