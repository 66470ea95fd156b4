"""A file that was changed is refused in one sentence, or does no harm; a file that a hash covers is never used."""

from pathlib import Path

import numpy as np
import pytest

from .chain import STAGES, copied, differing, expanded, files
from .judge import faults, leftovers
from .mutations import damage, mutate, reseal
from .process import run
from .test_surroundings import stops_in_round_3

WORK = {  # a file of a stage -> the stage that reads it first, which stands where that stage has not run
    "datasets/*/dataset.json": "partition",
    "datasets/*/pool.h5": "partition",
    "partitions/*/partition.json": "corrupt",
    "partitions/*/rows.h5": "corrupt",
    "corruptions/*/corruption.json": "train",
    "corruptions/*/changed.h5": "train",
    "runs/fedprox*/run.json": "evaluate",
    "runs/fedprox*/models/*.h5": "evaluate",
    "runs/fedprox*/rounds.jsonl": "evaluate",
}
SHOWN = {  # a file of the finished chain -> lines that show it
    "datasets/*/dataset.json": [
        ["inspect", "{}"],
        ["ls"],
        ["report"],
        ["corrupt", "contrast"],
        ["inspect"],
    ],
    "partitions/*/partition.json": [
        ["inspect", "{}"],
        ["ls"],
        ["train", "fedavg", "--dry-run"],
        ["evaluate"],
    ],
    "corruptions/*/corruption.json": [
        ["inspect", "{}"],
        ["ls"],
        ["train", "fedavg", "--over", "lr=1", "--dry-run"],
    ],
    "corruptions/*/changed.h5": [["inspect", "{}"], ["train", "fedbn", "--rounds", "1"]],
    "datasets/*/pool.h5": [["inspect", "{}"], ["partition", "--iid", "--materialize"], ["inspect"]],
    "partitions/*/rows.h5": [["inspect", "{}"], ["inspect"], ["evaluate"]],
    "runs/*/run.json": [
        ["plot", "curves", "{}"],
        ["ls"],
        ["report"],
        ["inspect", "{}"],
        ["compare", "fedcli-work/runs/*"],
        ["train", "--resume"],
        ["train", "fedavg", "--weights", "{}"],
        ["train", "crt", "--weights", "{}"],
        ["plot", "sweep", "--over", "lr"],
    ],
    "runs/*/rounds.jsonl": [
        ["plot", "curves"],
        ["report", "--format", "html"],
        ["plot", "convergence"],
        ["plot", "curves", "{}"],
        ["ls"],
    ],
    "runs/*/timing.jsonl": [["report", "--minutes"], ["report", "--format", "html"], ["ls"]],
    "runs/*/models/*.h5": [
        ["inspect", "{}"],
        ["train", "fedavg", "--weights", "{}"],
        ["plot", "landscape"],
    ],
    "runs/*/scores/*/scores.json": [
        ["report"],
        ["report", "--format", "html"],
        ["compare", "fedcli-work/runs/*"],
        ["ls"],
        ["inspect", "{}"],
        ["report", "{}", "--format", "latex"],
        ["report", "--export", "-"],
        ["plot", "sweep", "--over", "lr"],
        ["report", "--bytes"],
    ],
    "runs/*/scores/*/predictions.h5": [
        ["compare", "fedcli-work/runs/*"],
        ["report"],
        ["inspect", "{}"],
        ["evaluate"],
    ],
}


def chosen(folder: Path, pattern: str, draw: np.random.Generator) -> Path:
    """One file of a chain."""
    paths = sorted((folder / "fedcli-work").glob(pattern))
    return paths[int(draw.integers(len(paths)))]


@pytest.mark.parametrize("pattern", WORK)
def test_a_changed_file_ends_in_a_sentence(pattern, chain, play, tmp_path):
    stage = WORK[pattern]
    for draw in play.cases():
        folder = copied(chain.before(stage), tmp_path / "case")
        path = chosen(folder, pattern, draw)
        note = f"{path.relative_to(folder)}: {mutate(path, draw)}"
        covered = path.suffix in (".h5", ".jsonl")
        if covered and draw.random() < 0.6:
            reseal(folder / "fedcli-work", path)
            covered = False
            note = note + ", its digest mended"
        standing = set(files(folder))
        ended = run(STAGES[stage], folder)
        wrong = faults(ended, must_fail=covered)
        if ended.code:
            wrong += leftovers(standing, files(folder))
        play.judge(ended, wrong, note)


@pytest.mark.parametrize("pattern", SHOWN)
def test_a_changed_file_is_shown_or_ends_in_a_sentence(pattern, chain, play, tmp_path):
    for draw in play.cases():
        folder = copied(chain.whole, tmp_path / "case")
        path = chosen(folder, pattern, draw)
        note = f"{path.relative_to(folder)}: {mutate(path, draw)}"
        if draw.random() < 0.6:
            reseal(folder / "fedcli-work", path)
            note += ", its digest mended"
        lines = SHOWN[pattern]
        line = [w.format(path.relative_to(folder)) for w in lines[int(draw.integers(len(lines)))]]
        ended = run(expanded(line, folder), folder)
        play.judge(ended, faults(ended), note)


@pytest.mark.parametrize("name", ["settings.json", "rounds.jsonl", "state/*.h5", "models/*.h5"])
def test_a_changed_file_of_an_unfinished_run_is_never_carried_into_the_finished_one(
    name, chain, play, tmp_path
):
    """It is refused, or played again to the bytes of a run that nothing happened to."""
    expected = {k: v for k, v in files(chain.before("evaluate")).items() if "/runs/" in k}
    begun = copied(chain.before("train"), tmp_path / "begun")
    stopped = run(STAGES["train"], begun, before=stops_in_round_3)
    assert stopped.code == 130, stopped.err
    for draw in play.cases():
        folder = copied(begun, tmp_path / "case")
        path = chosen(folder, f"runs/*/{name}", draw)
        note = f"{path.name}: {(mutate if draw.random() < 0.6 else damage)(path, draw)}"
        is_reader = draw.random() < 0.2
        ended = run(
            [["ls"], ["plot", "curves"], ["inspect"], ["report"]][int(draw.integers(4))]
            if is_reader
            else STAGES["train"],
            folder,
        )
        wrong = faults(ended)
        files_now = {}
        for k, v in files(folder).items():
            if "/runs/" in k and "settings" not in k:
                files_now[k] = v
        if (
            not is_reader
            and ended.code == 0
            and (
                differences := differing(
                    files_now, {k: v for k, v in expected.items() if k in files_now}
                )
            )
        ):
            wrong.append(f"is used: {', '.join(Path(k).name for k in differences[:3])} differ")
        play.judge(ended, wrong, note)
