"""The sheet of images by client and class."""

from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from conftest import ROSTER, make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.commands.plot import draw
from fedcli.data import manifest
from fedcli.figures.kinds import FIGURES, counts, samples
from fedcli.reporting.page import images


@pytest.fixture(scope="module")
def corruption(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("work"), corrupted=True)


def test_clients_are_rows_and_a_noisy_one_has_its_images_clean_and_corrupted(corruption):
    table = samples.frame(corruption)
    noisy = ROSTER[-1]
    (first, clean), (words, changed), *others = table.attrs["sheet"]
    assert first == noisy
    assert words == "gaussian noise 3"
    assert [name for name, _ in others] == ROSTER[:-1]
    assert list(clean) == list(changed) == ["a", "b", "c"]
    assert all((clean[name] != changed[name]).any() for name in clean)
    of_noisy = table[table["client"] == noisy]
    assert of_noisy["corruption"].tolist() == [""] * 3 + ["gaussian noise 3"] * 3
    assert of_noisy["image"][:3].tolist() == of_noisy["image"][3:].tolist()


def test_each_image_is_a_training_image_of_its_client_and_class(corruption):
    table = samples.frame(corruption)
    for line in table.itertuples():
        number = int(line.image.removeprefix("img-"))
        assert number % 3 == "abc".index(line[3])
        assert number // 20 == ROSTER.index(line.client)


def test_a_seed_draws_the_images_and_clients_and_classes_left_out_change_none(corruption):
    table = samples.frame(corruption)
    same = samples.frame(corruption)
    other = samples.frame(corruption, seed=1)
    assert table.equals(same)
    assert table["image"].tolist() != other["image"].tolist()
    few = samples.frame(corruption, most=2)
    assert few["client"].unique().tolist() == [ROSTER[-1], ROSTER[0]]
    assert few["class"].unique().tolist() == ["a", "b"]
    assert "2 of 4 clients, 2 of 3 classes" in few.attrs["caption"]
    merged = few.merge(table, how="left", indicator=True)
    assert (merged["_merge"] == "both").all()


def test_noisy_clients_leave_half_of_the_rows_to_others_where_there_are_any():
    for noisy, expected in (
        ("bcd", "bca"),
        ("abcd", "abc"),
        ("d", "dab"),
        ("", "abc"),
    ):
        assert samples.shown(list("abcd"), list(noisy), 3) == list(expected)
    assert samples.shown(list("abcd"), ["d"], 1) == ["d"]


def test_counts_in_percent_are_shares_of_a_clients_images(corruption):
    table = counts.frame(corruption, percent=True)
    by_attribute = table.groupby(["attribute", "client"])["percent"].sum()
    assert by_attribute.to_numpy() == pytest.approx(np.full(8, 100.0))
    result = table["percent"].tolist()[:3]
    assert result == [35.0, 35.0, 30.0]


def test_without_a_path_the_newest_data_are_drawn_and_a_dataset_can_be_named(tmp_path):
    corruption = make_chain(tmp_path, corrupted=True)
    out = tmp_path / "samples.csv"
    draw(FIGURES["samples"], [], {}, work=tmp_path, out=out)
    assert set(pandas.read_csv(out)["client"]) == set(ROSTER)
    table = samples.frame(manifest.above(corruption, "dataset"))
    assert table["client"].unique().tolist() == ["all"]
    assert "1 of 1 clients" in table.attrs["caption"]


def test_a_page_has_the_sheet_at_its_head_only_where_it_is_asked_for(corruption, capsys):
    rows = [SimpleNamespace(stage=lambda kind: corruption)] * 2
    section = images.samples([*rows, SimpleNamespace(stage=lambda kind: None)])
    (panels,) = section.panels
    assert "before you send this page on" in panels.legend
    assert "data:image/png;base64," in panels.figures[0].svg
    assert "runs over sites" in capsys.readouterr().err
    refused = CliRunner().invoke(app, ["report", "--samples"])
    assert refused.exit_code == 2
