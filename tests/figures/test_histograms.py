import json

import pytest
import torch
from conftest import client_updates, play
from made_plans import planned, train
from run_folders import a_line, a_run
from tables_of_numbers import rows

from fedcli.errors import FedcliError
from fedcli.federation.client import Training
from fedcli.figures import drawing
from fedcli.figures.kinds import histograms
from fedcli.figures.series import read
from fedcli.methods import resolve

COUNTS = [
    [0, 0, 0, 0, 2, 2, 0, 0, 0, 4],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 8],
    [0] * 10,
    [0, 0, 0, 0, 0, 4, 0, 0, 0, 4],
]


def binned(folder, *, rounds=10, label="FedHEAL", **options):
    line = a_line(rounds, histograms={"consistency": COUNTS})
    return read(a_run(folder, [line], label=label, options={"participation": 1.0} | options))


def test_fedheal_counts_each_coordinate_by_the_share_of_rounds_in_its_usual_direction():
    rule = resolve("fedheal").aggregator
    memory = {}
    theta = torch.zeros(3)
    assert rule.histograms(memory) == {}
    moves = rows(
        "1.0 1.0 1.0; 1.0 -1.0 1.0; 1.0 1.0 -1.0; 1.0 -1.0 1.0"
    )  # by round: shares 1, 1/2, 3/4
    for t, move in enumerate(moves, 1):
        updates = client_updates([move], t=t, rows=[1], roster=2)
        rule.aggregate(theta, updates, memory)
    counts = rule.histograms(memory)["consistency"]
    expected = [
        [0] * 10,
        [0, 0, 0, 0, 1, 0, 0, 1, 0, 1],
    ]
    assert counts.tolist() == expected  # (0.4, 0.5], (0.7, 0.8], (0.9, 1]; nobody in row 0
    result = resolve("fedheal", {"parts": "fael"}).aggregator.histograms({"increment": theta})
    assert result == {}


def test_every_coordinate_of_every_client_is_in_some_bin_and_its_state_is_left_alone():
    state = play("moon+fedheal", rounds=3)
    before = state.server["rises"].whole()
    counts = resolve("moon+fedheal").aggregator.histograms(state.server)["consistency"]
    expected = [before.shape[1]] * 4
    assert counts.sum(1).tolist() == expected
    assert torch.equal(state.server["rises"].whole(), before)


def test_rounds_ten_hundred_and_the_last_are_recorded(tmp_path):
    from conftest import make_chain

    training = Training(optimizer="sgd", lr=0.1, batch_size=8)
    plan = planned("fedheal", {}, training, 11)
    out = tmp_path / "run"
    path = train(make_chain(tmp_path), plan, work=tmp_path, out=out)
    lines = [json.loads(line) for line in (path.parent / "rounds.jsonl").read_text().splitlines()]
    result = [line["round"] for line in lines if "histograms" in line]
    assert result == [10, 11]
    result = list(read(path).histograms["consistency"])
    assert result == [10, 11]
    result = sorted(histograms.frame({"run": read(path)})["round"].unique())
    assert result == [10, 11]


def test_a_coins_shares_are_those_of_the_binomial():
    result = histograms.coin(10, 10).round(4).tolist()
    expected = [
        0,
        0,
        0,
        0,
        0.2461,
        0.4102,
        0.2344,
        0.0879,
        0.0195,
        0.002,
    ]
    assert result == expected
    expected = [0, 0, 0, 0, 0, 0, 0.75, 0, 0, 0.25]
    assert histograms.coin(3, 10).tolist() == expected
    result = histograms.coin(100, 10).sum()
    assert result == pytest.approx(1)


def test_bars_are_the_mean_over_clients_that_took_part(tmp_path):
    record = binned(tmp_path / "run")
    figure = drawing.drawn(histograms.draw(histograms.frame({"FedHEAL": record})))
    (axes,) = figure.axes
    heights = [patch.get_height() for patch in axes.patches]
    expected = pytest.approx([100 / 12, 25, 0, 0, 0, 200 / 3])
    assert heights[4:] == expected
    assert axes.get_title(loc="left") == "after 10 rounds"
    assert axes.get_xlim() == (0.4, 1)
    result = [text.get_text() for text in figure.legends[0].get_texts()]
    assert result == [
        "FedHEAL",
        histograms.RANGE,
        histograms.COIN,
    ]


def test_runs_stand_side_by_side_and_chance_only_where_all_took_part_in_all_rounds(tmp_path):
    folder = tmp_path / "b"
    with_half = binned(folder, label="FedProx + FedHEAL", participation=0.5)
    folder = tmp_path / "a"
    figure = drawing.drawn(
        histograms.draw(
            histograms.frame({"FedHEAL": binned(folder), "FedProx + FedHEAL": with_half})
        )
    )
    result = [text.get_text() for text in figure.legends[0].get_texts()]
    assert result == [
        "FedHEAL",
        "FedProx + FedHEAL",
        histograms.RANGE,
    ]
    left_bar, right_bar = (
        bars.patches[9] for bars in figure.axes[0].containers if hasattr(bars, "patches")
    )
    result = left_bar.get_x() + left_bar.get_width()
    expected = pytest.approx(right_bar.get_x())
    assert result == expected


def test_without_a_histogram_it_says_who_has_one(tmp_path):
    folder = tmp_path / "run"
    lines = [a_line(1)]
    path = a_run(folder, lines)
    record = read(path)
    with pytest.raises(FedcliError, match="no run recorded a histogram") as caught:
        histograms.frame({"FedHEAL": record})
    assert "FedHEAL" in caught.value.hint
