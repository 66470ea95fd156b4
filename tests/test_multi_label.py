"""docs/multi-label.md, carried out as it stands, and what its commands write; a small file of the real layout."""

import csv
import json
import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import h5py
import numpy as np
import published_schema
import pytest
from nested_scores import body_of

from fedcli.commands.app import app
from fedcli.data import last_used, manifest
from fedcli.data.pool import read_pool
from fedcli.data.sources import medmnist as sample
from fedcli.metrics import LABELS, PARITY, names
from fedcli.scores.predictions import to_csv

TEXT = (Path(__file__).parent.parent / "docs" / "multi-label.md").read_text(encoding="utf-8")
LINES = re.search(r"```sh\n(.*?)```", TEXT, re.S)[1].splitlines()


def run(line):
    """The exit code of a command line; names with a star are those of the files, as in a shell."""
    words = [
        str(path)
        for word in shlex.split(line)[1:]
        for path in (sorted(Path().glob(word)) or [word])
    ]
    with pytest.raises(SystemExit) as ended:
        app(words, prog_name="fedcli")
    return ended.value.code


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Where the page's commands have run, and what each of them printed."""
    folder = tmp_path_factory.mktemp("session")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        printed = {}
        for line in LINES:
            with redirect_stdout(StringIO()) as out:
                assert run(line) == 0, line
            printed[line] = out.getvalue()
    return folder, printed


def scores_of(folder, method):
    return body_of(next(folder.glob(f"fedcli-work/runs/{method}-*/scores/*/scores.json")))


def test_every_report_shows_the_scores_of_several_labels(session):
    folder, printed = session
    table = next(text for line, text in printed.items() if line == "fedcli report --by sex")
    assert "AUC" in table
    assert "FedHEAL" in table
    assert "auc_ovo_macro" not in table
    assert "worst" in table
    result = next(text for line, text in printed.items() if "auc of label" in line)
    assert "effusion" in result
    compared = next(text for line, text in printed.items() if line.startswith("fedcli compare"))
    assert " AUC" in compared
    assert "gap by sex" in compared
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "Each label between groups by sex" in page
    assert "verage precision of each label" in page


def test_scores_json_holds_all_labels_each_label_and_groups(session):
    assert not published_schema.errors(
        next(session[0].glob("fedcli-work/runs/fedheal-*/scores/*/scores.json"))
    )
    body = scores_of(session[0], "fedheal")
    assert set(names(LABELS, headline=True)) <= body["versions"]["clean"].keys()
    assert body["shots"] is None
    assert (
        body["intervals"]["clean"]["auc_macro"]["low"]
        <= body["versions"]["clean"]["auc_macro"]["last"]
    )
    labels = body["labels"]["clean"]
    assert labels.keys() == set(body["classes"])
    assert len(labels) == 14
    aucs = [label["auc"]["last"] for label in labels.values() if label["auc"]["last"] is not None]
    expected = pytest.approx(np.mean(aucs))
    assert body["versions"]["clean"]["auc_macro"]["last"] == expected
    outcome = labels["effusion"]["groups"]["sex"]["differences"].keys()
    assert outcome == set(PARITY)
    outcome = body["groups"]["sex"]["clean"]["last_round"]["between"]["auc_macro"]["gap"]
    assert outcome >= 0
    lines = (session[0] / "fedcli-work").glob("runs/fedheal-*/rounds.jsonl")
    result = json.loads(next(lines).read_text().splitlines()[-1])["test"]["clean"].keys()
    assert result == set(names(LABELS, headline=True))


def test_predictions_carry_every_label(session, monkeypatch):
    monkeypatch.chdir(session[0])
    scores = next(Path().glob("fedcli-work/runs/fedavg-*/scores/*/scores.json"))
    with h5py.File(scores.parent / "predictions.h5") as file:
        assert file["y"].dtype == np.uint8
        assert file["y"].shape == file["logits/clean/2"].shape
        y = file["y"][()]
        logits = file["logits/clean/2"][()]
    (table,) = to_csv(scores)
    row = next(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    result = [int(row[f"label_{k}"]) for k in range(14)]
    assert result == y[0].tolist()
    expected = pytest.approx(1 / (1 + np.exp(-float(logits[0, 3]))))
    assert float(row["prob_3"]) == expected


def test_what_there_is_not_is_refused_in_a_sentence(session, monkeypatch, capsys):
    monkeypatch.chdir(session[0])
    for line, sentence in (
        ("fedcli train ldam", "ldam needs one label per image"),
        (
            "fedcli evaluate fedcli-work/runs/fedavg-* --shots 10,5",
            "--shots is about the recall of classes",
        ),
        ("fedcli plot features fedcli-work/runs/fedavg-*", "features are shown by class"),
        (
            "fedcli site describe --client client-00 --out site.json",
            "sites count one class per image",
        ),
        ("fedcli report --metric accuracy", "the scores have no metric 'accuracy'"),
    ):
        code = run(line)
        err = capsys.readouterr().err
        assert code in (1, 2), line
        assert sentence in err, line
        assert "unexpected" not in err, line


def test_a_file_of_the_real_layout_is_prepared_and_divided(tmp_path, monkeypatch):
    """The file has the layout that MedMNIST publishes: images uint8 [N, 28, 28], labels [N, 14] of 0 and 1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sample, "SEVERAL", {"train": 20, "val": 4, "test": 8})
    sample.sample_of_several(tmp_path / "raw")
    arrays = dict(np.load(tmp_path / "raw" / "chestmnist.npz"))
    assert arrays["train_labels"].shape == (20, 14)
    assert arrays["train_images"].dtype == np.uint8
    assert run("fedcli prepare chestmnist --raw raw --attributes raw/attributes.csv") == 0
    pool = read_pool(next(tmp_path.glob("fedcli-work/datasets/*/pool.h5")))
    assert pool.y.dtype == np.uint8
    assert pool.split.sum() == 8
    assert np.array_equal(
        pool.y, np.concatenate([arrays[f"{part}_labels"] for part in ("train", "val", "test")])
    )
    body = manifest.read(next(tmp_path.glob("fedcli-work/datasets/*/dataset.json"))).body
    assert body["task"] == "multi-label"
    assert body["classes"][13] == "hernia"
    assert set(body["attributes"]) == {"sex", "age"}
    for scheme in ("--dirichlet 1", "--iid", "--shards 2", "--by sex"):
        assert (
            run(f"fedcli partition {scheme} {'' if 'by' in scheme else '--clients 2'} --val 0.2")
            == 0
        )
        body_of_partition = manifest.read(
            last_used.newest(tmp_path / "fedcli-work", "partition")
        ).body
        counts = sum(np.array(client["class_counts"]) for client in body_of_partition["roster"])
        assert body_of_partition["task"] == "multi-label"
        assert (counts <= pool.y[pool.split == 0].sum(0)).all()


@pytest.fixture(scope="module")
def fundus(tmp_path_factory):
    """A work folder with a run on made-up photographs of both eyes, by sex, whose clients keep models of their own."""
    folder = tmp_path_factory.mktemp("fundus")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in (
            "fedcli prepare odir --sample --size 8",
            "fedcli partition --by sex --val 0.2",
            "fedcli train fedavg --rounds 1 --personal",
            "fedcli prepare toy --size 8 --work digits",
        ):
            assert run(line) == 0, line
    return folder


RUN, PHOTOGRAPHS = "fedcli-work/runs/fedavg-*", "fedcli-work/samples/*/ODIR-5K/ODIR-5K/*/7_*.jpg"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"fedcli evaluate {RUN} --cross-site", "Trained at and tested on: AUC, mean over labels"),
        (f"fedcli evaluate {RUN} --clinical --positive glaucoma --rule youden", "glaucoma, "),
        (f"fedcli evaluate {RUN} --on fedcli-work/datasets/*/dataset.json", "AUC"),
        (
            f"fedcli evaluate {RUN} --on digits/datasets/*/dataset.json --map-classes map.csv",
            "do not both have one",
        ),
        (f"fedcli predict {RUN} {PHOTOGRAPHS}", "prob_age-related macular degeneration"),
        (
            f"fedcli export model {RUN} --format safetensors --out model",
            "checked against fedcli predict",
        ),
        (f"fedcli plot convergence {RUN} --out lines.svg", "lines.svg"),
        ("fedcli train fedprox --over mu=0.1,1 --rounds 1", "validation AUC, mean over"),
    ],
    ids=lambda text: (
        text.split()[1] + text.partition("--")[2].partition(" ")[0]
        if text.startswith("fedcli")
        else ""
    ),
)
def test_every_command_takes_several_labels_or_says_why_not(
    line, expected, fundus, monkeypatch, capsys
):
    monkeypatch.chdir(fundus)
    Path("map.csv").write_text(
        "theirs,ours\n" + "".join(f"{digit},glaucoma\n" for digit in range(10))
    )
    code = run(line)
    output = "".join(capsys.readouterr())
    assert code == ("digits" in line)
    assert expected in output
    assert "unexpected" not in output
    assert "Agreement" not in output


def test_the_other_datasets_of_the_page_are_prepared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^fedcli prepare (?:odir|chexpert).*--sample.*$", TEXT, re.M):
        assert run(f"{line} --size 8") == 0, line
    bodies = [
        manifest.read(path).body
        for path in sorted(Path().glob("fedcli-work/datasets/*/dataset.json"))
    ]
    result = [(body["name"], body["task"], len(body["classes"])) for body in bodies]
    assert result == [
        ("chexpert", "multi-label", 14),
        ("odir", "multi-label", 8),
    ]
