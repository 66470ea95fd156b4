"""The command line as a person and as a pipeline meet it."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import h5py
import pytest
from conftest import make_chain
from typed_lines import fedcli, path_of

from fedcli.commands.app import app
from fedcli.federation.server import Federation


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """toy, staged by hand through the command line: dataset, partition, corruption, run, scores."""
    work = tmp_path_factory.mktemp("work")
    where = ["--work", work, "--quiet"]
    stages = {"work": work, "where": where}
    stages["dataset"] = path_of(
        fedcli("prepare", "toy", "--size", 12, "--sample-images", 400, *where)
    )
    stages["partition"] = path_of(
        fedcli("partition", stages["dataset"], "--dirichlet", "1.0", "--clients", "4", *where)
    )
    stages["corruption"] = path_of(
        fedcli("corrupt", "gaussian", stages["partition"], "--ratio", "0.25", *where)
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedcli.federation.engines.pool.cores", lambda: 1)  # no fork, see below
        stages["run"] = path_of(
            fedcli(
                "train", "fedheal", stages["corruption"], "--rounds", "2", "--lr", "0.003", *where
            )
        )
    stages["scores"] = path_of(fedcli("evaluate", stages["run"], *where))
    return stages


def test_every_stage_prints_one_line_that_the_next_reads(chain):
    result = [
        chain[k].rpartition("/")[2] for k in ("dataset", "partition", "corruption", "run", "scores")
    ]
    assert result == [
        "dataset.json",
        "partition.json",
        "corruption.json",
        "run.json",
        "scores.json",
    ]


def test_without_a_path_the_newest_is_taken_and_named(chain):
    code, out, err = fedcli("evaluate", "--work", chain["work"])
    assert code == 0
    assert f"using {chain['run']}" in err
    assert out.strip() == chain["scores"]


def test_a_dash_reads_the_path_from_stdin(chain):
    assert (
        path_of(fedcli("evaluate", "-", *chain["where"], stdin=chain["run"] + "\n"))
        == chain["scores"]
    )
    code, _, err = fedcli("evaluate", "-", *chain["where"])
    assert code == 2
    assert "stdin holds no path" in err


def test_json_is_for_machines(chain):
    _, out, _ = fedcli("evaluate", chain["run"], "--json=full", *chain["where"])
    written = json.loads(out)
    assert written["path"] == chain["scores"]
    assert written["manifest"]["kind"] == "scores"
    _, out, _ = fedcli("methods", "--json")
    assert {m["name"] for m in json.loads(out)} >= {"fedavg", "fedheal", "fedism-plus"}
    _, out, _ = fedcli("datasets", "phantom", "--json")
    assert set(json.loads(out)["attributes"]) == {"sex", "race", "age", "site"}
    _, out, _ = fedcli("inspect", chain["corruption"], "--json")
    assert json.loads(out)["hashes"] == "verified"


def test_json_of_a_stage_is_short_and_full_has_the_whole_manifest(chain):
    words = ["corrupt", "gaussian", chain["partition"], "--ratio", "0.25", *chain["where"]]
    short, full = (json.loads(fedcli(*words, word)[1]) for word in ("--json", "--json=full"))
    assert short["path"] == full["path"] == chain["corruption"]
    assert short["warnings"] == full["warnings"]
    assert full["manifest"] == json.loads(Path(chain["corruption"]).read_text())
    body = full["manifest"]["body"]
    assert short["clients"] == 4
    assert short["train"] == sum(client["train"] for client in body["roster"])
    assert short["noisy"] == body["clients"]
    assert "test" not in short
    assert "manifest" not in short
    words = [
        "train",
        "fedheal",
        chain["corruption"],
        "--rounds",
        "2",
        "--lr",
        "0.003",
        *chain["where"],
        "--json",
    ]
    written = json.loads(fedcli(*words)[1])
    result = (written["method"], written["rounds"], written["clients"], written["path"])
    assert result == (
        "fedheal",
        2,
        4,
        chain["run"],
    )


def test_quiet_leaves_stderr_empty(chain):
    assert (
        fedcli("partition", chain["dataset"], "--iid", "--clients", "3", *chain["where"])[2] == ""
    )


def test_a_dataset_given_to_train_is_partitioned_first(chain):
    code, _out, err = fedcli(
        "train", "fedavg", chain["dataset"], "--rounds", "1", "--work", chain["work"]
    )
    assert code == 0
    assert "partition: 8 clients, Dirichlet(1)" in err


def test_prepare_can_partition_and_corrupt_in_one_go(tmp_path):
    path = path_of(
        fedcli(
            "prepare",
            "phantom",
            "--size",
            "32",
            "--corrupt",
            "motion-blur",
            "--ratio",
            "0.2",
            "--work",
            tmp_path,
            "--quiet",
        )
    )
    manifest = json.loads(Path(path).read_text())
    assert manifest["kind"] == "corruption"
    assert len(manifest["body"]["clients"]) == 1
    assert len(manifest["body"]["roster"]) == 4


def test_report_prints_one_line_per_run_in_every_format(chain):
    _, out, _ = fedcli("report", chain["run"], chain["scores"], *chain["where"])
    assert " FedHEAL " in out
    assert "balanced accuracy" in out
    _, markdown, _ = fedcli("report", chain["run"], "--format", "markdown", *chain["where"])
    assert "| FedHEAL |" in markdown
    _, csv, _ = fedcli("report", chain["run"], "--format", "csv", *chain["where"])
    assert csv.splitlines()[1].startswith("FedHEAL,")
    _, text, _ = fedcli("report", chain["run"], "--json", *chain["where"])
    json.loads(text)


def test_report_evaluates_a_run_that_has_no_scores(tmp_path):
    run = path_of(
        fedcli(
            "train", "fedavg", make_chain(tmp_path), "--rounds", "1", "--work", tmp_path, "--quiet"
        )
    )
    code, out, _ = fedcli(
        "report", run.rpartition("/")[0], "--by", "sex", "--work", tmp_path, "--quiet"
    )
    assert code == 0
    assert "sex" in out


def test_inspect_calls_no_file_verified_whose_numbers_lie_outside_of_it(chain, tmp_path):
    folder = tmp_path / "work"
    shutil.copytree(chain["work"], folder)
    path = folder / Path(chain["corruption"]).relative_to(chain["work"])
    with h5py.File(path.parent / "changed.h5", "r+") as file:
        names = []
        file.visititems(
            lambda name, data: names.append(name) if isinstance(data, h5py.Dataset) else None
        )
        name = names[0]
        data = file[name][()]
        (tmp_path / "outside").write_bytes(data.tobytes())
        del file[name]
        file.create_dataset(
            name, data.shape, data.dtype, external=[(str(tmp_path / "outside"), 0, data.nbytes)]
        )
    body = json.loads(path.read_text())
    body["files"]["changed.h5"] = hashlib.sha256(
        (path.parent / "changed.h5").read_bytes()
    ).hexdigest()
    path.write_text(json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    code, _, err = fedcli("inspect", path)
    assert code == 1
    assert "lie outside of the file" in err


def test_inspect_shows_shards_and_unfinished_runs(chain, tmp_path, monkeypatch):
    _, out, _ = fedcli("inspect", chain["dataset"].replace("dataset.json", "pool.h5"))
    assert "x: uint8 [400, 12, 12, 1]" in out
    monkeypatch.setattr(Federation, "play", stop)
    code, _, err = fedcli(
        "train",
        "fedavg",
        chain["partition"],
        "--rounds",
        "2",
        "--out",
        tmp_path / "run",
        *chain["where"],
    )
    assert code == 130
    assert f"fedcli train --resume --out {tmp_path / 'run'}" in err
    monkeypatch.undo()
    _, out, _ = fedcli("inspect", tmp_path / "run")
    assert "unfinished run" in out
    assert "--resume" in out
    result = path_of(fedcli("train", "--resume", "--out", tmp_path / "run", *chain["where"]))
    assert result == str(tmp_path / "run" / "run.json")


def stop(*_, **__):
    raise KeyboardInterrupt


def test_a_changed_byte_exits_with_3(chain, tmp_path):
    work = tmp_path / "w"
    pool = path_of(fedcli("prepare", "toy", "--work", work, "--quiet")).replace(
        "dataset.json", "pool.h5"
    )
    with open(pool, "r+b") as file:
        file.seek(5000)
        file.write(b"\x99\x98\x97")
    for command in (("partition",), ("inspect",), ("train", "fedavg")):
        code, out, err = fedcli(*command, "--work", work)
        assert code == 3
        assert "sha256 differs" in err
        assert out == ""


ERRORS = {
    "an unknown method": (
        ("train", "fedhael", "{corruption}"),
        2,
        "unknown method 'fedhael'",
        "did you mean 'fedheal'",
    ),
    "an unknown option of a method": (
        ("train", "fedheal", "{corruption}", "--set", "taus=1"),
        2,
        "no option 'taus'",
        "did you mean 'tau'",
    ),
    "an option that is no pair": (
        ("train", "fedheal", "{corruption}", "--set", "tau"),
        2,
        "not key=value",
        "--set",
    ),
    "an option given twice": (
        ("train", "fedheal", "{corruption}", "--set", "tau=0.1", "--set", "tau=0.2"),
        2,
        "given twice",
        "once",
    ),
    "an unknown flag": (("train", "fedheal", "--round", "3"), 2, "--round", "--rounds"),
    "an unknown dataset": (("prepare", "toi"), 2, "toi", "toy"),
    "an unknown corruption": (("corrupt", "gausian", "{partition}"), 2, "gausian", "gaussian"),
    "an unknown client": (
        ("corrupt", "gaussian", "{partition}", "--on", "client-99"),
        2,
        "client-99",
        "client-0",
    ),
    "an unknown attribute to divide by": (
        ("partition", "{dataset}", "--by", "sex"),
        2,
        "no attribute 'sex'",
        "known",
    ),
    "an unknown attribute to score by": (("evaluate", "{run}", "--by", "race"), 2, "race", ""),
    "two schemes": (
        ("partition", "{dataset}", "--iid", "--shards", "2"),
        2,
        "exclude each other",
        "one of them",
    ),
    "more clients than images": (
        ("partition", "{dataset}", "--iid", "--clients", "5000"),
        1,
        "5000",
        "fewer",
    ),
    "a missing folder": (
        ("prepare", "isic2018", "--raw", "/no/such/folder"),
        1,
        "/no/such/folder",
        "",
    ),
    "a missing --raw": (("prepare", "isic2018", "--no-sample"), 2, "--raw", "--raw"),
    "a missing manifest": (("evaluate", "/no/run.json"), 1, "/no/run.json", "lists what there is"),
    "the wrong kind of manifest": (("evaluate", "{dataset}"), 1, "is a dataset manifest", "path"),
    "a model too deep for the images": (
        ("train", "fedavg", "{corruption}", "--model", "resnet18"),
        1,
        "at least 32 pixels",
        "--size",
    ),
    "a learning rate of zero": (
        ("train", "fedavg", "{corruption}", "--lr", "0"),
        2,
        "--lr",
        "default",
    ),
    "momentum for adam": (
        ("train", "fedavg", "{corruption}", "--optimizer", "momentum=0.9"),
        2,
        "momentum",
        "sgd",
    ),
    "an unknown optimizer": (
        ("train", "fedavg", "{corruption}", "--optimizer", "adagrad"),
        2,
        "adagrad",
        "adam",
    ),
    "an unknown format": (("report", "{scores}", "--format", "markdwn"), 2, "markdwn", "markdown"),
    "a number in another spelling": (
        ("partition", "{dataset}", "--clients", "1e0"),
        2,
        "--clients='1e0' is not a",
        "--clients 1",
    ),
    "an estimate over sites": (
        ("train", "fedavg", "--sites", "x.json", "--dry-run"),
        2,
        "at their sites",
        "leave --dry-run",
    ),
    "scripts of one run": (
        ("train", "fedavg", "--dry-run=scripts"),
        2,
        "of the runs of --over",
        "--dry-run alone",
    ),
    "test scores of no values": (("train", "fedavg", "--test"), 2, "values of --over", "leave it"),
    "a recipe's script as JSON": (
        ("reproduce", "mnist-usps", "--dry-run", "--json"),
        2,
        "exclude",
        "one of them",
    ),
    "no method": (("train",), 2, "which method", "fedcli methods"),
    "a device that cannot compute the weights": (
        ("train", "fedavg", "{corruption}", "--device", "mps"),
        2,
        "no 64-bit floats",
        "train on the CPU",
    ),
    "cuda where there is none": (
        ("train", "fedavg", "{corruption}", "--device", "cuda"),
        1,
        "cuda",
        "CPU",
    ),
    "an update that is not finite": (
        ("train", "fedavg", "{corruption}", "--optimizer", "sgd", "--lr", "1e30"),
        1,
        "not finite",
        "lower --lr",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_sentence_a_hint_and_a_code(case, chain, tmp_path):
    import torch

    if case.startswith("cuda") and torch.cuda.is_available():
        return
    words, code, sentence, hint = ERRORS[case]
    words = [word.format(**chain) if word.startswith("{") else word for word in words]
    outcome, out, err = fedcli(*words, "--work", tmp_path, "--quiet")
    assert (outcome, out) == (code, "")
    assert sentence in err
    assert hint in err
    assert "Traceback" not in err


def test_debug_shows_the_traceback(chain):
    _, _, err = fedcli("evaluate", "/no/run.json", "--debug")
    assert "Traceback" in err
    assert "no such manifest" in err


def test_no_space_left_is_said_as_such(chain, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "pool.h5")

    monkeypatch.setattr("fedcli.data.manifest.flushing", full)
    code, _, err = fedcli("prepare", "toy", "--work", tmp_path / "w", "--quiet")
    assert code == 1
    assert "no space left on the device while writing pool.h5" in err
    assert not list((tmp_path / "w" / "datasets").iterdir())


@pytest.mark.long
def test_train_and_evaluate_need_none_of_the_packages_of_prepare(chain, tmp_path):
    """On a machine with only torch, torchvision, h5py, numpy, scikit-learn and typer."""
    absent = (
        "pandas",
        "pydicom",
        "albumentations",
        "imagecorruptions",
        "cv2",
        "skimage",
        "matplotlib",
    )
    lines = f"train fedism-plus {chain['corruption']} --rounds 1 --quiet", "evaluate --quiet"

    script = (
        f"import sys\nsys.modules.update(dict.fromkeys({absent}))\nfrom fedcli.commands.app import app\n"
        f"for line in {lines}: app(line.split(), standalone_mode=False)"
    )
    # no fork: autograd works in none once an earlier test has started its threads
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("scores.json\n")


def test_a_page_is_made_without_torch(chain, tmp_path):
    def work():
        sys.modules["torch"] = None
        app(
            f"report {chain['run']} --format html --out {tmp_path}/page.html --quiet".split(),
            standalone_mode=False,
        )

    ended = forked.run(work, tmp_path, anew=True)
    assert ended.returncode == 0, ended.stderr
    assert "<html" in (tmp_path / "page.html").read_text("utf-8")


def test_a_shared_option_of_a_pair_needs_its_half(chain, tmp_path):
    code, _, err = fedcli(
        "train",
        "salt+fedheal",
        chain["corruption"],
        "--set",
        "tau=0.4",
        "--work",
        tmp_path,
        "--quiet",
    )
    assert code == 2
    assert "local.tau or server.tau" in err
    run = path_of(
        fedcli(
            "train",
            "salt+fedheal",
            chain["corruption"],
            "--rounds",
            "1",
            "--set",
            "server.tau=0.4",
            "--work",
            tmp_path,
            "--quiet",
        )
    )
    settings = json.loads(Path(run).read_text())["body"]["settings"]
    assert settings["server.tau"] == 0.4
    assert settings["local.tau"] == 0.5
    _, out, _ = fedcli("methods", "salt+fedheal")
    assert "local.tau" in out
    assert "server.tau" in out
    assert "2503.09587" in out
    assert "2405.16585" in out


def test_partitions_of_the_papers_and_of_files_by_their_flags(chain, tmp_path):
    cases = (
        (["--fedmrl", "1.0", "--clients", "4"], "fedmrl"),
        (["--fedmrl", "0.0", "--clients", "4"], "fedmrl"),
        (["--fedmrl", "authors", "--clients", "4"], "fedmrl-authors"),
    )
    for flags, scheme in cases:
        written = json.loads(
            Path(
                path_of(fedcli("partition", chain["dataset"], *flags, *chain["where"]))
            ).read_text()
        )
        assert written["body"]["scheme"] == scheme
        assert written["made_by"][1:] == flags
    who = tmp_path / "who.json"
    who.write_text(json.dumps({"a": [f"nobody-{k}" for k in range(20)]}))
    code, _, err = fedcli("partition", chain["dataset"], "--clients-file", who, *chain["where"])
    assert code == 1
    assert "names none of the 400 images" in err
    for words, sentence in (
        (
            ["--clients-file", who, "--clients", "3"],
            "--clients-file and --clients exclude each other",
        ),
        (["--order-file", who], "--order-file is about a file of clients"),
        (["--fedmrl", "1", "--dirichlet", "1"], "--dirichlet and --fedmrl are different schemes"),
        (["--iid", "--keep-units"], None),
    ):
        code, _, err = fedcli("partition", chain["dataset"], *words, *chain["where"])
        assert code == (2 if sentence else 1)
        assert (sentence or "does not say which patient") in err
