"""The page of a federation of many clients stays short: what grows with them is folded, or drawn as its spread."""

from dataclasses import replace
from functools import partial

import numpy as np

from fedcli.reporting.page import clients, convergence, figures
from fedcli.reporting.table import of_text


def test_of_many_clients_those_that_fare_worst_are_open_and_all_are_folded():
    lines = [[f"c{k}", str(k)] for k in range(clients.LONG + 1)]
    whole = of_text("score of each client", ["client", "method"], lines)
    (shown,), (every,) = clients._folded(whole, [-k for k in range(len(lines))], "with the lowest score")
    assert shown.title == "score of each client: the 10 of 21 clients with the lowest score"
    assert [row[0].text for row in shown.rows] == [f"c{k}" for k in range(20, 10, -1)]
    assert every.rows == whole.rows and every.title == "score of each client: all 21 clients"
    few = replace(whole, rows=whole.rows[1:])
    assert clients._folded(few, range(20), "") == ([few], [])


def test_the_weights_of_many_clients_are_drawn_as_their_spread_which_does_not_grow_with_them():
    draw = np.random.default_rng(0)

    def drawn(count):
        weights = {f"c{k}": np.stack([np.arange(1.0, 6), draw.random(5)], 1) for k in range(count)}
        weights["c1"][:, 1] = np.nan  # never took part
        for curve in weights.values():
            curve[2, 1] = np.nan  # nobody did
        lines = convergence._lines(list(weights), {"c3", "c4"})
        return figures.figure(partial(convergence._draw_weights, weights, lines, 1.0), "weights").svg

    few, many, more = drawn(60), drawn(61), drawn(400)
    assert len(many) < len(few) and len(more) < 1.1 * len(many)
