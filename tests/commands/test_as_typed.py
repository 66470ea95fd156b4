"""The three commands of the README as they stand, in an empty folder and with real slices; synthetic samples marked."""

import csv
import json
import os
from pathlib import Path

import pytest
from nested_scores import body_of
from typer.testing import CliRunner

import fedcli
from fedcli.commands.app import app
from fedcli.data import sources
from fedcli.errors import FedcliError, UsageError

ROOT = Path(__file__).parent.parent.parent
LINES = (
    "fedcli prepare rsna-ich --corrupt gaussian --ratio 0.2",
    "fedcli train fedheal",
    "fedcli evaluate --by race",
)
REAL = Path(os.environ.get("FEDCLI_REAL_DATA", "")) / "ct_head" / "GE"


def run(line: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, line.split()[1:])
    return done.exit_code, done.stdout.strip(), " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def typed(tmp_path_factory) -> dict[str, tuple[int, str, str]]:
    """Exit code and output of each of the three lines, in a folder that was empty before; two rounds in place of all."""
    folder = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("FEDCLI_RAW", raising=False)
        shorter = {LINES[1]: f"{LINES[1]} --rounds 2"}
        return {line: run(shorter.get(line, line)) for line in LINES} | {"folder": folder}  # type: ignore[dict-item]


def test_the_lines_are_those_of_the_readme():
    result = "\n".join(f"    {line}" for line in LINES)
    assert result in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_three_lines_end_well_in_an_empty_folder(typed):
    for line in LINES:
        assert typed[line][0] == 0, typed[line]
    _, _, err = typed[LINES[0]]
    assert err.startswith("warning: no files of rsna-ich")
    for words in (
        "FEDCLI_RAW is not set",
        "raw/rsna-ich",
        "kaggle.com",
        "non-commercial",
        "--raw DIR",
    ):
        assert words in err, words
    assert "partition: 20 clients, Dirichlet(1)" in err


def test_every_manifest_path_and_table_made_from_a_sample_says_so(typed):
    paths = sorted((typed["folder"] / "fedcli-work").rglob("*.json"))
    kinds = {
        path.stem: json.loads(path.read_text())
        for path in paths
        if path.stem not in ("settings", "originals")
    }
    assert set(kinds) == {"dataset", "partition", "corruption", "run", "scores"}
    for kind, content in kinds.items():
        assert content["body"]["sample"] is True, kind
    for line in LINES:
        assert "SYNTHETIC" in typed[line][1]
    assert "FedHEAL, SYNTHETIC data" in typed[LINES[1]][2]
    _, above, printed = typed[LINES[2]][2].partition(
        "rsna-ich (SYNTHETIC sample, not of patients)"
    )  # once, in no name
    assert above
    assert "SYNTHETIC" not in printed
    scores = body_of(next(path for path in paths if path.stem == "scores"))
    assert scores["groups"].keys() == {"race"}
    groups = scores["groups"]["race"]["clean"]["last_round"]["groups"]
    assert groups.keys() == {"asian", "black", "white"}
    for group in groups.values():
        assert group["count"] >= 30


def test_reports_and_pages_of_a_sample_say_synthetic_in_every_format(typed):
    run_of_sample = Path(typed["folder"]) / typed[LINES[1]][1]
    report = fedcli.report([run_of_sample])
    for format in ("markdown", "latex", "csv", "json", "html"):
        assert "SYNTHETIC" in report.to(format), format
    code, _, err = run(f"fedcli report {run_of_sample}")
    assert code == 0
    assert "numbers say nothing about patients" in err


def test_real_slices_are_taken_from_fedcli_raw_and_race_ends_in_a_sentence(tmp_path, monkeypatch):
    if not REAL.is_dir():
        pytest.skip("no real CT slices on this machine")
    _kaggle(tmp_path / "files" / "rsna-ich")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDCLI_RAW", str(tmp_path / "files"))
    code, out, err = run(LINES[0])
    assert code == 0
    assert "SYNTHETIC" not in out + err
    assert f"raw folder of rsna-ich: {tmp_path}/files/rsna-ich" in err
    assert "clients, not 20" in err
    assert run(LINES[1] + " --rounds 1")[0] == 0
    code, _, err = run(LINES[2])
    assert code == 2
    assert "rsna-ich has no attribute 'race'" in err
    assert "fairfedmed-slo" in err
    assert "--attributes FILE" in err


def _kaggle(folder: Path) -> None:
    """The real slices in Kaggle's layout, with labels in turn."""
    subtypes = ["epidural", "intraparenchymal", "intraventricular", "subarachnoid", "subdural"]
    (folder / "stage_2_train").mkdir(parents=True)
    lines = [["ID", "Label"]]
    for i, slice_path in enumerate(sorted(REAL.glob("*.dcm"))):
        (folder / "stage_2_train" / f"ID_{i:09x}.dcm").symlink_to(slice_path)
        lines += [[f"ID_{i:09x}_{name}", str(int(k == i % 5))] for k, name in enumerate(subtypes)]
    with (folder / "stage_2_train.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)


def test_a_raw_folder_is_looked_for_in_this_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDCLI_RAW", raising=False)
    sources.make_sample("medmnist", tmp_path / "medmnist")
    sources.make_sample("medmnist", tmp_path / "raw" / "medmnist")
    sources.make_sample("medmnist", tmp_path / "all" / "medmnist")
    line = "fedcli prepare medmnist --size 8"
    assert "raw folder of medmnist: raw/medmnist" in run(line)[2]
    monkeypatch.setenv("FEDCLI_RAW", "all")
    assert "raw folder of medmnist: all/medmnist" in run(line)[2]
    code, out, err = run(f"{line} --raw medmnist")
    assert code == 0
    assert "raw folder of" not in err  # known by the file in its folder
    assert "SYNTHETIC" in out


def test_a_raw_folder_may_have_another_of_the_datasets_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDCLI_RAW", "files")
    code, _, err = run("fedcli prepare HAM10000")
    assert code == 2
    assert "looked in files/isic2018, raw/isic2018 and isic2018 (a folder called ham10000" in err
    (tmp_path / "isic2018").write_text("a file is no folder", encoding="utf-8")
    assert run("fedcli prepare isic2018")[::2] == (code, err)
    sources.make_sample("isic2018", tmp_path / "HAM10000")
    for name in ("HAM10000", "isic2018"):
        code, _, err = run(f"fedcli prepare {name} --size 8")
        assert code == 0
        assert "raw folder of isic2018: HAM10000" in err


@pytest.mark.parametrize("set_variable", [True, False])
def test_no_sample_and_a_variable_without_the_folder_end_with_an_error(
    tmp_path, monkeypatch, set_variable
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDCLI_RAW", raising=False)
    if set_variable:
        monkeypatch.setenv("FEDCLI_RAW", "files")
    code, out, err = run("fedcli prepare isic2018" + ("" if set_variable else " --no-sample"))
    assert code == 2
    assert not out
    assert "isic2018 needs the folder of its files: looked in" in err
    assert "--raw DIR" in err
    assert "exclude each other" in run("fedcli prepare isic2018 --sample --raw files")[2]


def test_a_sample_that_was_asked_for_needs_no_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("fedcli prepare messidor2 --sample --size 8")
    assert code == 0
    assert "warning" not in err
    assert "SYNTHETIC" in out


def test_ones_own_images_have_no_sample_in_their_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDCLI_RAW", raising=False)
    assert "images needs the folder of its files" in run("fedcli prepare images")[2]


def test_sample_and_real_data_are_not_compared(tmp_path):
    real, synthetic = (tmp_path / name for name in ("real", "synthetic"))
    for folder in (real, synthetic):
        sources.make_sample("medmnist", folder)
    (real / sources.SAMPLE_MARK).unlink()
    runs = []
    for folder in (real, synthetic):
        data = fedcli.partition(
            fedcli.prepare("medmnist", raw=folder, size=8, work=tmp_path), work=tmp_path
        )
        runs.append(fedcli.train("fedavg", data, rounds=1, work=tmp_path))
    cases = (
        f"compare {runs[0]} {runs[1]}",
        f"report {runs[0]} {runs[1]}",
        f"report --format html --work {tmp_path}",
    )
    for line in cases:
        code, out, err = run(f"fedcli {line}")
        assert code == 2, line
        assert not out, line
        assert "SYNTHETIC sample and others on real data" in err, line
    assert not (tmp_path / "report.html").exists()


def test_a_recipe_does_not_mix_samples_and_real_data(tmp_path):
    raw = sources.make_sample("office-caltech", tmp_path / "raw")
    (raw / sources.SAMPLE_MARK).unlink()
    line = f"fedcli reproduce fedheal-table5 --scale smoke --raw office-caltech={raw} --work {tmp_path}/work"
    code, _, err = run(line)
    assert code == 2
    assert (
        "cannot hold both: office-caltech would be real data and digits a SYNTHETIC sample" in err
    )


def test_default_clients_all_have_images_and_a_number_that_was_asked_for_is_kept(tmp_path):
    raw = sources.make_sample("rsna-ich", tmp_path / "raw")
    data = fedcli.prepare("rsna-ich", raw=raw, size=8, work=tmp_path)
    clients = fedcli.partition(data, work=tmp_path)
    assert 1 < len(clients.body["roster"]) < 20
    assert min(client["train"] for client in clients.body["roster"]) > 0
    with pytest.raises(FedcliError, match="gets no training images"):
        fedcli.partition(data, dirichlet=1.0, clients=20, work=tmp_path)
    with pytest.raises(UsageError, match="scheme"):
        fedcli.partition(data, set={"alpha": 1}, work=tmp_path)
