"""Numbers as tables print them."""

import pytest

from fedcli.comparison.verdict import signed
from fedcli.printed import fixed, percents
from fedcli.reporting.table import bounded, number


@pytest.mark.parametrize(
    ("value", "sign", "text"),
    [
        (-0.04, "", "0.0"),
        (-0.0, "", "0.0"),
        (-0.06, "", "-0.1"),
        (-0.04, "+", "+0.0"),
        (2, "+", "+2.0"),
    ],
)
def test_what_rounds_to_nothing_has_no_minus(value, sign, text):
    assert fixed(value, 1, sign=sign) == text
    assert percents(value / 100, sign=sign) == text
    assert number(value, digits=1, sign=sign).text == text


def test_bounds_and_changes_have_none_either():
    assert bounded(-0.0004, -0.0003, 0.0102).text == "0.0 (0.0 to 1.0)"
    result = [signed(share, 1) for share in (-0.0004, 0.0004, -0.01)]
    assert result == ["0.0", "0.0", "-1.0"]
