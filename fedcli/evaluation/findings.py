"""What a comparison of two systems lets one say, in words and in a small table.

A row is told `higher` or `lower` where its p over test patients, and with several seeds its p over seeds too, are below
0.05 after Holm's adjustment; where there is no p over seeds, its p over patients alone. Not told is not the same as equal.
"""

from typing import Any

from .groups import SMALL

SIGNIFICANT = 0.05
HIGHER, LOWER, PATIENTS, SEEDS, NONE = "higher", "lower", "over patients only", "over seeds only", "not told"
UNITS = {"patient or lesion": "patients or lesions", "image": "images"}
TESTS = {"mcnemar": "McNemar's exact test of the decisions", "delong": "DeLong's test of auc_binary"}
SHORT = 30  # characters of settings that fit behind a name
SAID = {
    HIGHER: "{b} is higher than {a} in {what}",
    LOWER: "{b} is lower than {a} in {what}",
    PATIENTS: "in {what} these trained models differ, but the difference varies too much from seed to seed to be laid on the method",
    SEEDS: "in {what} the seeds agree, but other test patients could turn it",
    NONE: "no difference can be told in {what}",
}
GAPS = SAID | {
    HIGHER: "groups lie further apart with {b} than with {a} in {what}",
    LOWER: "groups lie closer together with {b} than with {a} in {what}",
}
NOT_EQUAL = "That no difference can be told does not show that there is none: the intervals say how large it may be."
ONE_SEED = "Each was trained once, so this is about these two trained models: another seed may turn it."
LEGEND = (
    "A score is the mean over the last five rounds (all of a shorter run), then over seeds, ± population standard deviation "
    "over rounds and seeds; the difference is B - A; its interval and the p over patients come from {resamples} bootstrap "
    "resamples of the test set ({drawn}), the p over seeds from a paired t test; each p is adjusted by Holm over the "
    "scores, or over the gaps."
)
OF_GAPS = " Chance alone opens a gap, so its interval may lie to one side of the difference."

Row = dict[str, Any]


def verdict(row: Row) -> str:
    """Whether b is higher or lower than a; `over patients only` or `over seeds only` where one source of chance is left."""
    patients = _below(row["p_holm"])
    seeds = patients if row["p_seeds_holm"] is None else _below(row["p_seeds_holm"])
    if patients and seeds:
        return HIGHER if row["difference"] > 0 else LOWER
    return PATIENTS if patients else SEEDS if seeds else NONE


def told(found: dict[str, Any]) -> dict[str, Any]:
    """A comparison with its systems' names, `sentences`, all `notes` and a `legend`."""
    names = _names(found)
    systems = {side: about | {"name": names[side]} for side, about in found["systems"].items()}
    found = found | {"systems": systems}
    legend = LEGEND.format(resamples=found["resamples"], drawn=f"{found['units']} {UNITS[found['unit']]}")
    return found | {
        "sentences": _sentences(found),
        "notes": [*found["notes"], *_cautions(found)],
        "legend": legend + (OF_GAPS if _gaps(found) else ""),
    }


def table(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of text: the scores, then the gaps between groups on the clean images."""
    a, b = (found["systems"][side]["name"] for side in "ab")
    several = found["pairs"] > 1
    columns = ["score (%)", f"A: {a}", f"B: {b}", "B-A", "95% interval", "p over patients"]
    lines = [_line(name, row, several) for name, row in _scores(found) + _gaps(found)]
    return columns + (["p over seeds"] if several else []), lines


def image_tests(found: dict[str, Any]) -> list[str]:
    """A line for each test of the last round's models, image by image: its p for each seed."""
    each = [(pair["seed"], version, tests) for pair in found["images"] for version, tests in pair["versions"].items()]
    apart = "" if found["units"] == found["test_images"] else ", which takes a patient's images as independent"
    lines: dict[str, list[str]] = {}
    for seed, version, tests in each:
        for test, result in tests.items():
            head = f"{TESTS[test]} on the last round's models, {version} images{apart}"
            lines.setdefault(head, []).append(f"{_p(result['p'])} (seed {seed})")
    return [f"{head}: p {', '.join(ps)}." for head, ps in lines.items()]


def _scores(found: dict[str, Any]) -> list[tuple[str, Row]]:
    return [(f"{row['version']} {row['metric']}", row) for row in found["rows"]]


def _gaps(found: dict[str, Any]) -> list[tuple[str, Row]]:
    """Of the clean images, as in a report: the corrupted ones' are in the JSON."""
    return [
        (f"{attribute} gap {row['metric']}", row)
        for attribute, part in found["groups"].items()
        for row in part["gaps"]
        if row["version"] == "clean"
    ]


def _line(name: str, row: Row, several: bool) -> list[str]:
    p = [row["p_holm"], *([row["p_seeds_holm"]] if several else [])]
    interval = "-" if row["low"] is None else f"{_signed(row['low'])} to {_signed(row['high'])}"
    return [name, _score(row["a"]), _score(row["b"]), _signed(row["difference"]), interval, *map(_p, p)]


def _score(numbers: dict[str, Any]) -> str:
    return f"{100 * numbers['mean']:.2f} ± {100 * numbers['std_pooled']:.2f}"


def _signed(share: float) -> str:
    return f"{100 * share:+.2f}"


def _p(p: float | None) -> str:
    return "-" if p is None else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def _below(p: float | None) -> bool:
    return p is not None and p < SIGNIFICANT


def _sentences(found: dict[str, Any]) -> list[str]:
    """What the scores say, what the gaps say, and what neither can."""
    names = {side: about["name"] for side, about in found["systems"].items()}
    rows, gaps = _scores(found), _gaps(found)
    said = [_sentence(rows, names, SAID, "scores"), *([_sentence(gaps, names, GAPS, "gaps")] if gaps else [])]
    verdicts = {row["verdict"] for _, row in rows + gaps}
    said += [ONE_SEED] if found["pairs"] == 1 and verdicts & {HIGHER, LOWER} else []
    return said + ([NOT_EQUAL] if NONE in verdicts else [])


def _sentence(rows: list[tuple[str, Row]], names: dict[str, str], texts: dict[str, str], noun: str) -> str:
    parts = []
    for kind, text in texts.items():
        if alike := [name for name, row in rows if row["verdict"] == kind]:
            every = f"{'any of the' if kind == NONE else 'all'} {len(rows)} {noun}"
            what = every if len(alike) == len(rows) > 2 else _listed(alike)
            parts.append(text.format(what=what, **names))
    whole = "; ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _names(found: dict[str, Any]) -> dict[str, str]:
    """Labels; of one method twice, with what differs, or A and B where that is long."""
    labels = {side: about["label"] for side, about in found["systems"].items()}
    if labels["a"] != labels["b"]:
        return labels
    told = {side: ", ".join(f"{row['what']}={row[side]}" for row in found["settings"]) for side in "ab"}
    if all(0 < len(text) <= SHORT for text in told.values()):
        return {side: f"{labels[side]} ({told[side]})" for side in "ab"}
    return {side: f"{labels[side]} {side.upper()}" for side in "ab"}


def _cautions(found: dict[str, Any]) -> list[str]:
    """What a reader must know: few seeds, few patients, small groups, models of another kind."""
    notes = [f"{about['name']}: {about['caution']}" for about in found["systems"].values() if about["caution"]]
    if found["pairs"] > 1:
        floor = found["rows"][0]["over_seeds"]["wilcoxon"]["floor"]
        seeds = f"Wilcoxon's test over {found['pairs']} seeds cannot give a p below {floor:g}, whatever the numbers"
        if floor >= SIGNIFICANT:
            notes.append(f"{seeds} (it takes six for 0.05); the paired t test leans on normal differences instead")
    if alike := [
        name for name, row in _scores(found) + _gaps(found) if found["pairs"] > 1 and row["p_seeds_holm"] is None
    ]:
        notes.append(f"{_listed(alike)}: the difference is the same in every seed, so there is no test over seeds")
    if found["units"] < SMALL:
        notes.append(
            f"{found['units']} {UNITS[found['unit']]} in the test set, fewer than {SMALL}: the intervals are too narrow"
        )
    return notes + [
        f"{attribute} {value} is a small group: {reason}; its gap says little"
        for attribute, part in found["groups"].items()
        for value, reason in part["small"].items()
    ]
