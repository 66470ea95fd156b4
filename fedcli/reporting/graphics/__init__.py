"""Figures of runs for a paper: each as files in any of three formats, with captions, and on the page.

Drawn in the colours of Okabe and Ito with a line style for each colour. Equal scores give equal bytes.
"""

from .drawn import FORMATS, of_systems, write
from .graphic import Graphic, Panel

__all__ = ["FORMATS", "Graphic", "Panel", "of_systems", "write"]
