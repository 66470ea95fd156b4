"""A fixed set of commands gives the numbers recorded in answers/, to 1e-12.

Scores are compared by their path, such as `versions/clean/accuracy/last`, tables by row and column, texts in them
exactly. Models are trained to other last bits on other processors: where predictions differ there from the recorded
ones, nothing else is compared. On the processor of the record every bit must be there.

After an intended change of numbers, `PYTHONPATH=tests:tests/support python tests/test_answers.py [SESSION...]` records them anew.
"""

import contextlib
import csv
import gzip
import hashlib
import io
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
import session
import torch
from PIL import Image

from fedcli.scores.nested import nested as nested_form
from fedcli.scores.scores import RunScores

ANSWERS = Path(__file__).parent / "answers"
CLOSE = 1e-12
TRAIN = "--rounds 2 --threads 1 --engine in-process"
PHANTOM = [
    "fedcli prepare phantom --size 16 --sample-images 480 --jobs 1",
    "fedcli partition --by site --val 0.2",
    "fedcli corrupt gaussian --on west --severity 2 --jobs 1",
]
RUNS = {
    "a0": "fedavg",
    "a1": "fedavg --seed 1",
    "h0": "fedheal",
    "h1": "fedheal --seed 1",
    "i0": "fedism-plus",
    "q0": "qffl --set q=0.5",
}
SESSIONS = {
    "demo": ["fedcli demo --rounds 1 --json"],
    "sample": [
        "fedcli prepare rsna-ich --sample --corrupt gaussian --ratio 0.2 --jobs 1",
        f"fedcli train fedheal {TRAIN}",
        "fedcli evaluate --by race",
    ],
    "phantom": [
        *PHANTOM,
        *(
            f"fedcli train {words} {TRAIN} --lr 0.003 --eval-every 1 --name {name}"
            for name, words in RUNS.items()
        ),
        "fedcli evaluate runs/a0 --by race --by sex --by race*sex",
        "fedcli evaluate runs/a1 --by sex --corrupt gaussian --corrupt shot-noise --severity 1 --severity 4"
        " --interval bca --choose worst-group --shots 78,76",
        "fedcli evaluate runs/h0 --by sex --clinical --positive epidural --cost 5 --metric ./own.py:reward",
        "fedcli prepare phantom --size 16 --seed 3 --sample-images 120 --jobs 1 --out other",
        "fedcli evaluate runs/i0 --by sex --on other/dataset.json --all-images",
        "fedcli report runs/* --by sex --by race --format csv",
        "fedcli report runs/* --by sex --shots 78,76 --format json",
        "fedcli report runs/* --by sex --metric f1_macro --metric accuracy --at best --separate --format json",
        "fedcli report runs/* --by race*sex --metric auc_ovo_macro --at last --interval bca --bytes --format json",
        "fedcli report runs/* --by sex --choose dto --spread runs --format csv",
        "fedcli report runs/* --by sex --metric ./own.py:reward --format json",
        "fedcli compare runs/a0 runs/a1 runs/h0 runs/h1 --by sex --json=full",
        "fedcli compare runs/a0 runs/h0 --by race --metric f1_macro --metric accuracy --interval bca --resamples 500"
        " --json=full",
        "fedcli compare runs/a0 runs/q0 --by sex --resamples 200",
        "fedcli predict runs/a0 images --positive epidural --rule youden --cost 5 --format csv",
        "fedcli predict runs/h0 images --format json",
    ],
    "labels": [
        "fedcli prepare chestmnist --sample --jobs 1",
        "fedcli partition --dirichlet 1 --clients 3 --val 0.2",
        f"fedcli train fedavg {TRAIN} --lr 0.003 --eval-every 1 --name a0",
        f"fedcli train fedheal {TRAIN} --lr 0.003 --eval-every 1 --name h0",
        "fedcli evaluate runs/a0 --by sex --clinical --positive effusion --interval bca --choose overall",
        "fedcli report --by sex --format csv",
        "fedcli report runs/h0 --by sex --format csv --export long.csv",
        "fedcli report --by sex --metric auc_macro --metric hamming_accuracy --format json",
        "fedcli compare runs/a0 runs/h0 --by sex --resamples 500 --json=full",
        "fedcli predict runs/h0 images --positive effusion --rule sensitivity=0.9 --format json",
    ],
    "clients": [
        "fedcli prepare phantom --size 16 --sample-images 480 --jobs 1",
        "fedcli partition --by site",
        "fedcli corrupt gaussian --ratio 0.25 --jobs 1",
        f"fedcli train ditto --personal {TRAIN} --lr 0.003 --name ditto",
        f"fedcli train fedbn {TRAIN} --lr 0.003 --name fedbn",
        f"fedcli train fedavg --single-site {TRAIN} --lr 0.003 --name alone",
        "fedcli evaluate runs/ditto --by sex --cross-site",
        "fedcli evaluate runs/fedbn --by sex",
        "fedcli evaluate runs/alone --by sex --cross-site",
        "fedcli report --by sex --format csv",
        "fedcli report --by sex --format json",
        "fedcli compare runs/fedbn runs/alone --by sex --resamples 500 --json=full",
    ],
    "recipes": [
        "fedcli reproduce fairfedmed-chest --scale smoke --seeds 1 --only PromptFL --json",
        "fedcli reproduce fedism-plus-table2 --scale smoke --seeds 1 --only FedAvg --json",
    ],
}
OWN = """
import numpy as np

def reward(probabilities, labels, groups):
    guess = probabilities.argmax(1)
    return float(np.where(guess == labels, 1.0, np.where((guess > 0) & (labels == 0), 0.8, 0.0)).mean())
"""
# sentences, settings and paths: of tables and scores their numbers and cells are compared
NOT_COMPARED = {
    "columns",
    "command",
    "data",
    "legend",
    "notes",
    "options",
    "paper",
    "scores",
    "sentences",
    "settings",
    "warnings",
}


def numbers_of(folder: Path) -> dict[str, Any]:
    """The numbers of a run's scores in this folder, by their paths in the nested form, such as `groups/sex/...`."""
    body = json.loads(json.dumps(nested_form(RunScores.read(folder / "scores.json"))))
    not_numbers = "data", "legend", "model", "options", "settings", "warning"
    parts = {key: value for key, value in body.items() if key not in not_numbers}
    return {path: value for path, value in leaves(parts) if not isinstance(value, str)}


def digests_of(folder: Path) -> set[str]:
    """A digest of each table of answers that a run's models gave: equal where all numbers must be."""
    with h5py.File(folder / "predictions.h5") as file:
        names: list[str] = []
        file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        tables = [file[name][()] for name in names if "logits" in name.split("/")]
    return {
        hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()[:12] for table in tables
    }


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, number or text) of everything in nested dicts and lists that is compared."""
    if not isinstance(value, dict | list):
        if value is not None:
            yield path, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if key not in NOT_COMPARED:
            yield from leaves(item, f"{path}/{key}".lstrip("/"))


def cells_of(text: str) -> dict[str, Any]:
    """The cells of a CSV table, by row and column; numbers among them as such."""
    rows = csv.DictReader(io.StringIO(text))
    cells = {}
    for i, row in enumerate(rows):
        for column, cell in row.items():
            cells[f"{i}/{column}"] = number_or_text(cell)
    return cells


def number_or_text(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return re.sub(r"-[0-9a-f]{8}\b|\b[0-9a-f]{64}\b", "-DIGEST", cell)


def answer(line: str) -> dict[str, Any]:
    """The findings of one line, by names."""
    printed = session.output(line)
    command = line.split()[1]
    if command == "evaluate":
        return numbers_of(Path(printed.strip()).parent)
    if "--export long.csv" in line:
        cells = {f"table/{name}": value for name, value in cells_of(printed).items()}
        return cells | long_table(Path("long.csv"))
    if line.endswith(("json", "json=full")):
        return {path: without_digests(value) for path, value in leaves(json.loads(printed))}
    if line.endswith("csv"):
        return cells_of(printed)
    if command == "compare":
        return dict(enumerate_numbers(printed))
    return {}


def long_table(path: Path) -> dict[str, Any]:
    """A number per line of an exported table, by the texts before it."""
    rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    next(rows)
    numbers = {}
    for *texts, number in rows:
        numbers["long/" + ",".join(texts)] = number_or_text(number)
    return numbers


def enumerate_numbers(text: str) -> Iterator[tuple[str, float]]:
    for i, number in enumerate(re.findall(r"(?<![\w.])-?\d+\.\d+(?![\w.])", text)):
        yield f"number {i}", float(number)


def without_digests(value: Any) -> Any:
    return number_or_text(value) if isinstance(value, str) else value


def play(name: str) -> dict[str, Any]:
    """Play a session in this folder: the predictions of its runs, and what each line found."""
    with mock.patch.dict(os.environ, {"FEDCLI_WORK": "."}):
        Path("own.py").write_text(OWN, encoding="utf-8")
        write_images(Path("images"))
        answers: dict[str, Any] = {}
        for line in SESSIONS[name]:
            if answer_found := answer(here(line)):
                answers[line] = answer_found
        folders = sorted({path.parent for path in Path().glob("**/scores/*/predictions.h5")})
        if name == "demo":
            for folder in folders:
                run = folder.parts[-3].rsplit("-", 1)[0]
                answers[run] = numbers_of(folder)
        return {"digests": sorted(set().union(*map(digests_of, folders))), "answers": answers}


def here(line: str) -> str:
    """The line with the folder its results go to, and the names that its shell would fill in."""
    words = [f"fedcli {line.split()[1]} --work ."]
    for word in line.split()[2:]:
        run = re.fullmatch(r"runs/(\w+|\*)", word)
        words += sorted(map(str, Path().glob(f"{word}/run.json"))) if run else [word]
    return " ".join(words)


def write_images(folder: Path) -> None:
    """Three files to predict: grey squares with a spot."""
    folder.mkdir(exist_ok=True)
    for i in range(3):
        pixels = np.add.outer(np.arange(28) * 3, np.arange(28) * 2)
        top = 5 + 5 * i
        pixels[top : top + 7, 8:20] = 250 - 40 * i
        pixels = pixels.astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")


def processor() -> str:
    """The machine by which trained models have the same bits: its processor, and the libraries that compute."""
    cpu = Path("/proc/cpuinfo")
    text = cpu.read_text(encoding="utf-8") if cpu.exists() else ""
    facts = re.findall(
        r"^(?:model name|cpu family|model|flags)\s*: (.*)$", text.split("\n\n")[0], re.M
    )
    name = hashlib.sha256(" ".join(facts).encode()).hexdigest()[:12]
    versions = f"torch {torch.__version__}, numpy {np.__version__}"
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}, {os.cpu_count()} cores, {versions}"


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Paths as nested dicts, which is how a record stands in its file."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *above, last = path.split("/")
        node = tree
        for key in above:
            node = node.setdefault(key, {})
        node[last] = round(value, 14) if isinstance(value, float) else value
    return tree


def same(before: Any, after: Any) -> bool:
    if isinstance(before, int | float) and isinstance(after, int | float):
        return math.isclose(before, after, rel_tol=CLOSE, abs_tol=CLOSE) or (
            math.isnan(before) and math.isnan(after)
        )
    return before == after


@pytest.mark.long
@pytest.mark.parametrize("name", SESSIONS)
def test_the_commands_give_the_recorded_numbers(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded = json.loads(gzip.decompress((ANSWERS / f"{name}.json.gz").read_bytes()))
    played = play(name)
    assert list(played["answers"]) == list(recorded["answers"])
    if played["digests"] != recorded["digests"]:
        assert processor() != recorded["processor"], (
            "the models are others, on the processor of the record"
        )
        pytest.skip(
            "values are not compared: models have other last bits here, which may add or take a sentence"
        )
    before = {line: dict(leaves_of_record(tree)) for line, tree in recorded["answers"].items()}
    after = {line: dict(leaves_of_record(nested(flat))) for line, flat in played["answers"].items()}
    for line in before:
        assert sorted(after[line]) == sorted(before[line]), line
    for line, numbers in before.items():
        others = {}
        for path, number in numbers.items():
            if not same(number, after[line][path]):
                others[path] = (number, after[line][path])
        some_others = dict(list(others.items())[:10])
        assert not others, f"{line}: {len(others)} of {len(numbers)} differ: {some_others}"


def leaves_of_record(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(tree, dict):
        yield path, tree
        return
    for key, item in tree.items():
        yield from leaves_of_record(item, f"{path}/{key}")


def record(name: str) -> None:
    """Play a session in an empty folder and write what it found."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        played = play(name)
    lines = []
    for line, flat in played["answers"].items():
        lines.append(f"  {json.dumps(line)}: {compact(nested(flat))}")
    text = ",\n".join(lines)
    whole = (
        f'{{\n "processor": {json.dumps(processor())},\n "digests": {compact(played["digests"])},\n "answers": {{\n'
        f"{text}\n }}\n}}\n"
    )
    (ANSWERS / f"{name}.json.gz").write_bytes(gzip.compress(whole.encode(), mtime=0))


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    import conftest  # noqa: F401 - one thread, and what else tests run under

    for session_name in sys.argv[1:] or SESSIONS:
        record(session_name)
