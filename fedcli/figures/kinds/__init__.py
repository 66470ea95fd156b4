"""Every figure, one file each; a further one is a file and a line here.

A package offers figures by an entry point of the group fedcli.figures: a module that registers
them as the files here do.
"""

from importlib import import_module

from ... import extensions
from ...errors import UsageError, nearest
from ...leaves import is_installed
from ..figure import FIGURES, Figure

KINDS = (
    "curves",
    "convergence",
    "weights",
    "sweep",
    "landscape",
    "histograms",
    "samples",
    "counts",
    "quality",
    "corruptions",
    "divergence",
    "features",
    "adapters",
    "answers",
    "confusion",
    "errors",
    "reconstructions",
    "forest",
    "severities",
    "overall_and_worst",
    "critical_difference",
    "flow",
)
for _kind in KINDS:
    if is_installed(f"{__name__}.{_kind}"):
        import_module(f"{__name__}.{_kind}")


def of_packages() -> dict[str, Figure]:
    """Name -> figure of every installed package, without those whose name fedcli has."""
    installed = extensions.installed("figures")
    figures = {name: figure for name, (figure, _) in installed.items()}
    return {name: figure for name, figure in figures.items() if name not in FIGURES}


def find(name: str) -> Figure:
    """The figure of a name, of fedcli or of an installed package.

    Raises UsageError for a name that nobody registered.
    """
    if name in FIGURES:
        return FIGURES[name]
    figures = of_packages()
    if name not in figures:
        all_figures = [*FIGURES, *figures]
        raise UsageError(f"there is no figure {name!r}", nearest(name, all_figures))
    return figures[name]
