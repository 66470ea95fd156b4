"""The spread of the shares in a server rule's state over a model's parameters, after some rounds: FedHEAL's figure 2.

Source: Chen, Huang and Ye, CVPR 2024, arXiv 2405.16585, figure 2: in what share of its rounds a client moved a
parameter in the same direction, after 10 and after 100 rounds. They show one layer of one client; here it is all that
trains, the mean over clients, with whiskers from the lowest to the highest client.
What rises and falls by the toss of a coin has such shares too, so marks say where it would stand. A bin holds several
shares where the rounds are no multiple of the number of bins; the marks follow.
"""

from collections.abc import Mapping
from functools import partial
from math import comb

import numpy as np
from pandas import DataFrame

from ...errors import FedcliError
from ..drawing import Axes, Look, Panel, Picture
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
WIDTH = 0.85  # of a bin, for the bars of all runs
WHISKER: Look = {"ecolor": INKED, "elinewidth": 0.8, "capsize": 2}


def frame(runs: Mapping[str, Record]) -> DataFrame:
    """histogram, round, run, bin (its upper edge), share (percent of the parameters, mean over clients that trained),
    low and high among them, and the share expected of coin tosses, NaN where not all clients took part in all rounds.

    Raises FedcliError where no run recorded any.
    """
    lines = []
    for run, record in runs.items():
        always = record.options.get("participation") == 1
        for name, rounds in record.histograms.items():
            for t, counts in rounds.items():
                trained = counts[
                    counts.sum(1) > 0
                ]  # a row of zeros is of a client that never trained
                shares = 100 * trained / trained.sum(1, keepdims=True)  # [N, bins]
                bins = shares.shape[1]
                chance = (
                    100 * coin(t, bins)
                    if name == "consistency" and always
                    else np.full(bins, np.nan)
                )
                columns = (
                    np.arange(1, bins + 1) / bins,
                    shares.mean(0),
                    shares.min(0),
                    shares.max(0),
                    chance,
                )
                lines += [(name, t, run, *values) for values in zip(*columns, strict=True)]
    if not lines:
        hint = "runs with FedHEAL's server rule record one, in rounds 10, 100 and the last"
        raise FedcliError("no run recorded a histogram", hint)
    return DataFrame(
        lines, columns=["histogram", "round", "run", "bin", "share", "low", "high", "chance"]
    )


def coin(rounds: int, bins: int) -> np.ndarray:
    """Expected shares [bins] of what goes up or down by chance in so many rounds, by the larger number of the two."""
    out = np.zeros(bins)
    for rises in range(rounds + 1):
        out[-(-max(rises, rounds - rises) * bins // rounds) - 1] += comb(rounds, rises) / 2**rounds
    return out


def draw(table: DataFrame) -> Picture:
    solid: Look = {"alpha": 0.85, "linewidth": 8}
    looks = {run: {"color": look["color"]} | solid for run, look in looks_of(table, "run").items()}
    parts = table.groupby(["histogram", "round"])
    panels = [Panel(f"after {t} rounds", partial(_panel, part, looks)) for (_, t), part in parts]
    legend = looks | {RANGE: {"color": INKED, "marker": "|", "markersize": 12, "linestyle": ""}}
    legend |= {COIN: MARK} if any(part["chance"].notna().all() for _, part in parts) else {}
    name = table["histogram"].iloc[0]
    return Picture("How steadily parameters moved", panels, legend, below=TITLES.get(name, name))


def _panel(part: DataFrame, looks: dict[str, Look], axes: Axes) -> None:
    step = 1 / part["bin"].nunique()
    width = WIDTH * step / len(looks)
    for place, (run, look) in enumerate(looks.items()):
        bars = part[part["run"] == run]
        x = bars["bin"] - step / 2 + (place - (len(looks) - 1) / 2) * width
        whiskers = np.stack([bars["share"] - bars["low"], bars["high"] - bars["share"]])
        axes.bar(
            x,
            bars["share"],
            width,
            color=look["color"],
            alpha=look["alpha"],
            yerr=whiskers,
            error_kw=WHISKER,
        )
    if part["chance"].notna().all():  # of every run
        chance = part.drop_duplicates("bin")
        axes.plot(chance["bin"] - step / 2, chance["chance"], **MARK)
    axes.set(xlim=(part[part["high"] > 0]["bin"].min() - step, 1), ylabel="parameters (%)")
    axes.grid(False, axis="x")


register(
    Figure(
        "histograms", "How steadily did parameters move, as FedHEAL remembers?", "runs", frame, draw
    )
)
