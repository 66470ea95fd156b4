"""Bytes that travel in a round, measured at the tensors."""

import csv
import io
import json
import shutil
from dataclasses import replace

import pytest
import torch
from conftest import ROSTER, make_chain, play
from made_plans import TRAINING, planned, train
from report_tables import table_cells

from fedcli.data import manifest
from fedcli.federation.client_state import size
from fedcli.reporting.rows import rows
from fedcli.reporting.tables import BYTES, DOWN, UP, megabytes, render
from fedcli.scores.evaluate import evaluate

NUMBERS = (
    1 * 4 * 9 + 4 * 2 + 4 * 2 + 16 * 3 + 3
)  # of the toy network: convolution, batch norm, its buffers, head


def traffic(spec, **rest):
    """(down, up) of every round."""
    bytes_by_round = []
    play(
        spec,
        each=lambda played: bytes_by_round.append((played.bytes_down, played.bytes_up)),
        **rest,
    )
    return bytes_by_round


def test_of_fedavg_it_is_the_model_down_and_up_with_its_buffers():
    expected = [(4 * NUMBERS, 4 * NUMBERS)] * 3
    assert traffic("fedavg") == expected


def test_what_a_client_keeps_does_not_travel():
    expected = [(4 * (NUMBERS - 16), 4 * (NUMBERS - 16))] * 3
    assert traffic("fedbn") == expected


def test_what_the_server_tells_and_clients_report_travels_too():
    trainable = NUMBERS - 8
    first_round, *later_rounds = traffic("scaffold")
    assert first_round[0] == 4 * NUMBERS
    expected = {4 * (NUMBERS + trainable)}
    assert {down for down, _ in later_rounds} == expected
    result = {up for _, up in (first_round, *later_rounds)}
    expected = {4 * (NUMBERS + trainable)}
    assert result == expected  # beside the model how far c_i moved


def test_it_is_of_one_client_however_many_take_part():
    assert (
        traffic("scaffold")
        == traffic("scaffold", participation=0.5)
        == traffic("scaffold", roster=ROSTER[:1])
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    work = tmp_path_factory.mktemp("traffic")
    data = make_chain(work)
    plans = {
        "whole": planned("scaffold", {}, TRAINING, 3),
        "head": planned("fedavg", {}, TRAINING, 3, freeze_backbone=True),
        "alone": planned("fedavg", {}, TRAINING, 3, single_site=True),
    }
    return {name: train(data, plan, work=work, out=None) for name, plan in plans.items()}


def body(path):
    return manifest.read(path).body


def test_the_record_has_a_line_and_the_manifest_the_mean(runs):
    lines = [
        json.loads(line)
        for line in (runs["whole"].parent / "rounds.jsonl").read_text().splitlines()
    ]
    for way in ("bytes_down", "bytes_up"):
        expected = sum(line[way] for line in lines) / 3
        assert body(runs["whole"])[way] == expected
    numbers = body(runs["whole"])["numbers_sent"]
    assert lines[0]["bytes_down"] == 4 * numbers < lines[1]["bytes_down"]


def test_frozen_numbers_do_not_travel(runs):
    head = body(runs["head"])
    assert head["bytes_down"] == head["bytes_up"] == 4 * (64 * 3 + 3)


@pytest.fixture(scope="module")
def scores(runs):
    return [evaluate(run) for run in runs.values()]


def test_the_report_shows_megabytes_when_asked(runs, scores):
    down, up = (body(runs["whole"])[f"bytes_{way}"] / 1e6 for way in ("down", "up"))
    result = rows(scores, traffic=True)
    columns, lines = table_cells(result)
    expected = ["0.00078", "0", f"{down:.3g}"]
    assert [line[columns.index(DOWN)] for line in lines] == expected
    assert BYTES in render(result, "markdown")
    assert DOWN not in table_cells(rows(scores))[0]
    table = list(csv.DictReader(io.StringIO(render(result, "csv"))))
    expected = ["0.00078", "0", f"{up:.3g}"]
    assert [row["MB up per client and round"] for row in table] == expected
    written = json.loads(render(result, "json"))["rows"]
    first, *others = [body(run) for run in runs.values()]
    bodies = [*others, first]  # FedAvg's rows come first
    expected = [{"down": record["bytes_down"], "up": record["bytes_up"]} for record in bodies]
    assert [row["bytes"] for row in written] == expected


def test_bytes_and_minutes_stand_side_by_side_and_old_scores_have_a_dash(scores, tmp_path):
    old = manifest.read(scores[0])
    (tmp_path / "old").mkdir()
    shutil.copy(scores[0].parent / "scores.csv", tmp_path / "old")
    without = {key: value for key, value in old.body.items() if key not in ("bytes", "views")}
    path = manifest.seal(tmp_path / "old", replace(old, body=without, parents={}))
    columns, lines = table_cells(rows([scores[1], path], minutes=True, traffic=True))
    assert columns[-3:] == [DOWN, UP, "minutes"]
    result = [line[-2] for line in lines]
    assert result == [
        "0.00078",
        "-",
    ]


@pytest.mark.parametrize(
    ("sent", "text"), [(8192, "0.00819"), (4427136, "4.43"), (344_123_456, "344"), (2e9, "2000")]
)
def test_megabytes_have_three_digits_of_small_things_and_large(sent, text):
    assert megabytes(sent).text == text


def test_the_element_size_counts():
    state = {
        "a": torch.zeros(3),
        "b": torch.zeros(2, dtype=torch.float64),
        "c": torch.zeros(5, dtype=torch.bool),
    }
    assert size(state) == 12 + 16 + 5
