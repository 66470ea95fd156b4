"""Numbers as they are printed: what rounds to nothing is 0, so that no -0.0 is in a table."""


def fixed(value: float, digits: int, *, sign: str = "") -> str:
    """A number with so many digits behind the point. sign: "+" shows that of a positive one and of
    0, too.
    """
    rounded = round(value, digits) + 0.0
    return f"{rounded:{sign}.{digits}f}"


def percents(share: float, digits: int = 1, *, sign: str = "") -> str:
    """A share from 0 to 1 in percent, without its unit."""
    return fixed(100 * share, digits, sign=sign)
