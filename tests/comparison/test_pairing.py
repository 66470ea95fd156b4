"""Runs form systems and pairs, and pairs are a sample of seeds or folds."""

import numpy as np
import pytest
import scipy.stats
from nested_scores import body_of
from score_json import summary_of_groups
from scored_runs import SEX, N, Y, fold, heal, model, ordered, row, scored, stage, systems_of

from fedcli.comparison.systems import read, settings
from fedcli.comparison.tested import compare
from fedcli.errors import FedcliError
from fedcli.reporting.comparison import heading, legend, names, notes, table
from fedcli.reporting.rows import rows
from fedcli.scores.groups import cross


def mean_of(path):
    """Mean balanced accuracy of clean images over the last five rounds, as scores.json has it."""
    return body_of(path)["versions"]["clean"]["balanced_accuracy"]["mean_last5"]


def accuracy_of(path):
    (run,) = read([path])
    return run.scores.versions["clean"]["accuracy"].mean


def test_other_test_images_labels_or_patients_are_refused(tmp_path):
    a = [scored(tmp_path / "a", model(1, 0))]
    other = heal(tmp_path / "b", model(1, 0), ids=np.array([f"image-{i + 20}" for i in range(N)]))
    with pytest.raises(
        FedcliError, match="were not scored on the same test images: 40 of 60 and 60 are shared"
    ):
        compare(a, [other])
    with pytest.raises(FedcliError, match="different labels or patients"):
        compare(a, [heal(tmp_path / "c", model(1, 0), y=Y[::-1])])
    with pytest.raises(FedcliError, match="different labels or patients"):
        compare(a, [heal(tmp_path / "d", model(1, 0), units=None)])


def test_runs_are_paired_by_seed_and_those_alone_are_left_out(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(1, k), seed=k) for k in (0, 1)]
    b = [heal(tmp_path / f"b{k}", model(1, k), seed=k) for k in (1, 2)]
    comparison = compare(a, b, resamples=50)
    assert comparison.pairs == 1
    assert comparison.systems["a"]["seeds"] == [1]
    assert (
        "left out, as the other system has no run of these seeds: FedAvg seed 0, FedHEAL seed 2"
        in notes(comparison)
    )
    with pytest.raises(FedcliError, match="of one system and the same seed"):
        compare([a[0], a[0]], b)
    with pytest.raises(
        FedcliError,
        match=r"no run of FedAvg and of FedHEAL has the same seeds \(of training: 0; 1, 2\)",
    ):
        compare(a[:1], b)


def test_single_runs_of_unlike_seeds_or_data_are_compared_with_a_warning(tmp_path):
    data = {"dataset": stage("d"), "partition": stage("q", seed=0, alpha=1), "corruption": None}
    a = [scored(tmp_path / "a", model(1, 0))]
    b = [heal(tmp_path / "b", model(1, 1), seed=1, data=data)]
    comparison = compare(a, b, resamples=50)
    assert notes(comparison)[:2] == [
        "the two runs do not have the same seeds: their random draws differ too",
        "the systems were not trained on the same partition: a difference may be due to that and not to the method",
    ]
    assert {"what": "seed", "a": "0", "b": "1"} in comparison.settings
    assert {"what": "partition alpha", "a": "-", "b": "1"} in comparison.settings


def test_folds_have_test_sets_of_their_own_and_a_corrected_t_test(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(1, k), seed=k, by=(), **fold(k)) for k in (1, 2, 3)]
    b = [heal(tmp_path / f"b{k}", model(1.5, 7 + k), seed=k, by=(), **fold(k)) for k in (1, 2, 3)]
    assert systems_of([*a, *b]) == [a, b]
    comparison = compare(a, b, resamples=50)
    result = (
        comparison.pairs,
        comparison.sample.over,
        comparison.sample.count,
        comparison.sample.test_images,
    )
    expected = (
        3,
        "folds",
        3,
        3 * N,
    )
    assert result == expected
    expected = (3 * N // 2, 0.5)
    assert (comparison.sample.units, comparison.sample.overlap) == expected
    difference = row(comparison, "clean", "balanced_accuracy")
    means = [[mean_of(path) for path in a], [mean_of(path) for path in b]]
    d = np.subtract(means[1], means[0])
    t = d.mean() / np.sqrt((1 / 3 + 1 / 2) * d.var(ddof=1))
    assert difference.p_seeds == pytest.approx(2 * scipy.stats.t.sf(abs(t), 2))
    assert difference.over_seeds["corrected_t"]["p"] == difference.p_seeds
    assert "p folds: corrected resampled t test (Nadeau and Bengio 2003)." in legend(comparison)
    heads = [column.name for column in table(comparison).columns]
    assert heads[1] == "FedAvg"
    assert "p folds" in heads
    assert heading(comparison).startswith("FedHEAL against FedAvg, 3 folds each;")
    assert comparison.images[0]["which"] == "fold 1, seed 1"


def test_seeds_of_one_fold_count_once(tmp_path):
    seeds_and_folds = [(seed, k) for k in (1, 2) for seed in (0, 1)]
    a = [
        scored(tmp_path / f"a{s}{k}", model(1, s + k), seed=s, by=(), **fold(k))
        for s, k in seeds_and_folds
    ]
    b = [
        heal(tmp_path / f"b{s}{k}", model(2, s + k), seed=s, by=(), **fold(k))
        for s, k in seeds_and_folds
    ]
    comparison = compare(a, b, resamples=50)
    result = (
        comparison.pairs,
        comparison.sample.count,
        row(comparison, "clean", "auc_ovo_macro").samples,
    )
    assert result == (4, 2, 2)
    assert heading(comparison).startswith("FedHEAL against FedAvg, 2 folds, 4 runs each;")


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_folds_of_unlike_numbers_of_runs_weigh_every_run_alike(tmp_path, interval):
    """Three runs of the first fold, in which the second system is far better, and one of the second, in which it is
    not; only over folds does each fold count once."""
    designs = [(0, 1, 6), (1, 1, 6), (2, 1, 6), (0, 2, 0.5)]
    a = [
        scored(tmp_path / f"a{s}{k}", model(0.5, s + k), seed=s, by=(), **fold(k))
        for s, k, _ in designs
    ]
    b = [
        heal(tmp_path / f"b{s}{k}", model(skill, s + k), seed=s, by=(), **fold(k))
        for s, k, skill in designs
    ]
    comparison = compare(a, b, metrics=["accuracy"], resamples=300, interval=interval)
    difference = row(comparison, "clean", "accuracy")
    expected = pytest.approx(difference.b.mean - difference.a.mean)
    assert difference.difference == expected
    assert difference.low < difference.difference < difference.high
    pairs = zip(a, b, strict=True)
    differences = [accuracy_of(path_b) - accuracy_of(path_a) for path_a, path_b in pairs]
    assert difference.difference == pytest.approx(np.mean(differences))
    expected = pytest.approx((np.mean(differences[:3]) + differences[3]) / 2)
    assert difference.over_seeds["corrected_t"]["difference"] == expected
    caution = "the folds have different numbers of runs (3, 1)"
    assert any(note.startswith(caution) for note in notes(comparison))
    (_, against) = ordered({"A": a, "B": b}, "A", "accuracy", "clean", resamples=50)
    assert caution in against.note
    assert against.difference == pytest.approx(np.mean(differences))


def test_groups_are_found_by_name_where_folds_have_other_ones(tmp_path):
    """The first fold has no old woman, so that men stand second there and third in the other."""
    sexes = np.array(["f", "m"])
    ages = np.array(["old", "young"])
    paths_by_skill = {}
    for k in (1, 2):
        age = np.where((SEX == 0) & (k == 1), 1, np.arange(N) // 4 % 2)
        group_of, groups = cross({"age": (age, list(ages)), "sex": (SEX, list(sexes))})
        for skill, make in ((0, scored), (4, heal)):
            logits = [np.where(SEX[:, None] == 1, single, 0 * single) for single in model(skill, k)]
            crossed = {"clean": summary_of_groups(logits, Y, group_of, groups)}
            path = make(
                tmp_path / f"{skill}{k}",
                logits,
                extra={"age": age},
                groups_of={"age*sex": crossed},
                **fold(k),
            )
            paths_by_skill.setdefault(skill, []).append(path)
    comparison = compare(
        paths_by_skill[0], paths_by_skill[4], metrics=["accuracy"], resamples=100
    ).groups["age*sex"]
    scores = {single.group: single for single in comparison.each}
    assert list(scores) == ["old x m", "young x f", "young x m"]
    result = (scores["young x f"].low, scores["young x f"].high)
    assert result == (0, 0)
    assert scores["young x m"].low > 0.2
    assert scores["old x m"].low > 0.2
    assert comparison.small["old x f"].startswith("no test image (fold 1, seed 0); ")


def test_settings_of_one_method_are_told_one_by_one(tmp_path):
    a = heal(tmp_path / "a", model(1, 0), settings={"tau": 0.3, "beta": 0.4, "rule": "paper"})
    b = heal(
        tmp_path / "b", model(1, 0), settings={"tau": 0.4, "beta": 0.4, "rule": "paper"}, rounds=7
    )
    c = scored(tmp_path / "c", model(1, 0), model={"name": "resnet18", "size": 8})
    fedheal, changed, fedavg = (run.scores for run in read([a, b, c]))
    expected = [
        {"what": "rounds", "a": "6", "b": "7"},
        {"what": "tau", "a": "0.3", "b": "0.4"},
    ]
    assert settings(fedheal, changed) == expected
    expected = [
        {"what": "method", "a": "FedHEAL", "b": "FedAvg"},
        {"what": "model name", "a": "cnn", "b": "resnet18"},
        {"what": "method settings", "a": "beta=0.4, tau=0.3", "b": "none"},
    ]
    assert settings(fedheal, fedavg) == expected
    result = names(compare([a], [b], resamples=50))["b"]
    assert result == "FedHEAL (rounds=7, tau=0.4)"


def test_runs_that_differ_in_the_seed_alone_are_one_system(tmp_path):
    a = [scored(tmp_path / f"a{k}", model(1, k), seed=k) for k in (0, 1)]
    b = scored(tmp_path / "b", model(1, 0), options={"lr": 0.2, "seed": 0})
    c = scored(tmp_path / "c", model(1, 0), model={"name": "resnet18"})
    result = systems_of([a[0], b, a[1], c])
    expected = [a, [b], [c]]
    assert result == expected


def test_folds_of_a_system_are_one_row_of_a_report(tmp_path):
    paths = [scored(tmp_path / f"a{k}", model(1, k), seed=0, by=(), **fold(k)) for k in (1, 2, 3)]
    result = [row.name for row in rows(paths, spread="pooled")]
    assert result == ["FedAvg (3 folds)"]


def test_runs_that_differ_in_the_seed_of_their_partition_alone_are_named_by_it(tmp_path):
    def data(seed):
        return {
            "dataset": stage("d"),
            "partition": stage(f"p{seed}", seed=seed),
            "corruption": stage("c", seed=0),
        }

    a = [scored(tmp_path / f"a{k}", model(1, 0), data=data(k)) for k in (0, 1)]
    assert [run.which for run in read(a)] == ["seed 0", "seed 0, partition seed 1"]
    b = [heal(tmp_path / f"b{k}", model(1, 0), data=data(k)) for k in (1, 2)]
    caution = "left out, as the other system has no run of these seeds: FedAvg seed 0, FedHEAL seed 0, partition seed 2"
    assert caution in notes(compare(a, b, resamples=50))


def test_groups_of_corrupted_images_that_one_system_alone_has_are_left_out(tmp_path):
    """The other system was scored on clean images alone."""
    a = [scored(tmp_path / "a", model(1, 0), corrupted=model(0.5, 1))]
    b = [heal(tmp_path / "b", model(2, 0))]
    for system, other_system in ((a, b), (b, a)):
        groups = compare(system, other_system, metrics=["accuracy"], resamples=50).groups["sex"]
        result = [(score.version, score.group) for score in groups.each]
        expected = [
            ("clean", "f"),
            ("clean", "m"),
        ]
        assert result == expected
        assert [gap.version for gap in groups.gaps] == ["clean"]


@pytest.mark.parametrize("without", [("a", 1), ("b", 1), ("a", 0)])
def test_attributes_are_compared_that_all_runs_were_evaluated_by(tmp_path, without):
    def made(make, side, skill):
        attributes = {k: ("age",) if (side, k) == without else ("sex", "age") for k in (0, 1)}
        return [
            make(
                tmp_path / f"{side}{k}",
                model(skill, k),
                seed=k,
                by=attributes[k],
                extra={"age": SEX},
            )
            for k in (0, 1)
        ]

    comparison = compare(
        made(scored, "a", 1), made(heal, "b", 2), metrics=["accuracy"], resamples=50
    )
    assert list(comparison.groups) == ["age"]
    assert comparison.pairs == 2
