"""Image quality of sites: the counts that they describe, and the table that a coordinator makes of them."""

import json

import pytest
from conftest import ROSTER, make_chain
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import quality_by_site


def run(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("work"), corrupted=True)


def described(chain, folder, policy: str) -> dict:
    """Every site's description under a policy, and what the coordinator reads from them all."""
    folder.mkdir()
    (folder / "policy.toml").write_text(policy)
    for client in ROSTER:
        words = (
            "--data",
            chain,
            "--client",
            client,
            "--policy",
            folder / "policy.toml",
            "--work",
            folder / "work",
        )
        run("site", "describe", *words, "--quality", "--out", folder / f"{client}.json")
    return json.loads(run("inspect", folder, "--quality", "--json"))["quality"]


def test_a_coordinator_has_the_table_of_the_images_themselves(chain, tmp_path):
    local = json.loads(run("inspect", chain, "--quality", "--json"))["quality"]
    described_quality = described(chain, tmp_path / "one", "smallest_cell = 1")
    assert described_quality["sites"] == local["sites"]
    assert described_quality["findings"] == local["findings"]
    coarse = described(chain, tmp_path / "five", "smallest_cell = 5")
    for client, site in coarse["sites"].items():
        cells = json.loads((tmp_path / "five" / f"{client}.json").read_text())["quality"]
        result = min(images for binned in cells.values() for *_, images in binned)
        assert result >= 5
        assert site["images"] == 20
        for binned in site["measures"].values():
            assert sum(binned["counts"]) == pytest.approx(20)
    measures = local["sites"]["west"]["measures"]
    far = max(measures, key=lambda name: measures[name]["distance"])
    outcome = coarse["sites"]["west"]["measures"][far]["distance"]
    assert outcome > quality_by_site.LARGE


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("quality = false", "does not allow histograms of image quality"),
        ("[privacy]\nnoise = 20.0", "does not allow histograms of image quality"),
        ("smallest_cell = 21", "too few for one cell"),
    ],
)
def test_a_policy_refuses_them(chain, tmp_path, policy, words):
    (tmp_path / "policy.toml").write_text(policy)
    words_of = (
        "--data",
        chain,
        "--client",
        "west",
        "--policy",
        tmp_path / "policy.toml",
        "--work",
        tmp_path / "work",
    )
    result = run("site", "describe", *words_of, "--quality", code=1)
    assert words in result
    result = json.loads(run("site", "describe", *words_of))
    assert "quality" not in result
    assert "image quality" in run("site", "check", *words_of)


def test_by_a_group_a_coordinator_has_nothing(chain, tmp_path):
    described(chain, tmp_path / "all", "smallest_cell = 1")
    result = run("inspect", tmp_path / "all", "--quality", "--by", "sex", code=2)
    assert "a site describes all its images together" in result


def test_a_site_whose_images_fill_one_cell_is_left_out(chain, tmp_path):
    """Its histogram could be any, so it neither stands out nor resembles the others."""
    described(chain, tmp_path / "all", "smallest_cell = 1")
    (tmp_path / "policy.toml").write_text("smallest_cell = 11")
    words = (
        "--data",
        chain,
        "--client",
        "west",
        "--policy",
        tmp_path / "policy.toml",
        "--work",
        tmp_path / "work",
    )
    run("site", "describe", *words, "--quality", "--out", tmp_path / "all" / "west.json")
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "all"), "--quality", "--json"])
    result = set(json.loads(done.stdout)["quality"]["sites"])
    assert result == set(ROSTER) - {"west"}
    assert "west is left out: its 20 images fill one cell" in done.stderr
