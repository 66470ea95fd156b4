"""Groups in tables come in the order in which people read them, whatever the order of the file is."""

from dataclasses import replace

from fedcli.scores.scores import _in_reading_order
from fedcli.scores.table import Score, Where, tree

CLEAN = Where("clean", attribute="age", metric="accuracy")


def test_groups_of_a_file_are_read_with_the_numbers_in_them_by_size():
    groups = "10-19", "100+", "20-29", "3-9", "<3"
    lines = {CLEAN._replace(group=group): replace(Score(), values=[0.5]) for group in groups}
    read = [where.group for where in _in_reading_order(lines)]
    assert read == ["<3", "3-9", "10-19", "20-29", "100+"]


def test_all_else_stays_in_the_order_of_the_file():
    lines = {
        CLEAN._replace(group="2", metric=metric, version=version): Score()
        for version in ("clean", "corrupted")
        for metric in ("auc", "accuracy")
    }
    assert list(_in_reading_order(lines)) == list(lines)


def test_lines_become_dicts_by_these_columns_in_the_order_of_the_lines():
    old = Score([0.5], [1])
    young = Score([0.75], [1])
    by_age = Where("clean", attribute="age", metric="accuracy")
    lines = {by_age._replace(group="60+"): old, by_age._replace(group="0-39"): young}
    nested = tree(lines, "version", "group")
    assert nested == {"clean": {"60+": old, "0-39": young}}
    assert list(nested["clean"]) == ["60+", "0-39"]
    result = tree(lines, "group", "attribute", "metric")["0-39"]["age"]["accuracy"]
    assert result is young
    assert tree({}, "version", "metric") == {}
