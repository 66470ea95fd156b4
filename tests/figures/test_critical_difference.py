"""The critical-difference diagram, against ranks computed by hand."""

from itertools import permutations

import pytest
from made_scores import scores

from fedcli.figures import drawing
from fedcli.figures.figure import NothingToDraw
from fedcli.figures.kinds import critical_difference
from fedcli.reporting import comparison
from fedcli.reporting.rows import compared, rows

# six datasets on which a is always first, d always last, b and c second and third by turns
BY_HAND = {
    "a": [0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
    "b": [0.8, 0.8, 0.8, 0.7, 0.7, 0.7],
    "c": [0.7, 0.7, 0.7, 0.8, 0.8, 0.8],
    "d": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
}


def test_ranks_and_bars_are_those_computed_by_hand():
    """Ranks 1, 2.5, 2.5, 4; q is 2.569 for four methods (Demsar 2006, Table 5), so the critical difference is
    2.569 sqrt(4 * 5 / (6 * 6)) = 1.915: a bar over a, b and c, and one over b, c and d."""
    table = critical_difference.of_scores("accuracy", BY_HAND, images=100)
    result = dict(zip(table["method"], table["rank"]))
    expected = {"a": 1, "b": 2.5, "c": 2.5, "d": 4}
    assert result == expected
    expected = pytest.approx(1.915, abs=5e-4)
    assert table.attrs["critical_difference"] == expected
    result = table["until"].tolist()[:2]
    assert result == ["c", "d"]
    result = table["until"].isna().tolist()
    assert result == [False, False, True, True]


def test_a_bar_joins_ranks_less_than_the_critical_difference_apart_and_none_lies_within_another():
    bars = critical_difference.groups([1.0, 2.0, 2.4, 4.0, 9.0], 1.5)
    assert bars == [(0, 2)]
    assert critical_difference.groups([1.0, 2.5], 1.5) == []
    result = critical_difference.groups([1.0, 2.5, 3.5], 1.6)
    assert result == [(0, 1), (1, 2)]


@pytest.mark.parametrize(("datasets", "bars"), [(3, 1), (4, 0)])
def test_two_methods_differ_where_one_wins_on_four_datasets(datasets, bars):
    """The critical difference is 1.96 / sqrt(datasets): 1.13 of three, 0.98 of four; the ranks are 1 apart."""
    scores = {"a": [1] * datasets, "b": [0] * datasets}
    table = critical_difference.of_scores("accuracy", scores, images=100)
    expected = pytest.approx(1.96 / datasets**0.5, abs=1e-4)
    assert table.attrs["critical_difference"] == expected
    assert table["until"].notna().sum() == bars
    assert "cannot differ on fewer than 4" in table.attrs["caption"]


def test_two_folders_of_own_images_are_two_datasets(tmp_path):
    paths = []
    for files in ("0123abcd", "4567abcd"):
        stage = {"sha256": files * 8, "options": {"raw_fingerprint": files * 8}}
        for number, label in enumerate(("FedAvg", "FedHEAL")):
            about = {"method": label.lower(), "label": label, "data": {"dataset": stage}}
            folder = tmp_path / f"{label}-{files}"
            paths.append(scores(folder, auc=0.7 + number / 10, dataset="images", **about))
    table = critical_difference.frame(compared(rows(paths, warned=True)))
    assert dict(zip(table["method"], table["rank"])) == {"FedHEAL": 1, "FedAvg": 2}


def test_neither_the_order_of_methods_nor_that_of_datasets_matters():
    scores_by_method = {"a": [3, 2, 2], "b": [2, 3, 3], "c": [1, 1, 1]}
    expected = critical_difference.of_scores("accuracy", scores_by_method, images=100)
    for names in permutations(scores_by_method):
        shuffled = {name: scores_by_method[name][::-1] for name in names}
        assert critical_difference.of_scores("accuracy", shuffled, images=100).equals(expected)


def test_low_scores_are_better_where_they_are():
    table = critical_difference.of_scores("ece", {"a": [1, 1], "b": [0, 0]}, lower=True, images=100)
    assert table["method"].tolist() == ["b", "a"]


def test_the_axis_has_the_best_rank_on_the_right_and_a_line_for_each_method_and_bar():
    table = critical_difference.of_scores("accuracy", BY_HAND, images=100)
    (axes,) = drawing.drawn(critical_difference.draw(table)).axes
    left, right = axes.get_xlim()
    assert left > 4 > 1 > right
    texts = {text.get_text().strip(): text.get_position() for text in axes.texts}
    assert texts["a  1.00"][0] < 1
    assert texts["4.00  d"][0] > 4
    expected = pytest.approx(1 + 1.915 / 2, abs=1e-3)
    assert texts["CD = 1.91"][0] == expected
    wide = [line for line in axes.lines if line.get_linewidth() > 3]
    reach = critical_difference.REACH * 3
    ends = [line.get_xdata() for line in wide]
    first_bar = pytest.approx([1 - reach, 2.5 + reach])
    second_bar = pytest.approx([2.5 - reach, 4 + reach])
    expected = [first_bar, second_bar]
    assert ends == expected
    result = len({line.get_ydata()[0] for line in wide})
    assert result == 2


def systems_of(folder, datasets=("skin", "eyes", "chest")):
    auc = {"FedAvg": [0.8, 0.7, 0.6], "FedHEAL": [0.9, 0.8, 0.65], "MOON": [0.7, 0.6, 0.5]}
    paths = []
    for label, values in auc.items():
        for dataset, value in zip(datasets, values):
            path = folder / f"{label}-{dataset}"
            paths.append(scores(path, auc=value, method=label, label=label, dataset=dataset))
    return rows(paths)


def test_runs_on_several_datasets_have_the_ranks_of_the_report(tmp_path):
    systems = systems_of(tmp_path)
    table = critical_difference.frame(compared(systems))
    _, test = comparison.rank_tests(systems)
    result = dict(zip(table["method"], table["rank"]))
    assert result == test.ranks
    assert table.attrs["critical_difference"] == test.critical_difference
    assert test.said in table.attrs["caption"]


def test_one_dataset_has_no_ranks(tmp_path):
    with pytest.raises(NothingToDraw, match="two datasets or more"):
        critical_difference.frame(compared(systems_of(tmp_path, ("skin",))))
