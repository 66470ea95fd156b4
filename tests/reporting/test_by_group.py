"""The table of each group on a terminal: how many, how good with what interval, what noise costs, and the gap."""

from dataclasses import replace

import numpy as np
import pytest
from report_tables import texts
from scored_runs import model, scored

from fedcli import printed
from fedcli.comparison.resampling import Resamples
from fedcli.comparison.systems import read
from fedcli.reporting.rows import rows
from fedcli.reporting.single_runs import by_group, legend, worst_groups
from fedcli.reporting.tables import report
from fedcli.scores.table import Where

AUC = "auc_ovo_macro"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    path = scored(
        folder / "a",
        model(2, 0),
        corrupted=model(1, 7),
        corruption={"kind": "gaussian-noise"},
        kept_rounds=[5, 6],
    )
    return read([path])[0]


def cells(run, metric=""):
    (table,) = by_group(run, metric)
    return table.title, [column.name for column in table.columns], texts(table)


def test_each_group_has_its_images_and_means_over_the_rounds_with_intervals_of_these_means(run):
    title, heads, lines = cells(run)
    assert (
        title
        == "FedAvg, seed 0, mean of rounds 5 and 6: AUC, one-vs-one in %, 95 % interval, by sex"
    )
    assert heads == ["sex", "images", "clean", "noisy", "lost to noise"]
    for line, group in zip(lines, "fm", strict=False):
        both = [run.scores.groups["sex"][version][AUC][group] for version in ("clean", "corrupted")]
        for cell, version, score in zip(line[2:], ("clean", "corrupted"), both, strict=False):
            where = Where(version, attribute="sex", group=group, metric=AUC)
            resampled = Resamples(1000).drawn(run, where)
            low, high = np.quantile(resampled, (0.025, 0.975))
            expected = f"{100 * score.mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"
            assert cell == expected
        assert line[:2] == [group, "30"]
        assert line[4] == apart(line[2], line[3])


def apart(*cells):
    """The difference of the first two numbers of cells, as a reader finds it."""
    first, second = (float(cell.split()[0]) for cell in cells)
    return f"{round(first - second, 1) + 0.0:.1f}"


def with_means(run, *means):
    """The run whose groups have these AUC on clean images."""
    table = dict(run.scores.table)
    for group, mean in zip("fm", means, strict=True):
        where = Where("clean", attribute="sex", group=group, metric=AUC)
        table[where] = replace(table[where], values=[mean, mean])
    return replace(run, scores=replace(run.scores, table=table))


@pytest.mark.parametrize(
    ("means", "gap"),
    [((0.58149, 0.59751), "1.7"), ((0.58051, 0.59849), "1.7"), ((0.5004, 0.5006), "0.1")],
)
def test_a_gap_is_the_difference_of_the_scores_as_they_are_printed(run, means, gap, tmp_path):
    changed = replace(with_means(run, *means), path=tmp_path / "scores.json")
    _, _, lines = cells(changed)
    assert lines[-1][2] == gap == apart(lines[1][2], lines[0][2])
    assert f"gap {gap} points" in " ".join(worst_groups(changed))


@pytest.mark.parametrize("seed", range(4))
def test_a_report_and_the_table_of_groups_have_one_gap(tmp_path, seed):
    path = scored(tmp_path / "a", model(2, seed), kept_rounds=[5, 6])
    _, _, lines = cells(read([path])[0])
    between = report(rows([path])).tables[1]
    gap = [column.name.startswith("gap") for column in between.columns].index(True)
    assert between.rows[0][gap].text == lines[-1][2]


def test_a_gap_that_is_no_difference_of_these_scores_stays():
    assert printed.gap(3.2, [50.0, 51.0], 1) == 3.2
    assert printed.gap(3.2, [], 1) == 3.2
    assert printed.gap(1.0, [50.0, None, 51.0], 1) == 1.0


def test_the_last_line_is_the_gap_as_a_report_has_it(run):
    _, _, lines = cells(run)
    gaps = []
    for version in ("clean", "corrupted"):
        gaps.append(100 * run.scores.part().lies("sex", version, AUC, "gap").mean)
        assert abs(gaps[-1] - float(lines[-1][1 + len(gaps)])) < 0.1  # of printed scores
    gaps = [float(cell) for cell in lines[-1][2:4]]
    expected = ["gap", "", *(f"{gap:.1f}" for gap in gaps), ""]
    assert lines[-1] == expected


def test_without_predictions_numbers_are_the_last_rounds_and_the_title_says_so(run, tmp_path):
    title, _, lines = cells(replace(run, path=tmp_path / "scores.json"))
    score = run.scores.groups["sex"]["clean"][AUC]["f"]
    assert "last round" in title
    assert lines[0][2].startswith(f"{100 * score.last:.1f}")


def test_legends_are_a_line_each(run):
    small = {}
    for where, score in run.scores.table.items():
        small[where] = replace(score, small="few") if where.group else score
    marked = replace(run, scores=replace(run.scores, table=small))
    assert cells(marked)[2][0][0] == "f†"
    assert legend(marked.scores)[-1] == "† not reliable: sex f (few), sex m (few)."
    for line in legend(run.scores):
        assert "†" not in line


def test_the_legend_says_that_all_test_patients_are_drawn(run):
    drawn = {}
    for where, score in run.scores.table.items():
        interval = "percentile by patient or lesion" if where.group else ""
        drawn[where] = replace(score, interval=interval, units=20)
    scores = replace(run.scores, table=drawn)
    words = "1,000 bootstrap resamples of all test patients, in which groups vary in size."
    assert legend(scores)[0] == f"Intervals: {words}"


def test_the_gap_is_that_of_the_means_in_its_column(run):
    means = [score.mean for score in run.scores.groups["sex"]["clean"][AUC].values()]
    expected = round(100 * max(means), 1) - round(100 * min(means), 1)
    assert cells(run)[2][-1][2] == f"{expected:.1f}"


def test_beside_the_last_rounds_gap_is_that_of_the_means_which_a_limit_is_about(run, tmp_path):
    _, _, lines = cells(replace(run, path=tmp_path / "scores.json"))
    gap = run.scores.part().lies("sex", "clean", AUC, "gap")
    expected = ["gap", "", f"{100 * gap.last:.1f}"]
    assert lines[-2][:3] == expected
    expected = ["gap, mean of rounds 5 and 6", "", f"{100 * gap.mean:.1f}"]
    assert lines[-1][:3] == expected


def test_what_noise_costs_has_no_sign_where_it_rounds_to_nothing(run):
    table = dict(with_means(run, 0.5201, 0.6101).scores.table)
    for group in "fm":
        clean = Where("clean", attribute="sex", group=group, metric=AUC)
        values = [value + 1e-4 for value in table[clean].values]
        table[clean._replace(version="corrupted")] = replace(table[clean], values=values)
    equal = replace(run, scores=replace(run.scores, table=table))
    result = [line[-1] for line in cells(equal)[2]]
    assert result == ["0.0", "0.0", ""]
