"""The runs that report, compare and plot are given: where they are looked for, and what is left out."""

import shutil

import pytest

import fedcli
from fedcli.errors import FedcliError, UsageError
from fedcli.scores.evaluation_options import EvaluateOptions
from fedcli.stages import collect


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A work folder with two finished runs of one round, without scores."""
    work = tmp_path_factory.mktemp("collected")
    dataset = fedcli.prepare("toy", size=8, sample_images=60, work=work)
    clients = fedcli.partition(dataset, iid=True, clients=2, work=work)
    for method in ("fedavg", "fedprox"):
        fedcli.train(method, clients, rounds=1, name=method, work=work)
    return work


@pytest.fixture
def work(trained, tmp_path):
    """A copy of the work folder, which a test may damage."""
    folder = tmp_path / "work"
    shutil.copytree(trained, folder)
    return folder


def run_path(work, name):
    return work / "runs" / name / "run.json"


def names(paths):
    return [path.parent.name for path in paths]


def break_link(work, name):
    """The manifest of a run as a link that leads nowhere."""
    path = run_path(work, name)
    path.unlink()
    path.symlink_to(work / "gone.json")


def test_every_finished_run_of_a_work_folder_is_found(work):
    assert sorted(names(collect.every_run(work))) == ["fedavg", "fedprox"]


def test_without_any_run_the_next_step_is_said(tmp_path):
    with pytest.raises(FedcliError) as refusal:
        collect.every_run(tmp_path)
    assert "fedcli train" in refusal.value.hint


@pytest.mark.parametrize("folder", [".", "runs"])
def test_a_work_folder_and_its_folder_of_runs_hold_the_same(work, folder):
    assert names(collect.runs_in(work / folder)) == ["fedavg", "fedprox"]


def test_the_folder_of_a_run_is_that_run(work):
    folder = work / "runs" / "fedavg"
    assert collect.runs_in(folder) == [folder]


def test_a_file_is_left_for_whoever_reads_it(work):
    path = run_path(work, "fedavg")
    assert collect.runs_in(path) == [path]


@pytest.mark.parametrize("file", ["run.json", "scores.json", "settings.json"])
def test_a_folder_with_a_manifest_or_settings_is_one_thing(tmp_path, file):
    (tmp_path / file).write_text("{}")
    assert collect.runs_in(tmp_path) == [tmp_path]


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(FedcliError) as refusal:
        collect.runs_in(tmp_path)
    assert refusal.value.sentence == f"{tmp_path} holds no finished run"
    assert refusal.value.hint == "give a run's folder, or a folder of runs"


def test_a_run_whose_manifest_leads_nowhere_is_left_out_with_a_warning(work, caplog):
    break_link(work, "fedavg")
    assert names(collect.every_run(work)) == ["fedprox"]
    assert f"left out {run_path(work, 'fedavg').parent}: " in caplog.text


def test_scores_are_made_once_and_the_second_time_found(work):
    path = run_path(work, "fedavg")
    first, was_there = collect.scores_of(path, EvaluateOptions())
    assert not was_there
    again, is_there = collect.scores_of(path.parent, EvaluateOptions())
    assert is_there
    assert again == first


def test_scores_are_taken_as_they_are(work):
    scores, _ = collect.scores_of(run_path(work, "fedavg"), EvaluateOptions())
    for source in (scores, scores.parent):
        assert collect.scores_of(source, EvaluateOptions()) == (scores, False)


def test_a_run_that_is_given_twice_is_scored_once(work, caplog):
    caplog.set_level("INFO", "fedcli")
    path = run_path(work, "fedavg")
    other_spelling = path.parent / ".." / path.parent.name
    paths = [path, path, path.parent, other_spelling]
    scores = collect.scores_of_all(paths, EvaluateOptions())
    assert len(scores) == 1
    assert "already" not in caplog.text


def test_runs_that_have_scores_are_counted_and_one_is_named(work, caplog):
    caplog.set_level("INFO", "fedcli")
    paths = [run_path(work, name) for name in ("fedavg", "fedprox")]
    first, _ = collect.scores_of_all(paths, EvaluateOptions())
    caplog.clear()
    collect.scores_of_all(paths[:1], EvaluateOptions())
    assert f"already made: {first.parent}" in caplog.text
    collect.scores_of_all(paths, EvaluateOptions())
    assert "2 runs have been evaluated already" in caplog.text


def test_a_mistake_about_the_second_run_is_met_before_the_first_is_evaluated(work):
    paths = [run_path(work, name) for name in ("fedavg", "fedprox")]
    with pytest.raises(UsageError, match="no attribute 'sx'"):
        collect.scores_of_all(paths, EvaluateOptions(by=["sx"]))
    assert not list(work.glob("runs/*/scores"))


def test_thresholds_of_a_whole_folder_are_refused_once(work):
    with pytest.raises(UsageError, match="--shots"):
        collect.scores_under(work, EvaluateOptions(shots="many"))


def test_a_run_without_data_is_left_out_of_a_folder_and_refused_by_itself(work, caplog):
    fedprox = run_path(work, "fedprox")
    for partition in work.glob("partitions/*/partition.json"):
        partition.unlink()
    with pytest.raises(FedcliError):
        collect.scores_under(work, EvaluateOptions())
    with pytest.raises(FedcliError):
        collect.scores_of_all([fedprox], EvaluateOptions())
    assert "left out" in caplog.text  # the first of the two; the last one is the error


def test_a_damaged_run_is_left_out_of_its_folder(work, caplog):
    run_path(work, "fedavg").write_text("{")
    paths = collect.scores_under(work, EvaluateOptions())
    assert [path.parents[2].name for path in paths] == ["fedprox"]
    assert f"left out {run_path(work, 'fedavg').parent}: " in caplog.text


@pytest.mark.parametrize("name", ["scores.csv", "scores.json"])
@pytest.mark.parametrize("content", ["{", None])
def test_lost_or_damaged_scores_of_a_whole_run_are_made_again(work, caplog, name, content):
    caplog.set_level("INFO", "fedcli")
    path = run_path(work, "fedavg")
    scores, _ = collect.scores_of(path, EvaluateOptions())
    before = scores.read_bytes()
    if content is None:
        (scores.parent / name).unlink()
    else:
        (scores.parent / name).write_text(content)
    assert collect.scores_of(path, EvaluateOptions()) == (scores, False)
    assert scores.read_bytes() == before
    assert "making it again" in caplog.text
    assert "left out" not in caplog.text


def test_scores_of_another_format_stay(work):
    scores, _ = collect.scores_of(run_path(work, "fedavg"), EvaluateOptions())
    text = scores.read_text().replace('"format": 1', '"format": 2')
    scores.write_text(text)
    with pytest.raises(FedcliError, match="has manifest format 2"):
        collect.scores_of(run_path(work, "fedavg"), EvaluateOptions())
    assert scores.read_text() == text
