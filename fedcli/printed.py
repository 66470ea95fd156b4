"""Numbers as they are printed: what rounds to nothing is 0, so that no -0.0 is in a table, and a
difference is that of the numbers beside it.
"""

from collections.abc import Iterable


def fixed(value: float, digits: int, *, sign: str = "") -> str:
    """A number with so many digits behind the point. sign: "+" shows that of a positive one and of
    0, too.
    """
    rounded = round(value, digits) + 0.0
    return f"{rounded:{sign}.{digits}f}"


def percents(share: float, digits: int = 1, *, sign: str = "") -> str:
    """A share from 0 to 1 in percent, without its unit."""
    return fixed(100 * share, digits, sign=sign)


def difference(number: float, value: float, other: float, digits: int) -> float:
    """value - other as a reader finds it, from both as they are printed; the number itself where it
    is another one, such as a mean of differences.
    """
    printed = round(value, digits) - round(other, digits)
    return printed if abs(printed - number) < 1.01 * 10**-digits else number


def gap(number: float, values: Iterable[float | None], digits: int) -> float:
    """The distance of the largest from the smallest value, as difference() has it."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return number
    return difference(number, max(numbers), min(numbers), digits)
