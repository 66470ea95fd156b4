"""fedcli site job: the names of the sites from whatever says them, and the files."""

import json

import pytest
from conftest import ROSTER, make_chain
from made_plans import train
from site_federation import plan, sites_of
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.sites.roster import names


def job(*words):
    return CliRunner().invoke(app, ["site", "job", *map(str, words)])


def test_the_sites_of_descriptions_data_and_runs_are_named(tmp_path):
    data = make_chain(tmp_path)
    described = tmp_path / "described"
    described.mkdir()
    for client, site in sites_of(data, tmp_path / "state").items():
        (described / f"{client}.json").write_text(json.dumps(site.description))
    run = train(data, plan(rounds=1), work=tmp_path)
    assert names([described]) == sorted(ROSTER)
    assert names([described / f"{client}.json" for client in ROSTER]) == ROSTER
    for path in (data, data.parent, run, run.parent, run.parent / "settings.json"):
        assert names([path]) == ROSTER


@pytest.mark.parametrize("action", ["describe", "check", "stop"])
def test_data_without_its_option_is_refused_with_the_option(action):
    done = CliRunner().invoke(app, ["site", action, "partition.json"])
    assert done.exit_code == 2
    assert f"`fedcli site {action}` takes no partition.json" in done.stderr
    assert f"fedcli site {action} --data MANIFEST" in done.stderr


@pytest.mark.parametrize("engine", ["nvflare", "flower"])
def test_the_files_are_written_and_what_to_allow_is_said(tmp_path, engine):
    done = job(engine, make_chain(tmp_path), "-o", tmp_path / "out", "--sockets", "/run/here")
    assert done.exit_code == 0
    assert done.stdout.strip() == str(tmp_path / "out")
    texts = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    for client in ROSTER:
        assert client in texts
    assert "/run/here" in texts
    assert ("class_allow_list" if engine == "nvflare" else "SuperLink") in done.stderr


@pytest.mark.parametrize("engine", ["nvflare", "flower"])
def test_an_edited_file_of_a_job_is_not_overwritten(tmp_path, engine):
    line = engine, make_chain(tmp_path), "-o", tmp_path / "out"
    assert job(*line).exit_code == 0
    assert job(*line).exit_code == 0
    for path in [path for path in (tmp_path / "out").rglob("*") if path.is_file()]:
        before = path.read_text()
        path.write_text(before + "mine")
        done = job(*line)
        assert done.exit_code == 1
        assert f"{path.name} is there already, with other content" in done.stderr
        assert path.read_text() == before + "mine"
        path.write_text(before)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["flower", "nowhere", "-o", "out"], "nowhere"),
        (["flower", "empty", "-o", "out"], "no description of a site in empty"),
        (["flower", "nowhere"], "where should the files go?"),
        (["flower", "other.json", "-o", "out"], "other.json is damaged: classes is missing"),
    ],
)
def test_what_names_no_sites_is_refused(tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text("{}")
    done = job(*words)
    assert done.exit_code in (1, 2)
    assert sentence in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_description_goes_into_a_json_file_only(tmp_path):
    table = tmp_path / "labels.csv"
    table.write_text("mine")
    words = [
        "site",
        "describe",
        "--client",
        ROSTER[0],
        "--data",
        str(make_chain(tmp_path)),
        "--out",
        str(table),
    ]
    assert CliRunner().invoke(app, words).exit_code == 2
    assert table.read_text() == "mine"
    words[-1] = str(tmp_path / "a.json")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert done.stdout == f"{words[-1]}\n"
    assert json.loads((tmp_path / "a.json").read_text())["client"]
