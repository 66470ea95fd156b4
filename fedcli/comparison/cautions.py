"""Cautions that a reader of scores needs.

They are on models that may be no better than chance; on systems whose gap between groups is smaller
because the best group lost, while no group gained (levelling down); and on numbers between groups
that a group too small to be reliable decides: such numbers are marked and are never the best.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from ..errors import FedcliError
from ..metrics import PARITY, apart, better_low, title
from ..metrics.task import ONE, SEVERAL
from ..scores import table, views
from ..scores.groups import JOIN, NO_IMAGE, unknown_note
from ..scores.numbers import versions
from ..scores.parts import MODELS
from ..scores.scores import RunScores
from ..scores.statistics.over_runs import mean_of
from ..scores.table import Score, Where
from .predicted import one_class
from .systems import BEST, LAST, LAST5, Scored
from .verdict import Difference, interval_text, significant

TOO_NARROW = "intervals may be too narrow, and p too small"
SCALED = "ES-AUC"
SPREADS = views.AMONG[1:]  # numbers that one client can decide
NO_SCORES = (
    "{groups}; without the scores of all groups there is no gap, worst group or equity-scaled AUC "
    "by {by}."
)
UNKNOWN = "images whose {attribute} is unknown are in no group, but in the other scores"
BY_FEW = ". A group with few images, or few or none of a class, decides the gap"
MORE = "a higher --lr or more rounds"
# if some classes are rare, and nothing corrects for that; a classifier on frozen features needs the
# class counts of all clients
PRIOR = f"--prior logit-adjust, {MORE}"
PRIOR_OF_ALL = f"--prior logit-adjust-all, {MORE}"
LESS_NOISE = "less noise (--dp {}), or more clients"
PLAIN = {  # options that leave rare classes as they are
    "prior": (None, "none"),
    "class_weights": (None, "none"),
    "loss": (None, "cross-entropy"),
}
# a prior may help if the commonest class has at least this many times the training images of the
# rarest
UNEQUAL = 2


def at_chance(runs: Sequence[Scored]) -> str:
    """The images on which these runs may be no better than chance, in words, with advice; "" if
    they are better.

    A run counts if the lower bound of its interval is not above chance, which is one divided by the
    classes that the test images have, or 1/2 of several labels per image. Without an interval it
    counts if its score is not.
    """
    clean, corrupted = MODELS
    words = {clean: clean, corrupted: versions(run.scores for run in runs)[corrupted]}
    parts = []
    for version, word in words.items():
        stuck = [run for run in runs if _is_stuck(run, version)]
        if stuck:
            all_runs = len(stuck) == len(runs)
            parts.append(_chance_in_words(stuck, version, word, all_runs=all_runs))
    if not parts:
        return ""
    return f"{'; '.join(parts)}. Try {_advice(runs)}"


def _chance_in_words(
    stuck: Sequence[Scored],
    version: str,
    word: str,
    *,
    all_runs: bool,
) -> str:
    """A clause on runs that may be no better than chance. word: for the version of test images."""
    if any(run.scores.unscored for run in stuck):
        word = f"scored {word}"
    images = f"{word} images"
    one_image = f"{word} image"
    if not all_runs:
        which = "; ".join(run.which for run in stuck)
        images += f" ({which})"
        one_image += f" ({which})"
    if _has_one_answer(stuck, version):
        return f"gives the same answer for every {one_image}"
    scores = stuck[0].scores
    metric = scores.usual[0]
    values = []
    lower_bounds = []
    for run in stuck:
        score = run.scores.versions[version][metric]
        values.append(f"{100 * (score.last or 0):.1f}")
        if score.low is not None:
            lower_bounds.append(f"{100 * score.low:.1f}")
    chance = f"{scores.chance_in_words(version)} ({100 / scores.answers(version):.1f} %)"
    metric_title = title(metric)
    percents = ", ".join(values)
    sentence = (
        f"may be no better than {chance} on {images}: {metric_title} {percents} % in the last round"
    )
    if len(lower_bounds) < len(stuck):
        return sentence
    lower_percents = ", ".join(lower_bounds)
    return f"{sentence}, its 95 % interval begins at {lower_percents} %"


def _has_one_answer(runs: Sequence[Scored], version: str) -> bool:
    try:
        return bool(one_class(runs, version))
    except FedcliError:  # there are no predictions next to the scores
        return False


def _advice(runs: Sequence[Scored]) -> str:
    """Options that may help these runs: less noise of differential privacy, or a prior if some
    classes are rare.
    """
    noise_options = [_noise(run.scores) for run in runs]
    if all(noise_options):
        return LESS_NOISE.format(noise_options[0])
    if all(_may_take_prior(run.scores) for run in runs):
        return PRIOR_OF_ALL if all(_is_linear(run.scores) for run in runs) else PRIOR
    return MORE


def _noise(scores: RunScores) -> str:
    """The kind of differential privacy that a run was trained with; "" for none."""
    for name, kind in {"dp_noise": "client", "dp_sgd": "image"}.items():
        if scores.options.get(name):
            return kind
    return ""


def _is_linear(scores: RunScores) -> bool:
    """Tell whether clients together train a classifier on a frozen network."""
    return bool(scores.options.get("freeze_backbone")) and not scores.single_site


def _may_take_prior(scores: RunScores) -> bool:
    """Tell whether a run's classes have unequal numbers of training images, and nothing corrects
    for that.
    """
    options = scores.options
    is_plain = all(options.get(name) in usual for name, usual in PLAIN.items())
    is_balanced = "class" in str(options.get("sampling", ""))
    if not is_plain or is_balanced or options.get("dp_sgd") or scores.several_labels:
        return False
    image_counts: list[int] = []
    if scores.shots:
        for classes in scores.shots.classes.values():
            image_counts += [count for count in classes.values() if count]
    return bool(image_counts) and max(image_counts) >= UNEQUAL * min(image_counts)


def _is_stuck(run: Scored, version: str) -> bool:
    score = run.scores.versions.get(version, {}).get(run.scores.usual[0])
    if score is None or score.last is None:
        return False
    answers = run.scores.answers(version)
    if answers < 2:
        return False
    chance = 1 / answers
    # there is no interval where one patient alone has a class
    lowest = score.last if score.low is None else score.low
    return bool(apart(lowest, chance) <= 0)


Test = Callable[[Where, int], Difference | None]  # of a score and the index of a system


def levelling_down(systems: Sequence[tuple[str, Sequence[Scored]]], test: Test) -> Iterator[str]:
    """A sentence for each attribute and each system that levels down compared with the first one.

    systems: names with their runs. test: a system's test against the first one in a score; None if
    there is none.
    """
    base, base_runs = systems[0]
    for index, (name, runs) in enumerate(systems[1:], 1):
        for attribute in runs[0].scores.groups:
            if attribute not in base_runs[0].scores.groups:
                continue
            before = _group_means(base_runs, attribute)
            after = _group_means(runs, attribute)
            if not _levels_down(before, after):
                continue
            area = runs[0].scores.usual[1]
            tested = test(
                Where("clean", attribute=attribute, metric=area, measure=views.GAP), index
            )
            groups_of_both = (group for group in after if group in before)
            best = max(groups_of_both, key=lambda group: before[group])
            percent_before = 100 * before[best]
            percent_after = 100 * after[best]
            fall = f"{best} fell from {percent_before:.1f} to {percent_after:.1f} %"
            scores = [run.scores for run in (*base_runs, *runs)]
            decided = small_decides(scores, attribute, "clean", area, LAST5)
            few = BY_FEW if views.GAP in decided else ""
            area_title = title(area)
            doubt = _unsure(tested)
            yield (
                f"{name}: smaller gap by {attribute} than {base}, but only because no group gained "
                f"and {fall} {area_title} (levelling down){doubt}{few}"
            )


def _levels_down(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Tell whether the gap between groups, as it is printed, became smaller, and no group gained.
    Arguments: group -> score.
    """
    shared = [group for group in after if group in before]
    if len(shared) < 2:
        return False
    old = [before[group] for group in shared]
    new = [after[group] for group in shared]
    is_narrower = _printed_gap(new) < _printed_gap(old)
    no_group_gained = (apart(new, old) <= 0).all()
    return bool(is_narrower and no_group_gained)


def _printed_gap(scores: Sequence[float]) -> float:
    """The gap in points of scores as they are printed, in percent with one digit."""
    percents = [round(100 * score, 1) for score in scores]
    return round(max(percents) - min(percents), 1)


def _unsure(tested: Difference | None) -> str:
    """A sentence on a gap whose change may be chance; "" of one that is significant."""
    if tested is None or tested.low is None:
        return ". Whether this is chance was not tested"
    if significant(tested):
        return ""
    interval = interval_text(tested, 1)
    return f". This may be chance: the change of the gap has the 95 % interval {interval} points"


def _group_means(runs: Sequence[Scored], attribute: str) -> dict[str, float]:
    """Each group's mean over rounds and runs on clean images, of groups that have a score in every
    run.
    """
    area = runs[0].scores.usual[1]
    columns = []
    for run in runs:
        if attribute in run.scores.groups:
            scores_by_metric = run.scores.groups[attribute]["clean"]
            columns.append(views.comparable(scores_by_metric.get(area, {})))
    means_by_group = {}
    for group in columns[0]:
        means = [column.get(group, Score()).mean for column in columns]
        numbers = [mean for mean in means if mean is not None]
        if len(numbers) == len(columns):
            means_by_group[group] = float(np.mean(numbers))
    return means_by_group


def doubtful(
    runs: Sequence[RunScores],
    metrics: Sequence[str],
    rounds: str,
    view: str = "",
) -> list[str]:
    """The columns of a report, of one system's scores or of one view of them, that a small group or
    client decides.

    rounds: LAST, LAST5 or BEST.
    """
    shown_metrics = dict.fromkeys([*metrics, ONE.area, *SEVERAL.usual])
    attributes = dict.fromkeys(name for scores in runs for name in scores.groups)
    columns = []
    for attribute in attributes:
        for metric in shown_metrics:
            for measure in sorted(small_decides(runs, attribute, "clean", metric, rounds, view)):
                columns.append(f"{attribute} {measure} {metric}")
            if has_small_group(runs, attribute, metric):
                columns.append(f"{attribute} {SCALED} ({metric})")
    for metric in shown_metrics:
        if any(small_clients(scores, metric) for scores in runs):
            columns += [f"{spread} {metric}" for spread in SPREADS]
    return columns


def has_small_group(
    runs: Sequence[RunScores],
    attribute: str,
    metric: str,
) -> bool:
    """Tell whether a group that is too small has a share in a number of all groups, such as the
    ES-AUC.
    """
    for scores in runs:
        column = scores.groups.get(attribute, {}).get("clean", {}).get(metric, {})
        small = small_groups(scores, attribute, metric)
        if any(column[group].last is not None for group in small if group in column):
            return True
    return False


def small_clients(scores: RunScores, metric: str) -> dict[str, str]:
    """The clients with too few test images of their own for a reliable score, with the reason."""
    small: dict[str, str] = {}
    for name, client in scores.clients.items():
        score = scores.part(client=name).overall.get(client.version, {}).get(metric)
        if client.part == "own" and score and score.small and score.last is not None:
            small[name] = score.small
    return small


def small_decides(
    runs: Sequence[RunScores],
    attribute: str,
    version: str,
    metric: str,
    rounds: str,
    view: str = "",
) -> set[str]:
    """The numbers between groups ("worst group", "gap") that a small group decides, made of the
    groups' means.

    rounds: LAST, LAST5 or BEST.
    """
    if not views.compared(metric) or (rounds == BEST and view):
        return set()
    small: set[str] = set()
    columns = []
    for scores in runs:
        part = scores.part(model=table.BEST) if rounds == BEST else scores.part(view)
        column = part.groups.get(attribute, {}).get(version, {}).get(metric, {})
        if column:
            small |= small_groups(scores, attribute, metric).keys()
            columns.append(column)
    if not small:
        return set()
    means = {}
    for group in columns[0]:
        means[group] = _mean_of([column.get(group) for column in columns], rounds)
    ends = views.worst_and_best(means, low=better_low(metric))
    if ends is None:
        return set()
    (worst, _), (best, _) = ends
    if worst in small:
        return {views.WORST, views.GAP}
    return {views.GAP} if best in small else set()


def _mean_of(scores: Sequence[Score | None], rounds: str) -> float | None:
    """The mean over runs of a group's score, in the last round or over the kept ones."""
    if rounds == LAST:
        return mean_of([score.alone() if score else score for score in scores])
    return mean_of(scores)


def small_groups(
    scores: RunScores,
    attribute: str,
    *metrics: str,
) -> dict[str, str]:
    """The groups too small to be reliable, with the reason; the same in every version and round.

    metrics: the scores that are shown; none if any may be.
    A group without any test image, such as a hospital that is left out, has no score that could be
    unreliable.
    """
    scores_by_group = scores.members(attribute, metrics)
    return {
        group: score.small
        for group, score in scores_by_group.items()
        if score.small and score.count and not score.hidden
    }


def hidden_groups(scores: RunScores, attribute: str) -> dict[str, str]:
    """The groups of which sites hide images, with the number in words; they have no scores."""
    members = scores.members(attribute)
    return {group: score.small for group, score in members.items() if score.hidden}


def hidden_note(runs: Iterable[RunScores], attribute: str = "") -> str:
    """A sentence on the groups of which sites hide images; "" if there are none. attribute: this
    one alone.
    """
    notes_by_attribute: dict[str, dict[str, None]] = {}
    for scores in runs:
        for name in [attribute] if attribute else scores.groups:
            for group, words in hidden_groups(scores, name).items():
                note = f"{name} {group}: {words}"
                notes_by_attribute.setdefault(name, {})[note] = None
    sentences = []
    for name, notes in notes_by_attribute.items():
        sentences.append(NO_SCORES.format(groups="; ".join(notes), by=name))
    return " ".join(sentences)


def unknown_groups(runs: Sequence[RunScores]) -> list[str]:
    """A sentence for each attribute of which some test images have no known group."""
    attributes: dict[str, None] = {}
    for scores in runs:
        attributes |= dict.fromkeys(scores.groups)
    sentences = [unknown_group(runs, attribute) for attribute in attributes]
    return [sentence for sentence in sentences if sentence]


def unknown_group(runs: Sequence[RunScores], attribute: str) -> str:
    """A sentence on the test images whose group is not known, without a number where test sets
    differ in it; "" where every group is known.
    """
    sentences: dict[str, None] = {}
    for scores in runs:
        if attribute in scores.grouped:
            unknown = scores.grouped[attribute].unknown
            sentences[unknown_note(attribute, unknown, scores.images)] = None
    if len(sentences) > 1:
        return UNKNOWN.format(attribute=attribute)
    return next(iter(sentences), "")


def small_in_sets(
    sets: Mapping[str, RunScores], attribute: str, metrics: Sequence[str] = ()
) -> dict[str, str]:
    """Groups too small to be reliable in some of several test sets, with the reason and the test
    sets.

    sets: the scores of a run on each test set, by its name. metrics: the scores that are shown;
    none if any may be.
    """
    members_by_set = {name: scores.members(attribute, metrics) for name, scores in sets.items()}
    groups: dict[str, None] = {}
    for members in members_by_set.values():
        for group, score in members.items():
            if score.count or score.hidden:
                groups[group] = None
    reasons_by_group = {}
    for group in groups:
        reasons = []
        for name, members in members_by_set.items():
            reason = _why_small(members.get(group, Score()))
            if reason:
                text = f"{reason} ({name})" if len(sets) > 1 else reason
                reasons.append(text)
        if reasons:
            reasons_by_group[group] = "; ".join(reasons)
    return reasons_by_group


def _why_small(score: Score) -> str:
    """The reason why a group of a test set has no reliable score; "" if it has one."""
    if score.count or score.hidden:
        return score.small
    return score.small or NO_IMAGE


def unreliable_groups(scores: RunScores) -> list[str]:
    """Sentences on all test images if a class has few, on hidden groups, on groups of few images,
    and on each group that lacks a class.
    """
    few = []
    lacking = []
    for attribute in scores.groups:
        members = scores.members(attribute)
        for group in small_groups(scores, attribute):
            score = members[group]
            classes = _classes_it_lacks(scores, score)
            if JOIN in score.small or not classes:
                few.append(f"{attribute} {group} ({score.small})")
            else:
                lack = _lack(scores, score, " or ".join(classes))
                lacking.append(f"{attribute} {group} {lack}")
    sentences = _of_all_images(scores)
    if few:
        sentences.append(f"groups of few test images: {', '.join(few)}")
    hidden = hidden_note([scores])
    if hidden:
        sentences.append(hidden.removesuffix("."))
    return sentences + lacking


def _lack(scores: RunScores, score: Score, names: str) -> str:
    """The rest of a sentence on a group that lacks classes, or AUCs of labels, of these names."""
    covered = len(scores.classes) - len(score.missing)
    present = len(scores.classes) - len(_absent_classes(scores))
    if scores.several_labels:  # a label without an AUC is one that no image has, or every one
        return f"has no AUC of {names}: its mean covers {covered} of {present} labels"
    consequence = f"its AUC covers {covered} of {present} classes"
    if covered < 2:  # an AUC is of pairs of classes
        consequence = "it has no AUC"
    return f"has no test image of {names}: {consequence}"


def _absent_classes(scores: RunScores) -> tuple[int, ...]:
    """Indices of the classes of which there is no test image at all."""
    for score in scores.versions["clean"].values():
        return score.missing
    return ()


def _classes_it_lacks(scores: RunScores, score: Score) -> list[str]:
    """Names of the classes that some test images have and those of this score do not."""
    absent = _absent_classes(scores)
    lacking = [index for index in score.missing if index not in absent]
    return [scores.classes[index] for index in lacking if index < len(scores.classes)]


def _of_all_images(scores: RunScores) -> list[str]:
    """A sentence if there are few test images, or few of a class."""
    small = scores.versions["clean"].get(scores.usual[1], Score()).small
    return [f"few test images: {small}; {TOO_NARROW}"] if small else []


def doubtful_decisions(
    scores: RunScores,
    attribute: str,
    names: Sequence[str],
) -> set[str]:
    """The differences in decisions that a small group may decide: all of them, if there is such a
    group.

    The table holds no group's own rates, so which groups differ most is not known.
    """
    if not small_groups(scores, attribute):
        return set()
    return {name for name in names if name.startswith(PARITY)}
