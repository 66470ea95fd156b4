"""The interval of a share of images.

Source: Wilson, JASA 22, 1927.
"""

Z = 1.959963984540054  # of a 95 % interval


def wilson(count: int, total: int) -> tuple[float | None, float | None]:
    """95 % interval of the share count / total; (None, None) where the total is 0."""
    if not total:
        return None, None
    p = count / total
    z = Z * Z / total
    centre = (p + z / 2) / (1 + z)
    variance = p * (1 - p) / total + z / (4 * total)
    half = Z / (1 + z) * variance**0.5
    low = centre - half
    high = centre + half
    return max(0.0, low), min(1.0, high)
