"""A file that was changed is refused in one sentence, or does no harm; a file that a hash covers is never used."""

from pathlib import Path

import numpy as np
import pytest

from .chain import STAGES, copied, files
from .judge import faults, shown
from .mutations import damage, mutate, reseal
from .process import run
from .test_surroundings import stops_in_round_3

READERS = {  # a file of the finished chain -> the stage whose command reads it
    "raw/labels.csv": "prepare", "raw/*.png": "prepare",
    "datasets/*/dataset.json": "partition", "datasets/*/pool.h5": "partition",
    "partitions/*/partition.json": "corrupt", "partitions/*/rows.h5": "corrupt",
    "corruptions/*/corruption.json": "train", "corruptions/*/changed.h5": "train",
    "runs/*/run.json": "evaluate", "runs/*/models/*.h5": "evaluate", "runs/*/rounds.jsonl": "evaluate",
}  # fmt: skip


def chosen(folder: Path, pattern: str, draw: np.random.Generator) -> Path:
    """One file of a chain."""
    base = folder if pattern.startswith("raw/") else folder / "fedcli-work"
    paths = sorted(base.glob(pattern))
    return paths[int(draw.integers(len(paths)))]


@pytest.mark.parametrize("pattern", READERS)
def test_a_changed_file_ends_in_a_sentence(pattern, chain, count, seed, tmp_path):
    stage, findings = READERS[pattern], []
    for case in range(count):
        draw = np.random.default_rng([seed, case, len(pattern)])
        folder = copied(chain.before(stage), tmp_path / "case")
        path = chosen(folder, pattern, draw)
        note = f"{path.relative_to(folder)}: {mutate(path, draw)}"
        covered = path.suffix in (".h5", ".jsonl")
        if covered and draw.random() < 0.6:
            reseal(folder / "fedcli-work", path)
            covered, note = False, note + ", its digest mended"
        standing = set(files(folder))
        ended = run(STAGES[stage], folder)
        wrong = faults(ended, must_fail=covered)
        if ended.code and (left := set(files(folder)) - standing):
            wrong.append(f"leaves {', '.join(sorted(left)[:3])}")
        if wrong:
            findings.append(shown(ended, wrong, f"case {case}: {note}"))
    assert not findings, f"{len(findings)} of {count}\n" + "\n".join(findings)


@pytest.mark.parametrize("name", ["settings.json", "rounds.jsonl", "state/*.h5", "models/*.h5"])
def test_a_changed_file_of_an_unfinished_run_is_never_carried_into_the_finished_one(name, chain, count, seed, tmp_path):
    """It is refused, or played again to the bytes of a run that nothing happened to."""
    wanted = {k: v for k, v in files(chain.before("evaluate")).items() if "/runs/" in k}
    begun = copied(chain.before("train"), tmp_path / "begun")
    stopped = run(STAGES["train"], begun, before=stops_in_round_3)
    assert stopped.code == 130, stopped.err
    findings = []
    for case in range(count):
        draw = np.random.default_rng([seed, case, len(name)])
        folder = copied(begun, tmp_path / "case")
        path = chosen(folder, f"runs/*/{name}", draw)
        note = f"{path.name}: {(mutate if draw.random() < 0.6 else damage)(path, draw)}"
        ended = run(STAGES["train"], folder)
        wrong = faults(ended)
        made = {k: v for k, v in files(folder).items() if "/runs/" in k}
        differing = sorted(k for k in {*made, *wanted} if made.get(k) != wanted.get(k) and "settings" not in k)
        if ended.code == 0 and differing:
            wrong.append(f"is used: {', '.join(Path(k).name for k in differing[:3])} differ")
        if wrong:
            findings.append(shown(ended, wrong, f"case {case}: {note}"))
    assert not findings, f"{len(findings)} of {count}\n" + "\n".join(findings)


ODD = [
    "", " ", "-1", "0", "1e400", "nan", "inf", "9" * 30, "x" * 3000, "é", "\x1b[31m", "a\nb", "../..", "/dev/null",
    "1,2", "None", "[]", "--", "0x10", "1_000", "١", "\udcff",
]  # fmt: skip


LONG = {"--rounds", "--epochs"}  # of which a huge number is a wish


@pytest.mark.parametrize("stage", STAGES)
def test_an_odd_value_of_an_option_ends_in_a_sentence(stage, chain, count, seed, tmp_path):
    import typer

    from fedcli.commands.app import app

    command = typer.main.get_command(app).commands[STAGES[stage][0]]
    flags = sorted(
        o.opts[0] for o in command.params if o.opts[0].startswith("--") and o.opts[0] not in ("--help", "--debug")
    )
    findings = []
    for case in range(count):
        draw = np.random.default_rng([seed, case, len(stage), 1])
        folder = copied(chain.before(stage), tmp_path / "case")
        flag, value = str(draw.choice(flags)), ODD[int(draw.integers(len(ODD)))]
        if flag in LONG and value.isdecimal():
            value = "-1"
        standing = set(files(folder))
        words = [*STAGES[stage], f"{flag}={value}"] if draw.random() < 0.8 else [*STAGES[stage], value]
        ended = run(words, folder, seconds=20)
        wrong = faults(ended)
        if ended.code and (left := set(files(folder)) - standing):
            wrong.append(f"leaves {', '.join(sorted(left)[:3])}")
        if wrong:
            findings.append(shown(ended, wrong, f"case {case}: {flag} {value[:20]!r}"))
    assert not findings, f"{len(findings)} of {count}\n" + "\n".join(findings)
