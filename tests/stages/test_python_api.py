"""fedcli as a notebook uses it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import forked
import pytest

import fedcli
from fedcli.errors import UsageError
from fedcli.stages.call import called_with
from fedcli.stages.options import PrepareOptions
from fedcli.stages.results import Dataset, Partition, Run, Scores

DOCS = Path(__file__).parents[2] / "docs"
ASKED = """
sexes = scores[(scores.attribute == "sex") & (scores.metric == "balanced_accuracy") & (scores.version == "clean")]
print(run.body["settings"]["tau"], sorted(sexes.group), len(run.to_frame()))
"""


def run_cells(page, last_lines, folder):
    """Run the Python cells of a page, and further lines, in a folder."""
    parts = (DOCS / page).read_text(encoding="utf-8").split("```python")[1:]
    cells = "".join(part.split("```")[0] for part in parts)
    return forked.run(lambda: exec(cells + last_lines, {"__name__": "__main__"}), folder)


@pytest.mark.long
def test_the_guides_notebook_goes_from_images_to_scores(tmp_path):
    done = run_cells("python.md", ASKED, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("0.4 ['female', 'male'] 8\n")  # two rounds of four sites
    assert "FedHEAL" in done.stdout
    assert (tmp_path / "loss.svg").is_file()


@pytest.mark.long
def test_the_cells_of_the_notebook_run_one_after_another(tmp_path):
    last_line = (
        "print(len(swept.scores), list(table.runs), set(scores.unit), 'FedHEAL' in repr(swept))"
    )
    done = run_cells("notebook.md", last_line, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4 [2, 2] {'share'} True\n"
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_predictions_are_a_frame_whose_columns_name_the_classes(results):
    work, dataset, _, run = results
    frame = fedcli.predictions(run, work=work)
    classes = dataset.body["classes"]
    chances = frame[[f"prob_{name}" for name in classes]]
    assert set(frame.label) <= set(classes)
    assert chances.sum(axis=1).round(6).eq(1).all()
    assert frame.columns[0] == "id"
    assert set(dataset.body["attributes"]) <= set(frame.columns)
    assert frame.equals(fedcli.predictions(work=work))
    with pytest.raises(UsageError, match="no version 'corupted'"):
        fedcli.predictions(run, version="corupted", work=work)


def test_importing_fedcli_is_cheap():
    code = "import sys, fedcli; print({'torch', 'pandas', 'rich', 'numpy', 'h5py', 'typer'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_all_that_is_offered_is_there_and_explains_its_arguments():
    for name in fedcli.__all__:
        stage = getattr(fedcli, name)
        assert stage.__name__ == name
        assert "Args:" in stage.__doc__
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        fedcli.trian  # noqa: B018


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """toy, divided between two clients and trained for three rounds."""
    work = tmp_path_factory.mktemp("work")
    dataset = fedcli.prepare("toy", size=8, work=work)
    clients = fedcli.partition(dataset, iid=True, clients=2, work=work)
    return work, dataset, clients, fedcli.train("fedavg", clients, rounds=3, work=work)


def test_a_result_is_a_path_with_its_manifest(results):
    work, dataset, clients, run = results
    outcome = [type(result) for result in (dataset, clients, run)]
    assert outcome == [Dataset, Partition, Run]
    assert os.fspath(run) == str(run.path)
    assert Path(run).name == "run.json"
    assert run.manifest.made_by[:2] == ["train", "fedavg"]
    assert run.body["rounds"] == 3
    assert len(clients.body["roster"]) == 2
    assert Run.at(run.path.parent) == run
    again = fedcli.train("fedavg", clients, rounds=3, work=work)
    assert again == run


def test_a_run_as_a_frame_has_a_row_for_each_round_and_client(results):
    *_, run = results
    frame = run.to_frame()
    assert list(frame.columns[:4]) == ["round", "client", "weight", "loss"]
    result = frame.groupby("round").weight.sum().tolist()
    assert result == pytest.approx([1, 1, 1])
    record = (run.path.parent / "rounds.jsonl").read_text()
    lines = [json.loads(line) for line in record.splitlines()]
    expected = [loss for line in lines for loss in line["loss"]]
    assert frame.loss.tolist() == expected


def test_scores_as_a_frame_are_the_numbers_of_scores_json(results):
    work, *_, run = results
    scores = fedcli.evaluate(run, work=work)
    assert isinstance(scores, Scores)
    frame = scores.to_frame()
    overall = frame.query("client == '' and attribute == '' and metric == 'balanced_accuracy'")
    statistics = ["last", "mean_last5", "std_last5"]
    over_rounds = scores.body["versions"]["clean"]["balanced_accuracy"]
    expected = ["clean", *(over_rounds[name] for name in statistics)]
    result = overall[["version", *statistics]].values.tolist()
    assert result == [expected]
    assert set(frame.client) == {"", *scores.body["clients"]}


def test_a_report_is_a_row_per_system_in_every_format(results):
    work, _, clients, run = results
    other = fedcli.train("fedprox", clients, rounds=3, work=work)
    again = fedcli.train("fedavg", clients, rounds=3, seed=1, work=work)
    report = fedcli.report([run, again, other], metric=["f1_macro"], bytes=True, work=work)
    frame = report.to_frame()
    expected = [["paper", 2], ["paper", 1]]
    assert frame[["rule", "runs"]].values.tolist() == expected
    assert frame.method.tolist() == [row.name for row in report.rows]
    means = []
    for seed in (run, again):
        versions = fedcli.evaluate(seed, work=work).body["versions"]
        means.append(versions["clean"]["f1_macro"]["mean_last5"])
    expected = pytest.approx(sum(means) / 2)
    assert frame["clean f1_macro"][0] == expected
    assert list(frame.columns) == [
        "method",
        "rule",
        "runs",
        "clean f1_macro",
        "clean f1_macro std",
        "bytes down",
        "bytes up",
    ]
    row = json.loads(report.to("json"))["rows"][1]
    assert row["cells"]["clean f1_macro"]["mean"] == frame["clean f1_macro"][1]
    assert "| method |" in report.to("markdown")
    assert "toprule" in report.to("latex")
    assert report.to("html").startswith("<!doctype html>")
    assert len(fedcli.report(run).rows) == 1
    result = len(fedcli.report(separate=True, work=work).rows)
    assert result == 3


def test_a_report_refuses_what_it_does_not_know(results):
    work, *_, run = results
    with pytest.raises(fedcli.FedcliError, match="--at='first' is not one of last5, last, best"):
        fedcli.report(run, at="first", work=work)
    with pytest.raises(UsageError, match="unknown report format 'markdwn'"):
        fedcli.report(run, work=work).to("markdwn")


def test_an_estimate_takes_the_arguments_of_train_and_writes_nothing(results):
    work, _, clients, _ = results
    before = sorted(work.rglob("*"))
    assert fedcli.estimate("fedavg", clients, rounds=50, work=work).rounds == 50
    assert sorted(work.rglob("*")) == before


def test_what_cannot_be_is_said_in_python_as_in_the_shell(results):
    work, _, clients, _ = results
    with pytest.raises(UsageError, match="momentum needs the optimizer sgd") as error:
        fedcli.train("fedavg", clients, momentum=0.9, work=work)
    assert "with --over add --optimizer sgd" in error.value.hint
    with pytest.raises(UsageError, match="--iid and --shards exclude each other"):
        fedcli.partition(results[1], iid=True, shards=2, work=work)


def test_an_unknown_argument_names_the_function_it_was_given_to():
    with pytest.raises(
        TypeError, match=r"fedcli\.prepare\(\) got an unexpected keyword argument 'sizes'"
    ):
        fedcli.prepare("toy", sizes=16)
    with pytest.raises(
        TypeError, match=r"positional arguments; call it as fedcli\.compare\(\[runs, \.\.\.\], "
    ):
        fedcli.compare("a", "b")


def test_a_result_in_a_text_is_its_path(results):
    assert f"{results[1]}" == os.fspath(results[1])


def test_a_notebook_completes_the_stages_before_they_are_imported():
    code = "import fedcli; print(set(fedcli.__all__) <= set(dir(fedcli)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_a_stage_whose_docstring_was_stripped_can_be_called():
    """Docstrings are absent, as under python -OO."""

    def run(options: PrepareOptions) -> Dataset: ...

    assert "raw:" in called_with("prepare", PrepareOptions, run).__doc__
