"""Scores by image quality in a report, on a page and as JSON."""

import json

import pytest
from conftest import make_chain
from made_plans import planned, train
from typer.testing import CliRunner

from fedcli.commands.app import app
from fedcli.federation.training import Training


def run(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, words)])
    assert done.exit_code == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    plan = planned("fedavg", {}, Training(optimizer="sgd", lr=0.1, batch_size=8), 2)
    return train(make_chain(work), plan, work=work, out=work / "runs" / "avg")


@pytest.mark.long
def test_a_report_says_what_quality_explains(run_path, tmp_path, monkeypatch):
    monkeypatch.setattr("fedcli.scores.statistics.stratified.SMALL", 10)
    monkeypatch.setattr("fedcli.scores.statistics.stratified.RESAMPLES", 200)
    words = run_path, "--metric", "accuracy", "--quality", "contrast"
    text = run(*words)
    assert "Accuracy by contrast" in text
    assert "Gap in accuracy and contrast" in text
    assert "points of the gap in accuracy by sex" in " ".join(text.split())
    assert "highest quarter" in text
    (_, sentence) = json.loads(run(*words, "--json"))["quality"]
    assert "are explained by contrast" in sentence
    assert (
        sentence
        in run(*words, "--format", "html", "--out", tmp_path / "page.html")
        + (tmp_path / "page.html").read_text()
    )
    assert "Accuracy by contrast" in run(*words, "--format", "markdown")


def test_a_measure_that_there_is_not_is_refused(run_path):
    assert "no measure of image quality 'sharpnes'" in run(
        run_path, "--quality", "sharpnes", code=2
    )
