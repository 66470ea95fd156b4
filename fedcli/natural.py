"""Words in the order in which people read them: the numbers in them by size, so that 3-9 comes
before 10-19; and names as people spell them.
"""

import re
from functools import cache

SIGNS = "<>≤≥= "  # before the number of an open band, such as <5
DIGITS = re.compile(r"([0-9]+)")
Key = tuple[tuple[str | int, ...], str]


@cache
def by_size(word: str) -> Key:
    """A key that sorts words: their texts and whole numbers by turns, then the word itself, as in
    07 and 7.
    """
    pieces: list[str | int] = []
    for piece in DIGITS.split(word.lstrip(SIGNS)):
        pieces.append(int(piece) if DIGITS.fullmatch(piece) else piece)
    return tuple(pieces), word


@cache
def folded(name: str) -> str:
    """A name as it is compared: small letters, digits and plus signs."""
    return "".join(sign for sign in name.lower() if sign.isalnum() or sign == "+")
