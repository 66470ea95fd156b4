"""Every figure, one file each; a further one is a file and a line here."""

from . import (  # noqa: F401, I001 - importing registers; the order is that of `fedcli plot`
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
    flow,
)
from ..figure import FIGURES as FIGURES
