"""Image quality by site, class and group, of images and of what sites count of theirs."""

import json

import numpy as np
import pytest
from conftest import ROSTER, make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import manifest, quality_by_site
from fedcli.data.quality import BINS, MEASURES, NAMES, cells, measure, shown
from fedcli.errors import FedcliError


def said(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_images_are_measured_as_they_are_trained_on(tmp_path):
    chain = make_chain(tmp_path, corrupted=True)
    measured = quality_by_site.of_manifest(chain, jobs=1)
    pixels = measured.pool.pixels(measured.rows)
    alike = (measured.values == measure(pixels)).all(1)
    assert alike[:60].all()
    assert not alike[60:].any()
    assert list(measured.members) == ROSTER
    assert (quality_by_site.pixels(measured.files[:60]) == pixels[:60]).all()
    by_class = quality_by_site.of_manifest(chain, "class", jobs=1)
    result = {name: len(rows) for name, rows in by_class.members.items()}
    assert result == {"a": 27, "b": 27, "c": 26}
    expected = sum(measured.histograms.values()).tolist()
    result = sum(by_class.histograms.values()).tolist()
    assert result == expected


def test_inspect_finds_the_noisy_client_and_says_so(tmp_path):
    chain = make_chain(tmp_path, corrupted=True)
    quality = json.loads(said("inspect", chain, "--quality", "--json"))["quality"]
    assert set(quality["sites"]) == set(ROSTER)
    result = len(quality["edges"]["snr"])
    assert result == BINS + 1
    assert (
        sum(quality["sites"][ROSTER[0]]["measures"]["noise"]["counts"])
        == quality["sites"][ROSTER[0]]["images"]
        == 20
    )
    assert quality["findings"][0].startswith(f"{ROSTER[3]} stands out in ")
    output = said("inspect", chain, "--quality", "--by", "sex")
    assert "Image quality by sex: medians" in output
    assert "in standard deviations" in output
    assert "Image quality by site: medians" in said(
        "inspect", manifest.above(chain, "dataset"), "--quality"
    )
    refused = CliRunner().invoke(app, ["inspect", str(chain), "--quality", "--by", "age"])
    assert refused.exit_code == 2
    assert "no such attribute" in refused.stderr


def test_what_a_site_says_is_checked(tmp_path):
    counts = np.zeros((len(NAMES), BINS), int)
    counts[:, [3, 40]] = 15, 25
    description = {
        "client": "north",
        "images": {"train": 30, "val": 10},
        "quality": {name: cells(row, 10) for name, row in zip(NAMES, counts)},
    }
    (tmp_path / "north.json").write_text(json.dumps(description))
    result = quality_by_site.of_descriptions(tmp_path)["north"].tolist()
    assert result == counts.tolist()
    for odd, words in (
        ([[0, 63, 41]], "does not add up to 40 images"),
        ([["a"]], "not a whole number"),
        (cells(counts[0], 99), "does not add up to 40 images"),
    ):
        description["quality"]["snr"] = odd
        (tmp_path / "north.json").write_text(json.dumps(description))
        with pytest.raises(FedcliError, match=words):
            quality_by_site.of_descriptions(tmp_path)
    for parts in ((0, 0), (-5, 10), (10**39, 0)):
        images = dict(zip(("train", "val"), parts))
        description = {
            **description,
            "images": images,
            "quality": {name: [] for name in NAMES},
        }
        (tmp_path / "north.json").write_text(json.dumps(description))
        with pytest.raises(
            FedcliError, match=f"{parts[0]} training and {parts[1]} validation images cannot be"
        ):
            quality_by_site.of_descriptions(tmp_path)


def test_two_files_of_one_site_are_refused(tmp_path):
    description = {
        "client": "a",
        "images": {"train": 9, "val": 0},
        "quality": {name: [[0, 63, 9]] for name in NAMES},
    }
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text(json.dumps(description))
    with pytest.raises(FedcliError, match=r"second.json: another file describes 'a' too"):
        quality_by_site.of_descriptions(tmp_path)


def furthest(histograms):
    """(site, measure, distance) of who is furthest from all others, by the facts of each."""
    ways = [
        (facts["measures"][measure]["distance"], site, measure)
        for site, facts in quality_by_site.facts(histograms).items()
        for measure in NAMES
    ]
    distance, site, measure = max(ways, key=lambda way: way[0])
    return site, measure, distance


def test_each_sentence_is_about_the_furthest_of_those_that_remain():
    chance = np.random.default_rng(3)
    histograms = {
        f"site {k}": chance.multinomial(40, chance.dirichlet(np.full(BINS, 0.05)), len(NAMES))
        for k in range(12)
    }
    sentences = quality_by_site.findings(histograms)
    assert len(sentences) == 4
    titles = {measure.name: measure.title for measure in MEASURES}
    for k, sentence in enumerate(sentences):
        site, measure, distance = furthest(histograms)
        facts = quality_by_site.facts(histograms)[site]["measures"][measure]
        others = "all" if k == 0 else "the remaining"
        assert sentence.startswith(
            f"{site} stands out in {titles[measure]}: median {shown(facts['median'])} "
        )
        assert (
            f"than {shown(facts['others'])} of {others} others, {distance:.1f} standard" in sentence
        )
        del histograms[site]


def test_alike_sites_do_not_stand_out():
    histograms = {f"site {k}": np.ones((len(NAMES), BINS)) for k in range(3)}
    assert quality_by_site.findings(histograms) == [
        "no site stands out: every distance is below 0.8 standard deviations"
    ]
    alone = np.ones((len(NAMES), BINS))
    result = quality_by_site.findings({"alone": alone})
    assert result == []
