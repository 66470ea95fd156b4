"""Tables of operating points, calibration and conformal sets, from facts made by hand."""

from types import MappingProxyType, SimpleNamespace

import pytest
from report_tables import texts
from tables_of_numbers import rows

from fedcli.errors import UsageError
from fedcli.reporting import clinical
from fedcli.reporting.table import DAGGER, Column, percent
from fedcli.scores.table import Score


def rate(value, total=10):
    counted = None if value is None else round(value * total)
    return {"value": value, "low": 0.1, "high": 0.9, "counted": counted, "total": total}


def point(sensitivity=0.8, specificity=0.6, threshold=0.25):
    rates = {"sensitivity": rate(sensitivity, 20), "specificity": rate(specificity)}
    others = {"ppv": rate(0.5), "npv": rate(0.75), "selected": rate(0.3, 30)}
    return {"threshold": threshold} | rates | others


def operating(rule="youden", choice="pooled", **changes):
    groups = {"sex": {"f": point(0.9, 0.5), "m": point(0.7, 0.8)}}
    differences = {"sex": {"equalized_odds_difference": 0.3}}
    parts = {"overall": point(), "groups": groups, "clients": {}, "differences": differences}
    return {"rule": rule, "choice": choice} | parts | changes


DESCRIBED = {
    "count": 30,
    "prevalence": 0.4,
    "average_precision": 0.66,
    "calibration_slope": 0.9,
    "net_benefit": rows("0.05 0.12 0.1; 0.1 0.08 0.02"),
}


@pytest.fixture
def described():
    groups = {"sex": {"f": DESCRIBED | {"count": 12}, "m": DESCRIBED | {"count": 18}}}
    points = [operating(), operating(choice="client"), operating("cost=5")]
    parts = {"overall": DESCRIBED, "groups": groups, "clients": {"east": DESCRIBED}}
    return parts | {"operating": points}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("youden", "largest sensitivity + specificity"),
        ("cost=5", "a missed one costs 5 false alarms"),
        ("sensitivity=0.95", "95 % sensitivity"),
        ("specificity=0.9", "90 % specificity"),
    ],
)
def test_a_rule_is_said_in_words(rule, words):
    assert clinical.rule_in_words(rule) == words


def test_a_share_is_shown_with_its_interval_and_none_as_none():
    assert clinical.rate(rate(0.5)).text == "50.0 (10.0 to 90.0)"
    assert clinical.rate(rate(None)) is None
    assert clinical.rate(0.25) == 0.25


def test_every_topic_has_an_option_a_title_and_a_legend():
    options = [topic.option for topic in clinical.EVERY]
    assert options[:3] == ["thresholds", "thresholds", "transfer"]
    for topic in clinical.EVERY:
        assert topic.title
        assert topic.legend.endswith(".")
    assert clinical.MORE.startswith("More: --show thresholds, transfer, calibration, net-benefit,")
    assert [topic.title for topic in clinical.HEADLINE] == [
        "Operating points",
        "Calibration",
        "Net benefit",
    ]


def test_topics_are_read_by_the_words_of_show():
    titles = [topic.title for topic in clinical.read(["gaps, thresholds"])]
    assert titles == [
        "Operating points",
        "Operating points by group",
        "Gaps between groups, last round",
    ]
    with pytest.raises(UsageError, match="--show 'roc' is unknown"):
        clinical.read(["gaps", "roc"])


def test_a_topic_without_lines_has_no_table():
    result = clinical.TOPICS["points"].table("x", iter([]))
    assert result == []


def test_a_doubtful_number_is_explained_below_its_table():
    gaps = clinical.TOPICS["gaps"]
    labels = "sex", "clean", "AUC"
    (table,) = gaps.table("x", [(*labels, {"gap": percent(0.1, doubtful=True), "p": "0.04"})])
    assert table.title == "Gaps between groups, last round: x"
    assert table.rows[0][3].plain == f"10.00{DAGGER}"
    assert table.legend == gaps.legend + clinical.UNSURE
    (table,) = gaps.table("x", [(*labels, {"gap": percent(0.1), "p": "0.04"})])
    assert table.legend == gaps.legend


def table_of(topic, described, small=MappingProxyType({})):
    lines = clinical.CLASS_LINES[topic](described, small)
    (table,) = clinical.TOPICS[topic].table("x", lines)
    return table


def test_operating_points_are_the_pooled_ones(described):
    lines = texts(table_of("points", described))
    assert [line[0] for line in lines] == [
        "largest sensitivity + specificity",
        "a missed one costs 5 false alarms",
    ]
    assert lines[0][1:3] == ["0.2500", "80.0 (10.0 to 90.0)"]
    assert lines[0][-1] == "40.00"


def test_operating_points_of_groups_count_their_images(described):
    lines = texts(table_of("points by group", described))
    result = [line[1:4] for line in lines[:2]]
    assert result == [["sex", "f", "30"], ["sex", "m", "30"]]
    assert len(lines) == 4


def test_transfer_has_the_gaps_of_both_rates(described):
    table = table_of("transfer", described)
    assert len(table.rows) == 3
    line = texts(table)[1]
    assert line[1:3] == ["client", "sex"]
    assert line[3:5] == ["20.00", "30.00"]
    assert table.rows[1][6].number == pytest.approx(30.0)


def test_small_groups_and_what_depends_on_them_are_marked(described):
    small = {"sex": {"f"}, "client": {"east"}}
    names = [line[2] for line in texts(table_of("points by group", described, small))]
    assert names == [f"f{DAGGER}", "m"] * 2
    names = [line[1] for line in texts(table_of("calibration", described, small))]
    assert names == ["-", f"f{DAGGER}", "m", f"east{DAGGER}"]
    table = table_of("transfer", described, small)
    result = [cell.plain for cell in table.rows[0][3:]]
    assert result == [f"20.00{DAGGER}", f"30.00{DAGGER}", "-", f"30.0{DAGGER}", "-"]
    assert table.legend.endswith(clinical.UNSURE)
    assert not table_of("transfer", described, {"age": {"0-39"}}).legend.endswith(clinical.UNSURE)


def test_a_rate_of_one_group_alone_has_no_gap():
    groups = {"f": point(0.9, None), "m": point(0.5, 0.8)}
    assert clinical._rate_gaps(groups) == pytest.approx({"tpr": 0.4})


def test_calibration_has_all_images_groups_and_clients(described):
    lines = texts(table_of("calibration", described))
    labels = [line[:3] for line in lines]
    expected = [
        ["all", "-", "30"],
        ["sex", "f", "12"],
        ["sex", "m", "18"],
        ["client", "east", "30"],
    ]
    assert labels == expected


def test_net_benefit_is_per_hundred_images_and_without_clients(described):
    lines = texts(table_of("net benefit", described))
    result = [line[:3] for line in lines[:2]]
    assert result == [["all", "", "model"], ["all", "", "treat all"]]
    assert lines[0][3:5] == ["12.00", "8.00"]
    assert lines[1][3:5] == ["10.00", "2.00"]
    assert len(lines) == 6


def test_agreement_has_the_scores_before_and_after_the_temperature():
    agreement = {"matthews_correlation": 0.5, "quadratic_kappa": 0.6}
    temperature = {"temperature": 1.5, "brier": [0.2, 0.1]}
    facts = {"agreement": {"clean": agreement}, "temperature": {"clean": temperature}}
    lines = list(clinical._agreement(facts, {}))
    (table,) = clinical.TOPICS["agreement"].table("x", lines)
    result = texts(table)[0][:4]
    assert result == ["clean", "0.5000", "0.6000", "1.50"]
    result = texts(table)[0][-2:]
    assert result == ["0.2000", "0.1000"]


def test_classes_without_an_order_have_no_kappa():
    ordered = clinical.TOPICS["agreement"]
    topic = clinical.TOPICS["unordered"]
    assert topic.title == ordered.title
    without = [name for name in ordered.numbers if name != "quadratic_kappa"]
    assert list(topic.numbers) == without
    assert ordered.legend == f"{topic.legend} Quadratic kappa is for classes in an order."


def test_sets_have_a_line_of_all_images_and_of_each_group():
    covered = {
        "level": 0.9,
        "choice": "sex",
        "coverage": rate(0.9),
        "set_size": 1.4,
        "set_sizes": {"sex": {"f": 1.2}},
        "groups": {"sex": {"f": rate(0.8), "m": rate(None)}},
    }
    lines = clinical._conformal([(("clean",), covered)], {"clean": "as they are"}, {"sex": {"f"}})
    (table,) = clinical.TOPICS["sets"].table("x", lines)
    expected = [
        ["as they are", "sex", "all", "", "90.0 (10.0 to 90.0)", "1.40"],
        ["as they are", "sex", "sex", f"f{DAGGER}", "80.0 (10.0 to 90.0)", "1.20"],
        ["as they are", "sex", "sex", "m", "-", "-"],
    ]
    assert texts(table) == expected


def test_gaps_name_the_test_images_as_other_tables_do():
    test = {"gap": 0.1, "p": 0.04}
    gaps = {"gaps": {"sex": {"corrupted": {"accuracy": test}}}}
    part = SimpleNamespace(edges=lambda *_: None)
    scores = SimpleNamespace(members=lambda _: {}, part=lambda: part)
    (line,) = clinical._gaps(scores, gaps, {"corrupted": "noisy"})
    assert line[:2] == ("sex", "noisy")


def test_the_legend_of_subgroups_says_over_which_of_them_p_is_adjusted():
    legend = clinical.TOPICS["subgroups"].legend
    assert legend.endswith("for all subgroups that were tested on the same version.")


def test_the_ten_subgroups_of_lowest_accuracy_are_shown():
    subgroup = {"attribute": "sex", "images": 40, "accuracy": 0.5, "difference": -0.2}
    subgroups = [subgroup | {"group": f"g{k}", "p": 0.01, "p_holm": 0.2} for k in range(12)]
    words = {"clean": "clean", "corrupted": "noisy"}
    lines = list(clinical._lowest({"subgroups": {"corrupted": subgroups}}, words))
    assert {line[0] for line in lines} == {"noisy"}
    expected = [f"g{k}" for k in range(10)]
    assert [line[2] for line in lines] == expected
    assert lines[0][3]["p"] == clinical.p_text(0.01)


def scores(described, versions=("clean",), classes=("well", "ill"), validation=8):
    by_version = dict.fromkeys(versions, described)
    facts = {"classes": {"ill": by_version}, "validation": validation}
    return SimpleNamespace(
        clinical=facts,
        classes=list(classes),
        versions=versions,
        several_labels=False,
        groups={},
        clients={},
        usual=("accuracy", "auc"),
    )


@pytest.fixture(autouse=True)
def plain_words(monkeypatch):
    monkeypatch.setattr(clinical.numbers, "versions", lambda scores: {"corrupted": "noisy"})


def test_a_class_has_its_threshold_errors_and_other_thresholds(described):
    (table,) = clinical.by_class(scores(described))
    assert table.title == (
        "ill, threshold 0.25: largest sensitivity + specificity on 8 validation images"
    )
    assert table.legend == (
        "4 of 20 ill missed, 4 of 10 well are false alarms. Other thresholds (1): --show thresholds."
    )
    expected = [
        ["all", "30", "80.0 (10.0 to 90.0)"],
        ["f", "12", "90.0 (10.0 to 90.0)"],
        ["m", "18", "70.0 (10.0 to 90.0)"],
    ]
    result = [line[:3] for line in texts(table)]
    assert result == expected


def test_a_small_group_is_marked_in_the_table_of_a_class(described, monkeypatch):
    monkeypatch.setattr(clinical, "small_groups", lambda scores, attribute: {"f": "12 patients"})
    of_class = scores(described)
    of_class.groups = {"sex": {}}
    (table,) = clinical.by_class(of_class)
    assert [line[0] for line in texts(table)] == ["all", f"f{DAGGER}", "m"]


@pytest.mark.parametrize(
    ("patients", "words"),
    [
        (20, " intervals (too narrow, since they take a lesion's images as independent), of"),
        (30, " intervals, of"),
        (0, " intervals, of"),
    ],
)
def test_intervals_are_too_narrow_where_patients_have_several_images(patients, words):
    score = Score([0.5], [1], count=30, units=patients)
    of_run = SimpleNamespace(
        versions={"clean": {"accuracy": score}}, usual=("accuracy", "auc"), noun="lesion"
    )
    assert f"95 % Wilson{words}" in clinical.intervals(of_run)


def test_the_usual_rule_is_shown_before_others(described):
    described["operating"].append(operating(clinical.USUAL))
    (table,) = clinical.by_class(scores(described, classes=("a", "b", "ill")))
    assert ": 95 % sensitivity on 8 validation images" in table.title
    assert "4 of 10 others are false alarms" in table.legend


def test_without_a_threshold_the_columns_of_decisions_are_left_out(described):
    described["operating"] = [operating(overall=point(threshold=None))]
    (table,) = clinical.by_class(scores(described, validation=1))
    assert table.title == (
        "ill: no threshold from 1 validation image; fedcli partition --val 0.2 keeps some"
    )
    assert [column.name for column in table.columns] == ["", "images", "AP", "calibration slope"]
    assert table.legend == ""


def test_one_class_has_a_table_of_each_version_and_several_of_clean_images(described):
    of_one = scores(described, versions=("clean", "corrupted"))
    titles = [table.title.partition(", threshold")[0] for table in clinical.by_class(of_one)]
    assert titles == ["ill, clean images", "ill, noisy images"]
    of_one.clinical["classes"]["well"] = of_one.clinical["classes"]["ill"]
    assert len(list(clinical.by_class(of_one))) == 2
    assert not list(clinical.by_class(SimpleNamespace(clinical=None)))


def test_a_line_says_where_operating_points_are():
    with_points = SimpleNamespace(each=[SimpleNamespace(clinical={"classes": {}})])
    without = SimpleNamespace(each=[SimpleNamespace(clinical=None)])
    assert clinical.elsewhere([without]) == ""
    assert "`fedcli evaluate RUN --clinical`" in clinical.elsewhere([without, with_points])


def test_predictive_values_have_no_interval_in_the_table_of_a_class():
    columns = clinical.BY_CLASS.numbers
    assert columns["ppv"] == Column("PPV", "%")
    line = clinical._class_line("all", DESCRIBED, point())
    assert line[4:6] == [0.5, 0.75]
