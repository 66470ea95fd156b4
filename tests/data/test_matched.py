"""Noise that makes one client's images as noisy as another's."""

import numpy as np
import pytest
from site_federation import chain_with_tests

from fedcli import corrupt
from fedcli.data import manifest, quality_by_site
from fedcli.data.corruption import matched
from fedcli.data.corruption.corrupt import corrupt_image
from fedcli.data.quality import NAMES
from fedcli.errors import FedcliError, UsageError

NOISE = NAMES.index("noise")


def noisy_west(work):
    return corrupt(
        chain_with_tests(work), "gaussian", severity=2, on=["west"], work=work, jobs=1
    ).path


def noise(path, client):
    return np.median(quality_by_site.of_manifest(path, client=client, jobs=1).values[:, NOISE])


def test_the_client_is_as_noisy_as_the_other_in_the_same_bytes_each_time(tmp_path):
    chain = noisy_west(tmp_path)
    body = manifest.read(
        corrupt(chain, match="west", on=["north"], work=tmp_path, jobs=1).path
    ).body
    matched = body["match"]
    assert matched["noise"] == noise(chain, "west")
    assert matched["before"] == noise(chain, "north")
    expected = pytest.approx(matched["noise"], abs=0.5)
    assert matched["after"] == expected
    assert matched["sigma"] > 20
    work = tmp_path / "again"
    path = corrupt(chain, match="west", on=["north"], work=work, jobs=1).path
    assert noise(path, "north") == matched["after"]
    severity = round(100 * matched["sigma"])
    expected = {
        "kind": "matched-noise",
        "severity": severity,
        "clients": ["north"],
    }
    assert body["each"][0] == expected
    assert manifest.read(path).options["match"] == "west"
    result = manifest.read(path).made_by[:3]
    assert result == [
        "corrupt",
        "--match",
        "west",
    ]
    assert manifest.read(path).body["match"] == matched


def test_an_image_by_its_id_alone_and_no_noise_leaves_it_as_it_is():
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    same = corrupt_image(image, "a", kind=matched.KIND, severity=0, seed=1)
    noisy = [
        corrupt_image(image, id, kind=matched.KIND, severity=500, seed=1) for id in ("a", "a", "b")
    ]
    assert (same == image).all()
    assert (noisy[0] == noisy[1]).all()
    assert (noisy[0] != noisy[2]).any()
    result = np.std(noisy[0].astype(int) - image)
    assert result == pytest.approx(5, rel=0.3)


def test_what_cannot_be_matched_is_refused(tmp_path):
    chain = noisy_west(tmp_path)
    for error, words, how in (
        (
            FedcliError,
            "grey levels already",
            {"match": "north", "on": ["south", "east"], "partition": chain},
        ),
        (UsageError, "to itself", {"match": "north", "on": ["north"], "partition": chain}),
        (UsageError, "no client 'nord'", {"match": "nord", "on": ["south"], "partition": chain}),
        (UsageError, "finds the kind", {"match": "west", "severity": 2, "partition": chain}),
    ):
        with pytest.raises(error, match=words):
            corrupt(**how, work=tmp_path, jobs=1)


def softened(work):
    """Clients of which west is blurred, pale and dark."""
    kinds = ["gaussian-blur@ct", "contrast-down", "brightness-down"]
    sites = ["west", "south", "east"]
    client = [f"{site}={kind}:4" for site, kind in zip(sites, kinds, strict=True)]
    return corrupt(chain_with_tests(work), client=client, work=work, jobs=1).path


@pytest.mark.parametrize(
    ("quality", "site", "kind"),
    [
        ("sharpness", "west", "matched-blur"),
        ("contrast", "south", "matched-contrast"),
        ("brightness", "east", "matched-brightness"),
    ],
)
def test_sharpness_contrast_and_brightness_are_matched_too(tmp_path, quality, site, kind):
    chain = softened(tmp_path)
    path = corrupt(chain, match=site, quality=quality, on=["north"], work=tmp_path, jobs=1).path
    body = manifest.read(path).body
    facts = body["match"]
    assert body["each"][0]["kind"] == kind
    assert abs(facts["after"] - facts[quality]) <= 0.02 * facts[quality]
    assert abs(facts["before"] - facts[quality]) > 0.02 * facts[quality]
    assert manifest.read(path).options["quality"] == quality


@pytest.mark.parametrize(
    ("error", "words", "how"),
    [
        (
            FedcliError,
            "already, that of north",
            {"match": "north", "on": ["west"], "quality": "sharpness"},
        ),
        (UsageError, "in 'entropy'", {"match": "north", "on": ["west"], "quality": "entropy"}),
        (UsageError, "which is not given", {"kind": "hair", "quality": "contrast"}),
    ],
)
def test_another_measure_that_cannot_be_matched_is_refused(tmp_path, error, words, how):
    with pytest.raises(error, match=words):
        corrupt(chain_with_tests(tmp_path), **how, work=tmp_path, jobs=1)
