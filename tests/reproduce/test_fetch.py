"""`reproduce --fetch` and `datasets --download` through the command line, from a server on this machine."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from download_server import BODY, serving
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.data import sources
from fedcli.data.sources import cards
from fedcli.reproduction import raw, recipe

RECIPE = """
title = "Two networks' teachers"
[files]
teacher = { card = "moco-v2", path = "moco_v2_800ep_pretrain.pth.tar" }
split = { card = "ffl4mia", path = "ICH_20/train.csv" }
[data.office]
dataset = "office-caltech"
prepare = { size = 8 }
partition = { by = ["domain"] }
[data.ct]
dataset = "rsna-ich"
[train]
rounds = 1
[[row]]
name = "KD"
method = "kd"
data = ["office"]
train = { teacher = "{files.teacher}" }
[[column]]
name = "accuracy"
data = "office"
score = "versions/clean/accuracy"
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Requests to the server that stands for the addresses of the cards; a recipe lies in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    sources.make_sample("office-caltech", Path("sample"))
    with tarfile.open(fileobj=(archived := io.BytesIO()), mode="w:gz") as archive:
        for domain in ("amazon", "caltech10", "dslr", "webcam"):
            archive.add(f"sample/{domain}", domain)
    read = cards.read
    published = cards.published()
    with serving({"/officecaltech.tgz": archived.getvalue()}) as (address, requests):

        def of_server(card):
            files = []
            for file in card.get("download", ()):
                hashes = ("sha256", "md5", "bytes")
                entry = {key: value for key, value in file.items() if key not in hashes}
                entry["url"] = f"{address}/{Path(file['path']).name}"
                entry["about_bytes"] = len(BODY)
                files.append(entry)
            return card | ({"download": files} if files else {})

        monkeypatch.setattr(cards, "read", lambda name: of_server(read(name)))
        monkeypatch.setattr(sources.cards, "read", cards.read)
        monkeypatch.setattr(
            cards, "published", lambda: {name: of_server(card) for name, card in published.items()}
        )
        Path("sample.toml").write_text(RECIPE)
        yield requests


def run(*words: str):
    return CliRunner().invoke(app, list(words))


def test_a_dataset_is_downloaded_and_prepared(server):
    downloaded = run("datasets", "office-caltech", "--download", "d", "--accept-licence", "--json")
    assert downloaded.exit_code == 0, downloaded.output
    record = json.loads(downloaded.stdout)
    assert record["folder"] == "d"
    assert list(record["files"]) == ["officecaltech.tgz"]
    result = run("prepare", "office-caltech", "--raw", "d", "--size", "8").exit_code
    assert result == 0
    assert run("datasets", "office-caltech", "--accept-licence").exit_code == 2


def test_nothing_comes_without_the_licence_and_all_is_said_before(server):
    refused = run("reproduce", "sample.toml", "--fetch", "--work", "w")
    assert refused.exit_code == 2
    assert not server
    assert not Path("w/downloads").exists()
    output = " ".join(refused.stderr.split())
    for words in (
        "no command can download rsna-ich",
        "kaggle.com",
        "--raw rsna-ich=DIR",
        "MB to download",
        "B are free",
    ):
        assert words in output, words
    assert "licence of office-caltech: research use" in output
    assert (
        "has to be accepted hint: read it, then add --accept-licence; nothing was downloaded"
        in output
    )


def test_what_was_fetched_is_found(server):
    fetched = run("reproduce", "sample.toml", "--fetch", "--accept-licence", "--work", "w")
    assert fetched.exit_code == 0, fetched.output
    assert fetched.stdout == "w/downloads\n"
    assert "next: fedcli reproduce sample.toml --raw rsna-ich=DIR --work w" in fetched.stderr
    names = {path for path, _ in server}
    assert names == {
        "/officecaltech.tgz",
        "/moco_v2_800ep_pretrain.pth.tar",
        "/train.csv",
        "/test.csv",
    }
    script = run("reproduce", "sample.toml", "--dry-run", "--work", "w").stdout
    assert "--raw w/downloads/office-caltech" in script
    assert "--teacher w/downloads/moco-v2/moco_v2_800ep_pretrain.pth.tar" in script
    table = recipe.load(Path("sample.toml"))
    nothing = Path("w")
    result = raw.folders(table, ["office-caltech=mine"], "paper", nothing)
    assert result == {"office-caltech": "mine"}
    result = set(raw.folders(table, [], "smoke", nothing).values())
    assert result == {
        "w/samples/office-caltech",
        "w/samples/rsna-ich",
    }
    result = raw.files(table, [], {}, "smoke", nothing)
    assert result == {}
    again = run("reproduce", "sample.toml", "--fetch", "--work", "w", "--json")
    result = json.loads(again.stdout)["by_hand"]
    assert result == ["rsna-ich"]
    assert len(server) == 4


def test_data_that_the_user_has_are_not_fetched(server):
    flags = ["--raw", "office-caltech=mine", "--raw", "rsna-ich=mine"]
    fetched = run("reproduce", "sample.toml", "--fetch", "--accept-licence", "--work", "w", *flags)
    assert fetched.exit_code == 0
    assert "/officecaltech.tgz" not in {path for path, _ in server}


def test_a_recipe_with_nothing_to_download_says_who_gets_it(server):
    ended = run("reproduce", "fairfedmed-table1", "--fetch", "--accept-licence")
    assert ended.exit_code == 1
    assert "no command can download fairfedmed-slo" in ended.stderr
    assert "56.0 GB" in ended.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{ card = "moco", path = "x" }', "did you mean 'moco-v2'"),
        ('{ card = "moco-v2", path = "moco.pth" }', "moco_v2_800ep_pretrain.pth.tar"),
        ('{ card = "moco-v2" }', "names no file"),
        ('{ card = "moco-v2", url = "https://example.org" }', "unknown key 'url'"),
        ("3", "files"),
    ],
)
def test_a_file_that_no_card_has_is_a_sentence(server, line, words):
    Path("sample.toml").write_text(
        RECIPE.replace('{ card = "ffl4mia", path = "ICH_20/train.csv" }', line)
    )
    ended = run("reproduce", "sample.toml", "--fetch")
    assert ended.exit_code == 2
    assert words in " ".join(ended.stderr.split())
