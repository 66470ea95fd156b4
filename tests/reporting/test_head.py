"""Sentences above the tables of a report, each printed once, and the heads of the tables."""

from dataclasses import replace

from made_scores import scores
from scored_runs import fold_of, heal, model, scored

from fedcli.reporting.rows import rows
from fedcli.reporting.tables import report
from fedcli.scores.table import Score, Where


def test_what_all_rows_share_and_what_columns_mean_is_said_above_and_methods_below(tmp_path):
    noise = {"kind": "gaussian-noise", "severity": 1, "clients": ["west"]}
    shared = {
        "corrupted": 0.8,
        "corruption": noise,
        "among": 0.1,
        "kept_rounds": [6, 7, 8, 9, 10],
        "classes": ["a", "b"],
    }
    average = scores(tmp_path / "a", **shared)
    heal_names = {"label": "FedHEAL", "method": "fedheal", "rule": "released"}
    healed = scores(tmp_path / "b", **heal_names, **shared)
    proximal = scores(tmp_path / "c", label="FedProx", method="fedprox", **shared)
    head = report(rows([average, healed, proximal]))
    assert head.about == [
        "skin, 4 clients, 6 rounds, gaussian noise of severity 1 on west. Chance with 2 classes: 50.0 % balanced "
        "accuracy, 50 % AUC."
    ]
    assert head.measured == [
        "Scores in %: mean of rounds 6 to 10 ± standard deviation over these rounds. noisy: the same test images with "
        "gaussian noise of severity 1; both: the mean of clean and noisy; std of clients: standard deviation of AUC "
        "over clients."
    ]
    assert (
        head.legends[-1]
        == "Methods: FedHEAL as its authors' code computes it; the others as in their papers."
    )
    assert "↓ lower is better." in head.legends
    assert head.tables[0].columns[-1].name == "std of clients ↓"


def test_the_number_of_test_images_is_left_out_where_folds_differ(tmp_path):
    def about(*images):
        folds = []
        for k, count in enumerate(images):
            path = fold_of(tmp_path / f"{count} {k}", k, count)
            folds.append(path)
        return report(rows(folds, spread="pooled")).about[0]

    assert "60 test images" in about(60, 60)
    assert "test images" not in about(60, 54)


def with_means(row, **means):
    """The row with these means of its groups by sex."""
    where = Where("clean", attribute="sex", metric="auc_ovo_macro")
    lines = dict(row.known[0])
    for group, mean in means.items():
        lines[where._replace(group=group)] = Score([mean], [6])
    return replace(row, known=[lines])


def test_the_worst_group_is_named_in_the_head_or_beside_the_number(tmp_path):
    average = scored(tmp_path / "a", model(1, 0))
    healed = heal(tmp_path / "b", model(2, 0))
    left_row, right_row = rows([average, healed])
    low = {"f": 0.6, "m": 0.7}
    high = {"f": 0.7, "m": 0.6}
    alike = report([with_means(left_row, **low), with_means(right_row, **low)]).tables[1]
    unlike = report([with_means(left_row, **low), with_means(right_row, **high)]).tables[1]
    assert "worst: f" in [column.name for column in alike.columns]
    number = [column.name for column in unlike.columns].index("worst")
    result = [row[number].whose for row in unlike.rows]
    assert result == ["f", "m"]
    assert unlike.rows[0][number].plain.endswith(" f")
