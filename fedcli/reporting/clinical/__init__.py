"""Operating points and calibration as tables: one of each class, and the topics of the rest by name."""

from .by_class import INTERVALS, MORE, by_class
from .topics import NAMED, elsewhere, headline, missing, read, section, tables

__all__ = ["INTERVALS", "MORE", "NAMED", "by_class", "elsewhere", "headline", "missing", "read", "section", "tables"]
