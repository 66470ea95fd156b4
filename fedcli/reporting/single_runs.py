"""Tables of single runs: group by group, under other corruptions and a backdoor, of every client's
model at the other clients, and of the last round's model adapted to the test images.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from .. import printed
from ..comparison.cautions import hidden_note, small_clients, small_decides, small_groups
from ..comparison.predicted import can_resample, predicted
from ..comparison.resampling import Resamples
from ..comparison.systems import LAST, LAST5, Scored, grouped
from ..console import capital, listed, shortened
from ..data import units
from ..data.corruption.kinds import in_words
from ..data.glance import WIDTH
from ..metrics import RESAMPLED, apart, better_low, title
from ..printed import fixed, percents
from ..scores import numbers, views
from ..scores.parts import AS_TRAINED, MODELS, PATCHED, SUCCESS, AdaptedScore, Number
from ..scores.predictions import REBUILT
from ..scores.scores import RunScores
from ..scores.statistics.intervals import RESAMPLES, bounds
from ..scores.table import Score, Where
from .columns import SHOWN, shown
from .rows import unique
from .table import DAGGER, NONE, Cell, ReportTable, bounded, heads, percent

Runs = Sequence[tuple[str, RunScores]]  # name and scores of each
UNRELIABLE = f"{DAGGER} not reliable: "
FEW_IMAGES = f"{DAGGER} not reliable, too few test images: "  # with names alone
MOST_NAMED = 12
SEVERITIES = (
    "Mean of the last five rounds ± their standard deviation, in %, on all test images. In "
    "training: whether clients trained on images of this kind and severity, of this kind at "
    "another severity, or of neither (unseen)."
)
SAME = "The interval of every change includes 0."
BACKDOOR = (
    "Test images of other classes that the model assigns to the target class, with "
    "and without the patch."
)
BY_GROUP = "In percent, of the last round's model; the gap is between the best and the worst group."
CROSS_SITE = (
    "In percent, last round's models on clean test images. Rows: whose model; "
    "columns: whose test images, with their number in brackets. On the diagonal "
    "nothing is transferred."
)
ADAPTED = (
    "In %, last round's model. none: as it was trained; below it the change in points, with a 95 "
    "% interval over bootstrap resamples that both share. bn: batch-norm statistics of these "
    "images. prior: their class prior by EM. temperature: fitted to validation images. Labels of "
    "these images choose nothing. Calibration errors grow in resamples, so that their intervals "
    "are rough."
)
DRAWN = "all test {}, in which groups vary in size"
AT_SITES = (
    "the images, which sites count without their patients, so too narrow if patients have several"
)


def by_group(run: Scored, metric: str = "") -> Iterator[ReportTable]:
    """A table for each attribute, on clean and corrupted test images; metric: by default the AUC.

    Scores are means over the kept rounds, with intervals of these means over patients; of a metric
    that is not resampled they are the last round's.
    """
    scores = run.scores
    metric = metric or scores.usual[1]
    words = numbers.versions([scores])
    which = "" if run.seed is None else run.which
    facts = [scores.name, which, _rounds_in_words(run, metric)]
    caption = f"{', '.join(filter(None, facts))}: {title(metric)} in %"
    for attribute, versions in scores.groups.items():
        images = "scored images" if scores.unscored else "images"
        columns = [attribute, images, *[words.get(version, version) for version in versions]]
        if len(versions) > 1:
            cause = "noise" if words[MODELS[1]] == "noisy" else "corruption"
            columns.append(f"lost to {cause}")
        where = Where(attribute=attribute, metric=metric)
        lines = []
        for group, size in scores.members(attribute, [metric]).items():
            lines.append(_group_line(run, where._replace(group=group), size))
        has_interval = any(" to " in text for text in chain(*lines))
        interval = ", 95 % interval" if has_interval else ""
        heading = f"{caption}{interval}, by {attribute}"
        yield ReportTable.of(heading, columns, [*lines, *_gap_lines(run, where)])


def worst_groups(run: Scored, which: str = "") -> Iterator[str]:
    """A sentence for each attribute and version of the test images: the worst group and the gap, as
    the tables have them. which: the run's seed or fold, where it is one of several.
    """
    metric = run.scores.usual[1]
    words = numbers.versions([run.scores])
    rounds = _rounds_in_words(run, metric)
    when = f"{which}, {rounds}" if which else rounds
    mean = _is_mean(run, metric)
    for attribute, versions in run.scores.groups.items():
        for version, columns in versions.items():
            gap = _printed_gap(
                run,
                Where(version, attribute=attribute, metric=metric),
                mean=mean,
            )
            if not gap:
                continue
            column = columns.get(metric, {})
            values = {group: _value(score, mean=mean) for group, score in column.items()}
            worst = views.worst_of(values, metric)
            images = f"{attribute} on {words.get(version, version)} images, {when}"
            score = f"{percents(values[worst[0]] or 0)} % {title(metric)}"
            doubt = ""
            if small_decides([run.scores], attribute, version, metric, LAST5 if mean else LAST):
                doubt = " (not reliable)"
            if views.is_tied(values):
                yield f"no group by {images}, scores lower than another: {score}{doubt}"
            else:
                gap_in_words = f"gap {gap} points{doubt}"
                yield f"worst group by {images}: {listed(worst)}, {score}; {gap_in_words}"


def _is_mean(run: Scored, metric: str) -> bool:
    """Tell whether numbers are means over rounds, of which an interval can be drawn."""
    files = [run.path.parent / name for name in ("predictions.h5", REBUILT)]
    return metric in RESAMPLED and any(file.is_file() for file in files)


def _rounds_in_words(run: Scored, metric: str) -> str:
    """The rounds that numbers are of."""
    is_several = len(run.scores.kept_rounds) > 1
    return _kept_rounds(run) if is_several and _is_mean(run, metric) else "last round"


def _kept_rounds(run: Scored) -> str:
    """The kept rounds, whose means a report and --fail-if use."""
    rounds = run.scores.kept_rounds
    link = "to" if len(rounds) > 2 else "and"
    return f"mean of rounds {rounds[0]} {link} {rounds[-1]}"


def _group_line(run: Scored, where: Where, size: Score) -> list[str]:
    """The group, its images, its score on each version, and how much worse the second is, in
    points.
    """
    is_small = size.small and size.count and not size.hidden
    line = [f"{where.group}{DAGGER}" if is_small else where.group, size.size]
    mean = _is_mean(run, where.metric)
    values = []
    for version in run.scores.groups[where.attribute]:
        of_version = where._replace(version=version)
        value = _value(run.score(of_version), mean=mean)
        low, high = _interval(run, of_version)
        line.append(bounded(value, low, high).text)
        values.append(value)
    if len(values) == 2:
        clean, corrupted = values
        line.append(_loss(clean, corrupted, low=better_low(where.metric)))
    return line


def _value(score: Score | None, *, mean: bool) -> Number:
    """The mean over the kept rounds, or the last round's score; None of no score."""
    if score is None:
        return None
    return score.mean if mean else score.last


def _loss(clean: Number, corrupted: Number, *, low: bool) -> str:
    """Points by which the score on corrupted images is worse; a dash if one is missing."""
    if clean is None or corrupted is None:
        return NONE
    better, worse = (corrupted, clean) if low else (clean, corrupted)
    loss = printed.difference(100 * (better - worse), 100 * better, 100 * worse, 1)
    return fixed(loss, 1)


def _interval(run: Scored, where: Where) -> tuple[Number, Number]:
    """The interval of a score in the table; that of a mean is drawn here, from two patients or
    more.
    """
    score = run.score(where) or Score()
    if score.mean is None or len(score.values) < 2 or not _is_mean(run, where.metric):
        return score.low, score.high
    if not can_resample([(run, run)], where):
        return None, None
    images = predicted(run.path).of(where.attribute)
    patients = images.units[images.members(where)]
    if len(set(patients.tolist())) < 2:
        return None, None
    resamples = Resamples(RESAMPLES, bca=run.options.get("interval") == "bca")
    without_each = resamples.left(run, where) if resamples.bca else None
    return bounds(score.mean, resamples.drawn(run, where), without_each)


def _gap_lines(run: Scored, where: Where) -> list[list[str]]:
    """The gaps of the groups, and those of a report where it has means and the table the last
    round.
    """
    versions = run.scores.groups[where.attribute]
    is_mean = _is_mean(run, where.metric)
    rows = {"gap": is_mean}
    if not is_mean and len(run.scores.kept_rounds) > 1:
        rows[f"gap, {_kept_rounds(run)}"] = True
    lines = []
    for name, mean in rows.items():
        gaps = [_marked_gap(run, where._replace(version=version), mean) for version in versions]
        if any(gaps):
            loss = [""] if len(versions) > 1 else []
            lines.append([name, "", *gaps, *loss])
    return lines


def _gap(run: Scored, where: Where, *, mean: bool) -> Number:
    """The distance of the best group from the worst; None of fewer than two."""
    return _value(run.score(where._replace(measure=views.GAP)), mean=mean)


def _printed_gap(run: Scored, where: Where, *, mean: bool) -> str:
    """The gap in points, of the groups' scores as they are printed; "" of fewer than two."""
    gap = _gap(run, where, mean=mean)
    if gap is None:
        return ""
    column = run.scores.groups[where.attribute][where.version].get(where.metric, {})
    values = []
    for score in column.values():
        value = _value(score, mean=mean)
        if value is not None:
            values.append(100 * value)
    return fixed(printed.gap(100 * gap, values, 1), 1)


def _marked_gap(run: Scored, where: Where, mean: bool) -> str:
    """The gap in points, with a dagger if a small group decides it; "" of fewer than two groups."""
    gap = _printed_gap(run, where, mean=mean)
    if not gap:
        return ""
    rounds = LAST5 if mean else LAST
    decided = small_decides(
        [run.scores],
        where.attribute,
        where.version,
        where.metric,
        rounds,
    )
    return f"{gap}{DAGGER}" if views.GAP in decided else gap


def legend(scores: RunScores, metrics: Sequence[str] = ()) -> list[str]:
    """Lines below tables by group: the unit that intervals draw, and the reason of each small
    group.
    """
    metrics = [scores.usual[1], *metrics]
    lines = []
    intervals = list(_intervals(scores, metrics))
    if intervals:
        kind = "Intervals"
        noun = units.IMAGE
        if any(score.is_bca for score in intervals):
            kind = "BCa intervals"
        if any(score.unit.startswith("patient") for score in intervals):
            noun = scores.noun
        drawn = DRAWN.format(units.plural(noun))
        if scores.curves:  # sites counted, which do not say whose image is which
            drawn = AT_SITES
        lines.append(f"{kind}: {RESAMPLES:,} bootstrap resamples of {drawn}.")
    notes = [unreliable([scores], metrics=metrics), hidden_note([scores])]
    return [*lines, *filter(None, notes)]


def _intervals(scores: RunScores, metrics: Sequence[str]) -> Iterator[Score]:
    """The scores of groups that have an interval."""
    for versions in scores.groups.values():
        for columns in versions.values():
            for metric in metrics:
                column = columns.get(metric, {})
                yield from [score for score in column.values() if score.interval]


def unreliable(
    runs: Iterable[RunScores],
    attributes: Sequence[str] | None = None,
    metrics: Sequence[str] = (),
    *,
    clients: bool = False,
) -> str:
    """A line that names each small group, with its reason if one line holds them all; "" where
    there is none.

    attributes: whose groups it names; None for all. metrics: those that are shown; none where any
    may be. clients: name small ones too.
    """
    reasons = []
    for scores in runs:
        for name in scores.groups:
            if attributes is None or name in attributes:
                small = small_groups(scores, name, *metrics)
                reasons += [
                    (f"{name} {shortened(group)}", reason) for group, reason in small.items()
                ]
        if clients:
            small = small_clients(scores, scores.usual[1])
            reasons += [(f"client {client}", reason) for client, reason in small.items()]
    if not reasons:
        return ""
    texts = unique([f"{name} ({reason})" for name, reason in reasons])
    line = f"{UNRELIABLE}{', '.join(texts)}."
    if len(line) <= WIDTH:
        return line
    names = unique([name for name, _ in reasons])
    if len(names) > MOST_NAMED:
        others = len(names) - MOST_NAMED
        names = [*names[:MOST_NAMED], f"{others} more"]
    return f"{FEW_IMAGES}{listed(names)}."


def by_severity(runs: Runs, metrics: Sequence[str] = SHOWN) -> Iterator[ReportTable]:
    """A table of each run whose scores hold other corruptions."""
    lines = []
    for name, scores in runs:
        overall = scores.part().overall
        if PATCHED[0] in overall:
            lines.append([name, *[_cell(overall[version].get(SUCCESS)) for version in PATCHED]])
    if lines:
        columns = heads("") + heads(*PATCHED, unit="%", lower=True)
        yield ReportTable.of("Success of the backdoor", columns, lines, BACKDOOR)
    for name, scores in runs:
        if not scores.severities:
            continue
        overall = scores.part().overall
        lines = []
        for version, *level in _levels(scores):
            cells = [_cell(overall[version].get(metric)) for metric in metrics]
            lines.append([*level, *cells])
        columns = heads("test images", "severity", "in training")
        columns += heads(*map(title, metrics), unit="%")
        caption = "Severities"
        if name:
            caption += f": {name}"
        yield ReportTable.of(caption, columns, lines, SEVERITIES)


def by_severity_and_group(runs: Runs) -> Iterator[ReportTable]:
    """A table for each run and attribute: a line for each kind and severity, a column for each
    group.
    """
    for name, scores in runs:
        if not scores.severities:
            continue
        metric = scores.usual[1]
        part = scores.part()
        for attribute in scores.groups:
            lines = []
            for version, kind, severity, _ in _levels(scores):
                gap = part.lies(attribute, version, metric, views.GAP)
                groups = part.groups[attribute][version][metric].values()
                scores_of_groups = [score.last for score in groups]
                if gap is None or gap.last is None:
                    distance = None
                else:
                    in_percent = [100 * score for score in scores_of_groups if score is not None]
                    distance = printed.gap(100 * gap.last, in_percent, 1) / 100
                lines.append([kind, severity, *scores_of_groups, distance])
            columns = heads("test images", "severity")
            columns += heads(*scores.members(attribute), unit="%")
            columns += heads("gap", unit="points", lower=True)
            caption = f"{capital(title(metric))} by severity and {attribute}: {name or scores.name}"
            yield ReportTable.of(caption, columns, lines, BY_GROUP)


def _levels(scores: RunScores) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Version of the test images, its kind in words, its severity, and whether clients trained on
    it.
    """
    yield "clean", "clean", None, None
    for kind, levels in scores.severities.items():
        for severity in sorted(levels, key=int):
            training = "unseen"
            if levels[severity].severity_in_training:
                training = "this severity"
            elif levels[severity].kind_in_training:
                training = "another severity"
            yield f"{kind} {severity}", in_words(kind), severity, training


def _cell(score: Score | None) -> Cell:
    """The mean over the rounds, or the last round's score, in percent."""
    if score is None:
        return Cell()
    return percent(score.last if score.mean is None else score.mean, score.std)


def cross_site(runs: Runs) -> Iterator[ReportTable]:
    """Tables of each run whose scores hold them."""
    for name, scores in runs:
        if not scores.cross_site:
            continue
        clients = next(iter(scores.cross_site.values()))
        columns = heads("trained at")
        for client, column in clients.items():
            count = next(iter(column.values())).count
            columns += heads(f"{client} [{count}]", unit="%")
        tested = next(iter(clients.values()))
        for metric in shown(scores):
            if metric not in tested:  # the name of a single column
                continue
            lines = []
            for model, tests in scores.cross_site.items():
                lines.append([model, *[tests[client][metric].last for client in clients]])
            caption = f"Trained at and tested on: {title(metric)}, {name or scores.name}"
            yield ReportTable.of(caption, columns, lines, CROSS_SITE)


def adapted(runs: Runs) -> Iterator[ReportTable]:
    """A table of all images and one for each attribute, of each version of them, of each run that
    has such scores.
    """
    for name, scores in runs:
        if not scores.adapted:
            continue
        words = numbers.versions([scores])
        parts = grouped(scores.adapted.scores, lambda score: (score.version, score.attribute))
        for part in parts:
            version = words.get(part[0].version, part[0].version)
            caption = f"Adapted to the {version} test images: {name or scores.name}"
            legend = ADAPTED if part is parts[-1] else ""
            yield _adapted_table(caption, part, scores, legend)
        if scores.adapted.prior:
            lines = []
            for version, shares in scores.adapted.prior.items():
                lines.append([version, *[shares[label] for label in scores.classes]])
            columns = heads("images") + heads(*scores.classes, unit="%")
            yield ReportTable.of(f"Class prior: {name or scores.name}", columns, lines)


def _adapted_table(
    caption: str, part: Sequence[AdaptedScore], scores: RunScores, legend: str
) -> ReportTable:
    """The table of one attribute, "" of all images.

    Each row says by itself whose it is and of which adaptation: a wide table repeats its first
    column alone.
    """
    attribute = part[0].attribute
    if attribute:
        caption = f"{caption}, by {attribute}"
        part = [score for score in part if score.metric != "accuracy"]  # which finds no room
    lines = []
    changes = []
    small = _small_groups(part, scores)
    for of_group in grouped(part, lambda score: score.group):
        as_trained = [score.value for score in of_group if score.adaptation == AS_TRAINED]
        if all(value is None for value in as_trained):
            continue
        for of_adaptation in grouped(of_group, lambda score: score.adaptation):
            name = _adapted_name(of_adaptation[0], small)
            lines.append([name, *_adapted_cells(of_adaptation)])
            changed = ", ".join(filter(None, map(_change, of_adaptation)))
            if changed:
                changes.append(f"{name}: {changed}")
    metrics = dict.fromkeys(score.metric for score in part)
    columns = heads(f"{attribute}, adapted" if attribute else "adapted", "images")
    columns += heads(*map(title, metrics), unit="%")
    verdict = f"Changes whose interval excludes 0: {'; '.join(changes)}." if changes else SAME
    return ReportTable.of(
        caption,
        columns,
        lines,
        f"{verdict} {legend}".strip(),
    )


def _small_groups(part: Sequence[AdaptedScore], scores: RunScores) -> set[str]:
    """The groups that are too small for a reliable score; "" where one of them decides a gap.

    part: the scores of an attribute, "" of all images.
    """
    attribute = part[0].attribute
    if not attribute:
        return set()
    small = {group for group, size in scores.members(attribute).items() if size.small}
    values_by_metric: dict[str, dict[str, Number]] = {}
    for score in part:
        if score.group and score.adaptation == AS_TRAINED:
            values_by_metric.setdefault(score.metric, {})[score.group] = score.value
    for values in values_by_metric.values():
        ends = views.worst_and_best(values, low=False) or ()
        if any(group in small for group, _ in ends):
            small.add("")  # the gap has no name
    return small


def _adapted_name(score: AdaptedScore, small: set[str]) -> str:
    """The adaptation, behind the group, or the gap, that a score is of. small: see
    _small_groups().
    """
    if not score.attribute:
        return score.adaptation
    dagger = DAGGER if score.group in small else ""
    return f"{score.group or 'gap'}{dagger}, {score.adaptation}"


def _adapted_cells(adaptation: Sequence[AdaptedScore]) -> list[Any]:
    """The number of images and each score; of an adapted model each change with its interval."""
    score = adaptation[0]
    if score.adaptation == AS_TRAINED:
        is_gap = score.attribute and not score.group
        return [
            "" if is_gap else f"{score.images:,}",
            *[percent(score.value) for score in adaptation],
        ]
    cells: list[Any] = [""]
    for score in adaptation:
        change = bounded(score.difference, score.low, score.high, sign="+")
        cells.append(Cell(change.text))
    return cells


def _change(score: AdaptedScore) -> str:
    """The metric, and the side of zero on which the change's interval lies; "" if it holds zero or
    there is none.
    """
    if score.low is None or score.high is None:
        return ""
    if apart(score.low, 0.0) > 0:
        return f"higher {title(score.metric)}"
    return f"lower {title(score.metric)}" if apart(score.high, 0.0) < 0 else ""
