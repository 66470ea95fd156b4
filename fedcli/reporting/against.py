"""Systems against one of them, as a table and as a sentence, wherever order() tested them."""

from collections.abc import Iterable, Sequence

from . import verdicts
from .table import Table, of_text
from .verdicts import HIGHER, INCONCLUSIVE, LOWER, MODELS_ONLY, Against

SENTENCE = {
    HIGHER: "higher than {a}",
    LOWER: "lower than {a}",
    MODELS_ONLY: "different from {a} as trained here",
    INCONCLUSIVE: "inconclusive against {a}",
}
SCORE = (
    "In percent: each score is the mean over the last five rounds (all of a shorter run), then over {over}; the "
    "difference is to {reference}. "
)


def table(rows: Sequence[Against], score: str, reference: str) -> Table:
    """The reference first, then the others with their tests; score: such as "clean accuracy"."""
    over = verdicts.sampled(rows)
    heads = ["method", f"{score} (%)", "difference", "95 % interval", "p over patients", f"p over {over}", "verdict"]
    lines = [_line(row, rows[0].mean) for row in rows]
    legend = SCORE.format(over=over, reference=reference) + verdicts.legend(rows, verdicts.enough(len(rows) - 1))
    return of_text(f"Against {reference}: {score}", heads, lines, legend)


def _line(row: Against, reference: float | None) -> list[str]:
    mean = "-" if row.mean is None else f"{100 * row.mean:.2f}"
    if row.difference is None:
        return [row.name, mean, "-", "-", "-", "-", "reference" if row.is_reference else f"not tested: {row.note}"]
    difference = row.difference
    if row.mean is not None and reference is not None and abs(row.mean - reference - difference) < 1e-9:
        difference = (round(100 * row.mean, 2) - round(100 * reference, 2)) / 100  # of the means as they are shown
    ps = verdicts.p_text(row.p_holm), verdicts.p_text(row.p_seeds_holm)
    return [row.name, mean, verdicts.signed(difference), verdicts.interval_text(row), *ps, row.verdict or ""]


def sentence(rows: Iterable[Against], reference: str) -> str:
    """What the rows come to, those alike together, without a full stop; "" where none could be tested."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.verdict:
            kinds.setdefault((row.verdict, row.reason or ""), []).append(row.name)
    heads = [
        (SENTENCE[kind].format(a=reference) + (f" ({why})" if why else ""), names)
        for (kind, why), names in sorted(kinds.items(), key=lambda item: list(SENTENCE).index(item[0][0]))
    ]
    return "; ".join(f"{head}: {', '.join(names)}" for head, names in heads)
