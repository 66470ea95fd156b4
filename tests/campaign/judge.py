"""Checks that a command ends in an answer: a result, or one sentence with a documented exit code."""

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from .process import Ended

CODES = {0, 1, 2, 3, 130}
LONGEST = 400  # characters of a sentence
OF_A_CELL = r"\[\d+/\d+\] |data of "  # of an experiment, whose other cells go on


def faults(ended: Ended, *, must_fail: bool = False) -> list[str]:
    """Faults of the end of a command, each in a few words; none where it is as it should be."""
    if ended.hung:
        return ["hangs"]
    if ended.code < 0:
        return [f"ended by signal {-ended.code}"]
    out = []
    if ended.code not in CODES:
        out.append(f"exit code {ended.code}")
    for word in (
        "Traceback",
        r"unexpected \w*(?:Error|Exception)",
        "Exception ignored",
        "Warning:",
        "HDF5-DIAG",
    ):
        if re.search(word, ended.err + ended.out):
            out.append(f"prints {word!r}")
    out_alone = functools.reduce(lambda text, word: text.replace(word, ""), ended.words, ended.out)
    if re.search(
        r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", out_alone + ended.err
    ):  # a path is printed as it was given
        out.append("prints control characters")
    sentences = re.findall(r"^(?:error|Error): (.*)$", ended.err, flags=re.M)
    last = [s for s in sentences if not re.match(OF_A_CELL, s)]
    if ended.code not in (0, 130) and len(last) != 1:
        out.append(f"{len(last)} error sentences")
    out += [f"a sentence of {len(s)} characters" for s in sentences if len(s) > LONGEST]
    if must_fail and ended.code == 0:
        out.append("goes on in silence")
    return out


MANIFESTS = {
    "dataset.json",
    "partition.json",
    "corruption.json",
    "run.json",
    "scores.json",
    "settings.json",
    "results.json",
    "sites.json",
}


def leftovers(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """The files that a failed command has left, as one fault, or none. Whole results that it made on its way may stay."""
    new = set(after) - set(before)
    whole = {str(Path(name).parent) for name in after if Path(name).name in MANIFESTS}
    new = {
        name for name in new if "/samples/" not in name or Path(name).suffix == ".tmp"
    }  # made for a dataset, whole
    partial = []
    for name in new:
        if not whole & set(map(str, Path(name).parents)) or Path(name).suffix == ".tmp":
            partial.append(name)
    return [f"leaves {', '.join(sorted(partial)[:3])}"] if partial else []
