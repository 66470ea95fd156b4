"""A stage as Python calls it: its signature, its words, its mistakes, and what it may read."""

import inspect
from collections.abc import Sequence
from pathlib import Path

import pytest

import fedcli
from fedcli.errors import FedcliError, UsageError
from fedcli.stages import call
from fedcli.stages.options import STAGES, PartitionOptions
from fedcli.stages.results import Run, Scores


@pytest.mark.parametrize(
    ("stage", "form"),
    [
        (fedcli.train, "fedcli.train(method, data, epochs=...)"),
        (fedcli.predict, "fedcli.predict(run, [files, ...], client=...)"),
        (fedcli.compare, "fedcli.compare([runs, ...], metric=...)"),
        (fedcli.prepare, "fedcli.prepare(name, raw=...)"),
    ],
)
def test_a_wrong_call_is_told_how_it_is_called(stage, form):
    with pytest.raises(TypeError) as refusal:
        stage(no_such_argument=1)
    fault, correct_form = str(refusal.value).split("; call it as ")
    assert fault.startswith(f"fedcli.{stage.__name__}() ")
    assert correct_form == form


def test_too_many_arguments_are_told_so_too():
    with pytest.raises(TypeError, match=r"^fedcli.partition\(\) too many positional arguments"):
        fedcli.partition("a", "b", "c")


@pytest.mark.parametrize("name", STAGES)
def test_help_has_a_line_for_each_option_and_code(name):
    stage = getattr(fedcli, name, None)
    if stage is None:
        pytest.skip("no stage of Python")
    options = STAGES[name]
    names = [option.name for option in options.declared()]
    words = inspect.getdoc(stage).split("Args:")[1]
    assert [line.split(":")[0].strip() for line in words.strip().splitlines()] == [*names, "code"]
    assert list(inspect.signature(stage).parameters)[-1] == "code"


def test_the_signature_says_what_comes_back():
    signature = inspect.signature(fedcli.partition)
    assert signature.return_annotation.__name__ == "Partition"
    assert signature.parameters["seed"].default == 0
    assert signature.parameters["seed"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.parameters["code"].annotation == Sequence[call.Source]


def test_texts_within_lists_and_tables_may_name_code():
    values = ["a.py:f", Path("b.py"), ["c.py", 3], {"key": "d.py", "other": None}, b"no text"]
    assert list(call._texts(values)) == ["a.py:f", "b.py", "c.py", "d.py"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("one", ["one"]), (["a", "b"], ["a", "b"]), (("a",), ["a"]), (Path("p"), [Path("p")])],
)
def test_one_value_is_a_list_of_one(value, expected):
    assert call.listed(value) == expected


def test_an_empty_path_is_refused():
    with pytest.raises(UsageError) as refusal:
        call.source("", "work", "dataset")
    assert refusal.value.sentence == "the path of the manifest is empty"
    assert refusal.value.hint == "leave it out to use the newest under --work"


def test_the_place_of_a_result_has_the_command_without_places():
    options = PartitionOptions("d.json", iid=True, clients=3, work="here", out="there")
    place = call.destination(options, always=("val",))
    assert place.work == Path("here")
    assert place.out == Path("there")
    assert place.made_by == ["partition", "--iid", "--clients", "3", "--val", "0.0"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Two finished runs of one round, of which the later is FedProx's."""
    work = tmp_path_factory.mktemp("calls")
    dataset = fedcli.prepare("toy", size=8, sample_images=120, work=work)
    clients = fedcli.partition(dataset, iid=True, clients=2, work=work)
    for method in ("fedavg", "fedprox"):
        fedcli.train(method, clients, rounds=1, name=method, work=work)
    return work


def test_without_a_path_the_newest_is_used_and_named(work, caplog):
    caplog.set_level("INFO", "fedcli")
    path = call.source(None, work, "run")
    assert path.parent.name == "fedprox"
    assert f"using {path}" in caplog.text


def test_a_run_is_named_by_its_folder_and_a_folder_by_its_manifest(work):
    path = work / "runs" / "fedavg" / "run.json"
    assert call.source("fedavg", work, "run") == path
    assert call.source(path.parent, work, "run") == path


def test_an_unfinished_run_that_began_later_is_warned_of(work, monkeypatch, caplog):
    settings = work / "runs" / "later" / "settings.json"
    monkeypatch.setattr(call.last_used, "unfinished", lambda runs: [settings])
    monkeypatch.setattr(call.last_used, "age", lambda path: path == settings)
    call.source(None, work, "run")
    folder = settings.parent
    assert (
        f"{folder} has not finished and is left out; "
        f"go on with: fedcli train --resume --out {folder}"
    ) in caplog.text


def test_an_unfinished_run_that_began_earlier_is_not(work, monkeypatch, caplog):
    settings = work / "runs" / "earlier" / "settings.json"
    monkeypatch.setattr(call.last_used, "unfinished", lambda runs: [settings])
    monkeypatch.setattr(call.last_used, "age", lambda path: path != settings)
    call.source(None, work, "run")
    assert "has not finished" not in caplog.text


def test_a_result_is_a_path_and_is_found_by_its_folder(work):
    result = Run.at(work / "runs" / "fedavg")
    assert str(result) == str(work / "runs" / "fedavg" / "run.json")
    with pytest.raises(FedcliError, match=r"run\.json"):
        _ = Scores.at(work / "runs" / "fedavg" / "run.json").body


def test_a_manifest_that_is_changed_is_not_another_s(work):
    result = Run.at(work / "runs" / "fedavg")
    result.manifest.body["label"] = "changed"
    assert result.body["label"] == "FedAvg"


def test_the_frame_of_a_run_has_a_row_for_each_client_and_round(work):
    frame = Run.at(work / "runs" / "fedavg").to_frame()
    assert frame.client.tolist() == ["client-00", "client-01"]
    assert frame["round"].tolist() == [1, 1]
    assert frame.weight.sum() == pytest.approx(1)
    assert (frame.loss > 0).all()


@pytest.fixture(scope="module")
def scores(work):
    return fedcli.evaluate(work / "runs" / "fedavg", work=work)


def test_the_frame_of_scores_has_a_mean_and_a_last_number_in_one_unit(scores):
    frame = scores.to_frame()
    percent = scores.to_frame(percent=True)
    whole = frame[(frame.client == "") & (frame.metric == "accuracy")]
    assert whole.version.tolist() == ["clean"]
    assert whole["last"].tolist() == whole.mean_last5.tolist()  # of one round
    assert percent["last"].tolist() == pytest.approx((100 * frame["last"]).tolist(), nan_ok=True)
    assert set(frame.unit) == {"share"}
    assert set(percent.unit) == {"%"}


def test_the_body_of_scores_has_the_numbers_of_the_frame(scores):
    frame = scores.to_frame()
    whole = frame[(frame.client == "") & (frame.metric == "accuracy")]
    assert scores.body["versions"]["clean"]["accuracy"]["last"] == whole["last"].item()


def test_a_result_shows_where_it_is(scores):
    assert scores.words() == [f"Scores: {scores.path}"]
    assert repr(scores).endswith(f"Scores: {scores.path}")


def test_a_plot_has_its_numbers_and_is_an_image_in_a_notebook(work, tmp_path):
    figure = fedcli.plot("curves", [work / "runs" / "fedavg"], series=["loss"])
    assert figure.to_frame() is figure.frame
    assert repr(figure).splitlines()[0] == figure.frame.attrs.get("title", "curves")
    page = figure._repr_html_()
    assert page.startswith('<img alt="')
    assert 'src="data:image/png;base64,iVBOR' in page
    path = figure.save(tmp_path / "loss.svg")
    assert path.read_text(encoding="utf-8").startswith("<?xml")
