"""Nouns for what the ids of a dataset stand for: patients, lesions, eyes or studies.

A dataset's manifest names the column of its ids, such as lesion_id. Texts are written of patients,
and worded() puts the other noun in.
"""

import re

PATIENT = "patient"
IMAGE = "image"
PLURALS = {"study": "studies"}
NOUNS = {  # in the name of a column -> the noun
    "patient": PATIENT,
    "subject": PATIENT,
    "lesion": "lesion",
    "eye": "eye",
    "study": "study",
    "exam": "study",
    "examination": "study",
}
SEVERAL = tuple(PLURALS.get(name, f"{name}s") for name in dict.fromkeys(NOUNS.values()))
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
PATIENTS = re.compile(r"\b(patients?)(?: or lesions?)?\b")


def noun(column: str | None) -> str:
    """The noun of the ids in a column, which are patients' unless its name says otherwise."""
    words = {word.lower().removesuffix("id") for word in WORDS.findall(column or "")}
    words |= {word.removesuffix("s") for word in words}
    for word, name in NOUNS.items():
        if word in words:
            return name
    return PATIENT


def plural(name: str) -> str:
    """Several of a noun, such as "studies"."""
    return PLURALS.get(name, f"{name}s")


def worded(text: str, name: str) -> str:
    """A text on patients as one on what the ids of a dataset stand for."""
    nouns = {PATIENT: name, plural(PATIENT): plural(name)}
    return PATIENTS.sub(lambda match: nouns[match[1]], text)
