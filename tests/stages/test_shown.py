"""Results as Python echoes them and as a notebook shows them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pandas import DataFrame

import fedcli
from fedcli.errors import FedcliError, UsageError
from fedcli.figures.kinds import find
from fedcli.reporting.page import markup
from fedcli.reporting.table import ReportTable
from fedcli.stages.plot import Plot


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """phantom in four clients, one of them noisy, FedAvg and FedHEAL swept over it for a round."""
    work = tmp_path_factory.mktemp("work")
    dataset = fedcli.prepare("phantom", size=8, sample_images=120, work=work)
    clients = fedcli.partition(dataset, by="site", work=work)
    noisy = fedcli.corrupt(clients, "gaussian", ratio=0.25, work=work)
    swept = fedcli.sweep(["fedavg", "fedheal"], noisy, seeds=[3], rounds=1, work=work)
    return work, dataset, noisy, swept


def test_a_stage_shows_what_it_holds_and_is_its_path_as_text(results):
    _, dataset, noisy, swept = results
    run = fedcli.stages.results.Run(swept.scores[0].parents[2] / "run.json")
    contents = [
        (dataset, ("phantom", "120", "8 px")),
        (noisy, ("north", "west", "gaussian-noise")),
        (run, ("FedAvg", "3")),
    ]
    for result, words in contents:
        assert all(word in repr(result) for word in words)
        assert str(result) == str(result.path)
        assert result._repr_html_().count("<table>") == 1
        assert str(result.path) in result._repr_html_()


def test_a_sweep_over_methods_is_one_table_and_its_numbers_are_shares_or_percent(results):
    work, _, noisy, swept = results
    frame = swept.to_frame()
    percent = swept.to_frame(percent=True)
    assert list(frame.row) == ["FedAvg", "FedHEAL"]
    assert list(frame.runs) == [1, 1]
    assert frame.attrs["unit"] == "share"
    assert percent.attrs["unit"] == "%"
    expected = pytest.approx((100 * frame["clean balanced_accuracy"]).tolist())
    assert percent["clean balanced_accuracy"].tolist() == expected
    assert "FedHEAL" in str(swept)
    result = f"{100 * frame['clean balanced_accuracy'][0]:.2f}"
    assert result in str(swept)
    assert (swept.path / "report.html").is_file()
    assert len(swept.scores) == 2
    over = {"method": ["fedavg", "fedheal"]}
    again = fedcli.sweep(over=over, seeds=[3], rounds=1, work=work, data=noisy)
    assert again.scores == swept.scores
    assert again.path == swept.path


def test_an_estimate_shows_time_and_memory(results):
    work, _, noisy, _ = results
    needs = fedcli.estimate("fedavg", noisy, rounds=50, work=work)
    assert "fedavg, 50 rounds" in str(needs)
    assert "nothing was written" in str(needs)
    assert needs.rounds == 50
    assert needs._repr_html_().count("<table>") == 2


def test_a_sweep_refuses_what_the_command_refuses(results):
    work, _, noisy, _ = results
    refusals = [
        ({"method": "fedavg"}, "a sweep needs methods, or values"),
        ({"over": {"lr": [1]}}, "which method?"),
        ({"method": "fedavg", "over": {"method": "fedheal"}}, "given twice"),
        ({"method": ["fedavg", "fedheal"], "name": "x"}, "--name is of one run"),
        ({"method": "fedavg", "over": {"hold-out": "all"}}, "takes a dataset"),
    ]
    for arguments, sentence in refusals:
        with pytest.raises(UsageError, match=sentence):
            fedcli.sweep(data=noisy, work=work, rounds=1, **arguments)


def test_scores_and_reports_are_tables_in_percent_and_frames_say_their_unit(results):
    work, *_, swept = results
    scores = fedcli.evaluate("fedheal", by=["sex"], work=work)
    assert "FedHEAL" in repr(scores)
    assert "female" in repr(scores)
    assert str(scores) == str(scores.path)
    frame = scores.to_frame()
    percent = scores.to_frame(percent=True)
    assert set(frame.unit) == {"share"}
    assert set(percent.unit) == {"%"}
    expected = pytest.approx(100 * frame.mean_last5[0])
    assert percent.mean_last5[0] == expected
    report = fedcli.report(swept.scores, work=work)
    assert str(report) == repr(report)
    assert "FedAvg" in str(report)
    assert "PosixPath" not in str(report)
    assert report.to_frame().attrs["unit"] == "share"
    in_percent = report.to_frame(percent=True)
    expected = pytest.approx(100 * report.to_frame()["clean balanced_accuracy"][0])
    assert in_percent["clean balanced_accuracy"][0] == expected
    assert list(in_percent.runs) == [1, 1]
    assert "<table>" in report._repr_html_()


def test_the_numbers_of_a_figure_as_csv_have_names_as_text_and_gaps_as_nothing():
    lines = [("=cmd|calc", 1.5, np.nan, 3, True), ("-1", 2.0, np.inf, None, False)]
    frame = DataFrame(lines, columns=["group", "value", "low", "n", "+front"])
    frame["n"] = frame["n"].astype("Int64")
    content = Plot(find("forest"), frame).content(".csv").decode()
    assert content.splitlines() == [
        "group,value,low,n,'+front",
        "'=cmd|calc,1.5,,3,True",
        "-1,2.0,inf,,False",
    ]


def test_severities_of_a_run_are_those_of_its_newest_fitting_scores(results):
    work, *_, swept = results
    run = swept.scores[0].parents[2]
    with pytest.raises(FedcliError, match="has no scores by severity and site"):
        fedcli.plot("severities", run, by="site", work=work)
    for severity, options in (("1", {}), ("2", {}), ("3", {"interval": "bca"})):
        fedcli.evaluate(run, corrupt=["gaussian"], severity=[severity], by=["site"], **options)
    frame = fedcli.plot("severities", run, by="site", work=work).frame
    assert set(frame["severity"]) == {0, 2}  # the intervals of 3 are of another kind
    assert "north" in set(frame["group"])


def test_a_figure_shows_itself_and_is_written_where_it_is_asked_for(results, tmp_path):
    work, *_, _swept = results
    plot = fedcli.plot("curves", "fedavg", work=work, series=["loss"])
    assert len(plot.to_frame()) == 4
    assert "FedAvg" in repr(plot)
    assert plot._repr_html_().startswith("<img alt=")
    picture = plot.save(tmp_path / "a.svg")
    assert picture.stat().st_size > 1000
    assert plot.save(picture) == picture  # it is as fedcli wrote it
    assert plot.save(tmp_path / "a.csv").read_text().count("\n") == 5
    with pytest.raises(UsageError, match="is no picture that fedcli draws"):
        plot.save(tmp_path / "a.txt")
    picture.write_text("a drawing of mine")
    with pytest.raises(FedcliError, match="is not as fedcli wrote it") as refused:
        plot.save(picture)
    assert refused.value.hint == "give another name, or force=True to replace it"
    assert picture.read_text() == "a drawing of mine"
    plot.save(picture, force=True)
    assert picture.stat().st_size > 1000
    for arguments, sentence in (
        (("curvs",), "there is no figure 'curvs'"),
        (("curves", "fedavg"), "has no option 'serie'"),
    ):
        with pytest.raises(UsageError, match=sentence):
            fedcli.plot(*arguments, work=work, serie="loss")


def test_what_is_under_a_work_folder_is_listed(results):
    work, *_ = results
    listed = fedcli.ls(work)
    assert list(listed.to_frame().method) == ["FedAvg", "FedHEAL"]
    assert "phantom" in repr(listed)
    assert listed._repr_html_().count("<table>") == 4


def test_a_notebook_gets_the_tables_of_the_page_with_names_escaped():
    html = markup.fragment([ReportTable.of("", ["a<b"], [["<script>"]], "why")], ["x & y"])
    assert "<script>" not in html
    assert "a&lt;b" in html
    assert "<figcaption>why</figcaption>" in html
    assert "<p>x &amp; y</p>" in html


@pytest.mark.parametrize(
    ("before", "expected"), [("", True), ("import logging; logging.basicConfig()", False)]
)
def test_progress_is_shown_where_a_person_looks_on_unless_the_program_logs(before, expected):
    code = f"""
{before}
import sys
from pathlib import Path
from fedcli import console
class Screen:
    __module__ = "ipykernel.iostream"
    def write(self, text): print(repr(text))
    def flush(self): ...
    def isatty(self): return False
sys.stderr = Screen()
with console.watched():
    console.say("prepared")
    list(console.progress([1, 2], label="rounds", total=2))
console.say("silent")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ("prepared" in done.stdout and "rounds 2/2" in done.stdout) is expected
    assert "silent" not in done.stdout


def test_a_room_and_a_function_have_different_names():
    import fedcli.comparison.tested as tested

    assert fedcli.comparison.tested is tested
    assert fedcli.compare.__name__ == "compare"
    assert "Args:" in fedcli.compare.__doc__
    rooms = {folder.parent.name for folder in Path(fedcli.__file__).parent.glob("*/__init__.py")}
    assert not rooms & set(fedcli.__all__)
