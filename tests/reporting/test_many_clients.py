"""The page of a federation of many clients stays short: what grows with them is folded, or drawn as its spread."""

from dataclasses import replace

import numpy as np
from pandas import DataFrame

from fedcli.figures import inline
from fedcli.figures.kinds import weights
from fedcli.reporting.page import subgroups
from fedcli.reporting.table import ReportTable


def test_of_many_clients_those_that_fare_worst_are_open_and_all_are_folded():
    lines = [[f"c{k}", str(k)] for k in range(subgroups.LONG + 1)]
    whole = ReportTable.of("score of each client", ["client", "method"], lines)
    (worst,), (every,) = subgroups._folded(
        whole, [-k for k in range(len(lines))], "with the lowest score"
    )
    assert worst.title == "score of each client: the 10 of 21 clients with the lowest score"
    expected = [f"c{k}" for k in range(20, 10, -1)]
    result = [row[0].text for row in worst.rows]
    assert result == expected
    assert every.rows == whole.rows
    assert every.title == "score of each client: all 21 clients"
    few = replace(whole, rows=whole.rows[1:])
    assert subgroups._folded(few, range(20), "") == ([few], [])


def test_the_weights_of_many_clients_are_drawn_as_their_spread_which_does_not_grow_with_them():
    draw = np.random.default_rng(0)

    def drawn(count):
        table = DataFrame(
            {
                "client": np.repeat([f"c{k}" for k in range(count)], 5),
                "round": np.tile(range(1, 6), count),
            }
        )
        table = table.assign(
            system="x", weight=draw.random(5 * count), corrupted=table["client"].isin(["c3", "c4"])
        )
        table.loc[(table["round"] == 3) | (table["client"] == "c1"), "weight"] = (
            np.nan
        )  # nobody; never took part
        return inline.of_picture(weights.draw(table)).figures[0].svg

    few = drawn(60)
    many = drawn(61)
    most_clients = drawn(400)
    assert len(many) < len(few)
    assert len(most_clients) < 1.1 * len(many)


def test_clients_are_told_apart_and_corrupted_ones_dashed_as_long_as_colours_last():
    def keys(count, *corrupted):
        clients = [f"c{k}" for k in range(count)]
        table = DataFrame({"system": "x", "client": clients, "round": 1, "weight": 0.1})
        return inline.of_picture(
            weights.draw(table.assign(corrupted=table["client"].isin(corrupted)))
        ).keys

    result = len({(key.colour, key.pattern) for key in keys(10, "c3")})
    assert result == 10
    assert keys(10, "c3")[3] == inline.Key("c3 (corrupted)", "var(--c3)", "6 3")
    assert keys(10)[9].colour == "var(--c9)"
    outcome = [key.name for key in keys(11, "c3")]
    assert outcome == ["clean client", "corrupted client"]
    assert not keys(11)
