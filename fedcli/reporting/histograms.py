"""How the shares in a server rule's state are spread over a model's parameters, after some rounds: FedHEAL's figure 2.

Source: Chen, Huang and Ye, CVPR 2024, arXiv 2405.16585, figure 2: in what share of its rounds a client moved a
parameter in the same direction, after 10 and after 100 rounds. They show one layer of one client; here it is all that
trains, the mean over clients, with whiskers from the lowest to the highest client.
What rises and falls by the toss of a coin has such shares too, so marks say where it would stand. A bin holds several
shares where the rounds are no multiple of the number of bins; the marks follow.
"""

from functools import partial
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FedcliError
from . import drawing, labels
from .curves import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"consistency": "share of rounds in one direction"}
COIN = "expected of coin tosses"
RANGE = "lowest to highest client"
MARK = {"color": "#222222", "marker": "_", "markersize": 14, "linestyle": "", "markeredgewidth": 1.5}
WIDTH = 0.85  # of a bin, for the bars of all runs
WHISKER = {"ecolor": "#222222", "elinewidth": 0.8, "capsize": 2}


def plot(records: list[Record], out: Path) -> None:
    """Draw into a .png or .svg file, a panel per kind and round. Raises FedcliError where no run recorded any."""
    kinds = {(name, t) for record in records for name, rounds in record.histograms.items() for t in rounds}
    if not kinds:
        hint = "runs with FedHEAL's server rule record one, in rounds 10, 100 and the last"
        raise FedcliError("no run recorded a histogram", hint)
    drawing.draw(partial(_figure, labels.labels(records), sorted(kinds)), out)


def coin(rounds: int, bins: int) -> np.ndarray:
    """Expected shares [bins] of what goes up or down by chance in so many rounds, by the larger number of the two."""
    out = np.zeros(bins)
    for rises in range(rounds + 1):
        out[-(-max(rises, rounds - rises) * bins // rounds) - 1] += comb(rounds, rises) / 2**rounds
    return out


def _figure(records: dict[str, Record], kinds: list[tuple[str, int]]) -> "Figure":
    from matplotlib.lines import Line2D

    figure, axes = drawing.panels(len(kinds), "How steadily parameters moved")
    legend: dict[str, Any] = {}
    for panel, (name, t) in zip(axes, kinds, strict=True):
        runs = {label: r.histograms[name][t] for label, r in records.items() if t in r.histograms.get(name, {})}
        for label, counts in runs.items():
            place = list(records).index(label)
            legend[label] = _bars(panel, counts, place, len(records))
        if name == "consistency" and all(records[label].options.get("participation") == 1 for label in runs):
            chance = 100 * coin(t, counts.shape[1])
            legend.setdefault(COIN, panel.plot(_middles(len(chance)), chance, **MARK)[0])
        low = min(np.flatnonzero(counts.sum(0))[0] / counts.shape[1] for counts in runs.values())
        panel.set_xlim(low, 1)
        panel.set_title(f"after {t} rounds", loc="left")
        panel.set_ylabel("parameters (%)")
        panel.grid(False, axis="x")
    for panel in drawing.lowest(axes):
        panel.set_xlabel(TITLES.get(name, name))
    legend[RANGE] = Line2D([], [], color=WHISKER["ecolor"], marker="|", markersize=12, linestyle="")
    drawing.name_all(figure, {label: legend[label] for label in (*records, RANGE, COIN) if label in legend})
    return figure


def _bars(axes: "Axes", counts: np.ndarray, place: int, runs: int) -> Any:
    """One run's bars, beside those of the others; counts [N, bins], a row of zeros of a client that never trained."""
    counts = counts[counts.sum(1) > 0]
    shares = 100 * counts / counts.sum(1, keepdims=True)  # [N, bins]
    mean, bins = shares.mean(0), shares.shape[1]
    width = WIDTH / bins / runs
    at = _middles(bins) + (place - (runs - 1) / 2) * width
    whiskers = np.stack([mean - shares.min(0), shares.max(0) - mean])
    return axes.bar(at, mean, width, color=drawing.look(place)["color"], alpha=0.85, yerr=whiskers, error_kw=WHISKER)


def _middles(bins: int) -> np.ndarray:
    return (np.arange(bins) + 0.5) / bins
