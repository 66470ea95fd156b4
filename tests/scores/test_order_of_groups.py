"""Groups in tables come in the order in which people read them, whatever the order of the file is."""

from dataclasses import replace

from fedcli.scores.scores import _in_reading_order
from fedcli.scores.table import Score, Where

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
