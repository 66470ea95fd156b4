"""The spread of the shares in a server rule's state over a model's parameters: FedHEAL's figure 2.

Source: Chen, Huang and Ye, CVPR 2024, arXiv 2405.16585, figure 2: in what share of its rounds a
client moved a parameter in the same direction, after 10 and after 100 rounds. They show one layer
of one client; here it is all that trains, the mean over clients, with whiskers from the lowest to
the highest client.
What rises and falls by the toss of a coin has such shares too, so marks say where it would stand. A
bin holds several shares where the rounds are no multiple of the number of bins; the marks follow.
"""

from collections.abc import Mapping
from functools import partial
from math import comb

import numpy as np
import pandas
from numpy import ndarray
from pandas import DataFrame

from ...errors import FedcliError
from ..drawing import Axes, Look, Looks, Panel, Picture
from ..figure import Figure, register
from ..series import Record
from ..shapes import looks_of

TITLES = {"consistency": "share of rounds in one direction"}
COIN = "expected of coin tosses"
RANGE = "lowest to highest client"
INKED = "#222222"
MARK: Look = {
    "color": INKED,
    "marker": "_",
    "markersize": 14,
    "linestyle": "",
    "markeredgewidth": 1.5,
}
COLUMNS = ["histogram", "round", "run", "bin", "share", "low", "high", "chance"]
WIDTH = 0.85  # of a bin, for the bars of all runs
WHISKER: Look = {"ecolor": INKED, "elinewidth": 0.8, "capsize": 2}


def frame(runs: Mapping[str, Record]) -> DataFrame:
    """histogram, round, run, bin, share, low, high, chance.

    bin: its upper edge. share: percent of the parameters, mean over clients that trained; low and
    high among them. chance: the share expected of coin tosses, NaN where not all clients took part
    in all rounds.
    Raises FedcliError where no run recorded any.
    """
    parts = []
    for run, record in runs.items():
        always = record.options.get("participation") == 1
        for name, rounds in record.histograms.items():
            for t, counts in rounds.items():
                part = _shares(counts)
                part["chance"] = np.nan
                if always and name == "consistency":
                    part["chance"] = 100 * coin(t, len(part))
                labelled = part.assign(histogram=name, round=t, run=run)
                parts.append(labelled[COLUMNS])
    if not parts:
        hint = "runs with FedHEAL's server rule record one, in rounds 10, 100 and the last"
        raise FedcliError("no run recorded a histogram", hint)
    return pandas.concat(parts, ignore_index=True)


def _shares(counts: ndarray) -> DataFrame:
    """bin, share, low, high of counts [N, bins]."""
    trained = counts[counts.sum(1) > 0]  # a row of zeros is of a client that never trained
    totals = trained.sum(1, keepdims=True)
    shares = 100 * trained / totals  # [N, bins]
    bins = shares.shape[1]
    edges = np.arange(1, bins + 1) / bins
    columns = {
        "bin": edges,
        "share": shares.mean(0),
        "low": shares.min(0),
        "high": shares.max(0),
    }
    return DataFrame(columns)


def coin(rounds: int, bins: int) -> ndarray:
    """Expected shares [bins] of what goes up or down by chance in so many rounds.

    The bin is that of the larger number of the two.
    """
    shares = np.zeros(bins)
    for rises in range(rounds + 1):
        larger = max(rises, rounds - rises)
        upper = -(-larger * bins // rounds)
        chance = comb(rounds, rises) / 2**rounds
        shares[upper - 1] += chance
    return shares


def draw(table: DataFrame) -> Picture:
    looks = {}
    for run, look in looks_of(table, "run").items():
        looks[run] = {"color": look["color"], "alpha": 0.85, "linewidth": 8}
    panels = []
    legend = dict(looks)
    legend[RANGE] = {
        "color": INKED,
        "marker": "|",
        "markersize": 12,
        "linestyle": "",
    }
    for (_, t), part in table.groupby(["histogram", "round"]):
        draw_panel = partial(_panel, part, looks)
        panels.append(Panel(f"after {t} rounds", draw_panel))
        if part["chance"].notna().all():
            legend[COIN] = MARK
    name = table["histogram"].iloc[0]
    words = TITLES.get(name, name)
    return Picture("How steadily parameters moved", panels, legend, below=words)


def _panel(part: DataFrame, looks: Looks, axes: Axes) -> None:
    step = 1 / part["bin"].nunique()
    width = WIDTH * step / len(looks)
    for position, (run, look) in enumerate(looks.items()):
        bars = part[part["run"] == run]
        from_middle = position - (len(looks) - 1) / 2
        offset = from_middle * width
        x = bars["bin"] - step / 2 + offset
        share = bars["share"]
        below = share - bars["low"]
        above = bars["high"] - share
        whiskers = np.stack([below, above])
        how = {
            "color": look["color"],
            "alpha": look["alpha"],
            "error_kw": WHISKER,
        }
        axes.bar(x, share, width, yerr=whiskers, **how)
    if part["chance"].notna().all():  # of every run
        chance = part.drop_duplicates("bin")
        centres = chance["bin"] - step / 2
        axes.plot(centres, chance["chance"], **MARK)
    visible = part[part["high"] > 0]
    lowest = visible["bin"].min()
    axes.set(xlim=(lowest - step, 1), ylabel="parameters (%)")
    axes.grid(False, axis="x")


QUESTION = "How steadily did parameters move, as FedHEAL remembers?"
register(Figure("histograms", QUESTION, "runs", frame, draw))
