"""Every figure, one file each; a further one is a file and a line here."""

from . import (
    curves,
    convergence,
    weights,
    sweep,
    landscape,
    histograms,
    counts,
    quality,
    divergence,
    features,
    adapters,
    answers,
    confusion,
    errors,
    reconstructions,
    forest,
    severities,
    overall_and_worst,
    critical_difference,
    flow,
)
from ..figure import FIGURES as FIGURES
