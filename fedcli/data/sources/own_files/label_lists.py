"""Cells that hold several labels: A|B, A;B, ['A', 'B'] as pandas writes it, and A, B.

Bars and semicolons always separate labels, and so do brackets with quotes or commas in them. A
comma, slash or plus sign may also be part of a name. It separates labels only in a cell of which
each part is a label by itself: another cell of the column names it alone, or between bars,
semicolons or brackets.
"""

import re
from collections import Counter
from collections.abc import Iterable, Set
from itertools import chain

BRACKETS = "[]", "()", "{}"
QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
ALL_QUOTED = re.compile(rf"(?:(?:{QUOTED.pattern})[\s,;|]*)+")
CERTAIN = re.compile(r"[|;]")
IN_BRACKETS = re.compile(r"[|;,，、]")
PERHAPS = re.compile(r"[,，、]"), re.compile("/"), re.compile(r"\+")


def parts(cell: str, labels: Set[str]) -> list[str]:
    """The labels in a cell, in its order. labels: those of the column, see labels_of()."""
    certain = _certain_parts(cell)
    if certain != [cell.strip()]:
        return certain
    for separator in PERHAPS:
        words = _divided(cell, separator)
        if len(words) > 1 and labels >= set(words):
            return words
    return certain


def labels_of(cells: Iterable[str]) -> set[str]:
    """The labels of a column as far as no comma, slash or plus sign is taken for a separator."""
    labels = set[str]()
    for cell in set(cells):
        labels.update(_certain_parts(cell))
    return labels


def is_list(cell: str, labels: Set[str]) -> bool:
    """Tell whether a cell is written as several labels, or as a list of one."""
    return parts(cell, labels) != [cell.strip()]


def doubtful(cell: str, labels: Set[str]) -> list[str]:
    """The parts of a cell that names one label, where some are labels and others are not.

    Else nothing.
    """
    if is_list(cell, labels):
        return []
    for separator in PERHAPS:
        words = _divided(cell, separator)
        if len(words) > 1 and not labels.isdisjoint(words):
            return words
    return []


def suspected(labels: Set[str]) -> str:
    """A label that may be a list, as a part of it is another label or a part of another; "" where
    there is none.
    """
    for separator in PERHAPS:
        words_by_label = {label: set(_divided(label, separator)) for label in sorted(labels)}
        counts = Counter(chain.from_iterable(words_by_label.values()))
        for label, words in words_by_label.items():
            if len(words) > 1 and any(counts[word] > 1 for word in words):
                return label
    return ""


def _certain_parts(cell: str) -> list[str]:
    """The labels between bars, semicolons or brackets; a cell without them is one label."""
    text = cell.strip()
    inner = text
    outer_characters = text[:1] + text[-1:]
    if outer_characters in BRACKETS:
        inner = text[1:-1].strip()
    if ALL_QUOTED.fullmatch(inner):
        quoted_parts = QUOTED.findall(inner)
        return [(single or double).strip() for single, double in quoted_parts]
    if inner == text:
        return _divided(text, CERTAIN)
    return _divided(inner, IN_BRACKETS) if inner else []


def _divided(text: str, separator: re.Pattern[str]) -> list[str]:
    return [word.strip() for word in separator.split(text)]
