"""Every registered figure: its frame is tidy, and it draws from a small run, for files and for the page."""

import json
import os
from functools import cache

import pytest
import session
from conftest import make_chain
from made_plans import planned, train
from pandas import DataFrame

from fedcli.federation.training import Training
from fedcli.figures import drawing, inline, names
from fedcli.figures.drawing import drawn
from fedcli.figures.figure import Figure, numbers, register
from fedcli.figures.kinds import FIGURES, critical_difference, severities
from fedcli.figures.series import read
from fedcli.reporting.rows import compared, rows
from fedcli.scores.audit.audited import audit
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import AuditOptions

TRAINED = {  # run -> what it trains
    "mas": planned(
        "fed-mas", {"by_class": True}, Training(optimizer="sgd", lr=0.1, batch_size=8), 2
    ),
    "lora": planned(
        "fairlora", {}, Training(optimizer="sgd", lr=0.1, batch_size=8), 1, model="clip-tiny"
    ),
    "heal": planned(
        "fedheal", {}, Training(optimizer="sgd", lr=0.1, batch_size=8), 2, eval_every=1
    ),
    "avg": planned("fedavg", {}, Training(optimizer="sgd", lr=1e-6, batch_size=8), 2, eval_every=1),
}
OF = {
    "divergence": "mas",
    "features": "mas",
    "adapters": "lora",
    "errors": "avg",
    "reconstructions": "avg",
}  # figure -> the run that has it
OPTIONS = {"landscape": {"points": 3}, "sweep": {"over": "lr"}}
TWO = ("convergence", "sweep", "overall-and-worst")  # of two runs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """name -> a run, trained once it is asked for: a process of the suite draws some of the figures."""
    work = tmp_path_factory.mktemp("work")
    chain = make_chain(work, corrupted=True)
    return cache(lambda name: train(chain, TRAINED[name], work=work, out=work / "runs" / name))


scores = cache(evaluate)


def by_severity():
    """The frame of `severities`, whose runs are scored under several corruptions; here made by hand."""
    lines = [
        ("contrast", "all images", -1, severity, 80.0 - 20 * severity, 50.0, 90.0)
        for severity in (0, 1)
    ]
    table = DataFrame(lines, columns=severities.COLUMNS)
    table.attrs |= {"title": "accuracy by severity", "score": "accuracy", "caption": ""}
    table.attrs |= {"sizes": {}, "small": []}
    return table


def by_rank():
    """The frame of `critical-difference`, whose runs are of several datasets."""
    scores = {"FedAvg": [0.9, 0.8], "FedHEAL": [0.8, 0.9]}
    return critical_difference.of_scores("accuracy", scores, images=100)


BY_HAND = {"severities": by_severity, "critical-difference": by_rank}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_draws_its_numbers(name, run):
    figure = FIGURES[name]
    extra = {}
    paths = [run("heal"), run("avg")] if name in TWO else [run(OF.get(name, "heal"))]
    if name == "reconstructions":
        audit(paths[0], [], AuditOptions(iterations=1))
    if figure.of in ("path", "data"):
        subject = paths[0].parent
    elif figure.of in ("runs", "methods"):
        records = [read(path) for path in paths]
        subject = names.labels(records) if figure.of == "runs" else names.systems(records)
    else:
        subject = compared(rows([scores(path) for path in paths]))
        subject = subject if figure.of == "systems" else subject[0]
    if name == "sweep":
        systems = compared(rows([scores(path) for path in paths]))
        scored = [system.scores for system in systems]
        extra = {"scores": lambda records: scored, "runs_named": True}
    options = OPTIONS.get(name, {})
    frame = BY_HAND[name]() if name in BY_HAND else figure.frame(subject, **options, **extra)
    assert len(frame)
    assert json.dumps(numbers(frame), allow_nan=False)
    picture = figure.draw(frame)
    result = len([axes for axes in drawn(picture).axes if axes.has_data()])
    assert result >= len(picture.panels)
    for panel in inline.of_picture(picture).figures:
        assert "<svg " in panel.svg


def test_a_name_stands_for_one_figure():
    with pytest.raises(ValueError, match="'curves' already"):
        frame = FIGURES["curves"].frame
        draw = FIGURES["curves"].draw
        register(Figure("curves", "?", "runs", frame, draw))


def test_every_figure_answers_a_question_and_is_a_command():
    printed = session.run("fedcli plot --help")
    for name, figure in FIGURES.items():
        assert figure.question.endswith("?")
        assert name in printed


def test_a_file_of_a_picture_does_not_depend_on_the_date_of_a_build(tmp_path, monkeypatch):
    picture = FIGURES["severities"].draw(by_severity())
    files = [tmp_path / f"picture.{kind}" for kind in ("svg", "pdf", "png")]
    drawing.write(picture, *files)
    before = [file.read_bytes() for file in files]
    for date in ("", "0", "yesterday"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", date)
        drawing.write(picture, *files)
        assert [file.read_bytes() for file in files] == before
        assert inline.of_picture(picture)
        assert os.environ["SOURCE_DATE_EPOCH"] == date
