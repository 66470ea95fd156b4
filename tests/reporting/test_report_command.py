"""fedcli report, on runs that were trained and on scores that lie there."""

import csv
import io
import json
import subprocess
import sys

import pytest
import session
from conftest import make_chain
from made_plans import planned, train
from made_scores import scores
from nested_scores import body_of, staged
from report_tables import table_cells

from fedcli.data import manifest
from fedcli.errors import FedcliError, HashError
from fedcli.federation.client import Training
from fedcli.reporting import timing
from fedcli.reporting.rows import rows
from fedcli.reporting.tables import render
from fedcli.scores import table as written_scores
from fedcli.scores.evaluate import evaluate


def test_changed_scores_and_other_manifests_are_refused(tmp_path):
    path = scores(tmp_path / "a")
    with pytest.raises(FedcliError, match="no such manifest"):
        rows([tmp_path / "nowhere.json"])
    partition = make_chain(tmp_path)
    with pytest.raises(FedcliError, match="is a partition manifest"):
        rows([partition])
    child = staged(tmp_path / "b", body_of(path), parents=[partition])
    (partition.parent / "rows.h5").write_bytes(b"")
    with pytest.raises(HashError, match=r"rows.h5"):
        rows([path, child])


@pytest.mark.parametrize("figure", ["curves", "histograms", "convergence"])
def test_a_picture_is_not_drawn_of_a_run_whose_images_were_changed(tmp_path, figure):
    plan = planned("fedavg", {}, Training(batch_size=8), 1)
    run = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    pool = next(tmp_path.rglob("pool.h5"))
    damaged = bytearray(pool.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    pool.write_bytes(damaged)
    result = session.run(f"fedcli plot {figure} {run} --out {tmp_path}/a.png")
    assert "pool.h5 is not the file" in result
    assert not (tmp_path / "a.png").exists()


def test_two_trained_runs_are_compared(tmp_path):
    data = make_chain(tmp_path, corrupted=True)
    paths = []
    for seed in (0, 1):
        plan = planned("fedavg", {}, Training(batch_size=10, lr=0.01), rounds=2, seed=seed)
        run = train(data, plan, work=tmp_path, out=None)
        paths.append(evaluate(run))
    table = rows(paths)
    assert [row.name for row in table] == ["FedAvg (seed=0)", "FedAvg (seed=1)"]
    for version in ("clean", "corrupted"):
        stored = body_of(paths[1])["versions"][version]["auc_ovo_macro"]
        assert table[1].cells[f"{version} auc_ovo_macro"].mean == stored["mean_last5"]
    columns, _lines = table_cells(table)
    versions = ("clean", "corrupted", "average")
    metrics = ("balanced_accuracy", "auc_ovo_macro")
    expected = [
        *(f"{version} {metric} (%)" for version in versions for metric in metrics),
        "std among clients auc_ovo_macro (%)",
        "sex ES-AUC (auc_ovo_macro) (%)",
        "sex worst group auc_ovo_macro (%)",
        "sex gap auc_ovo_macro (%)",
    ]
    assert columns[2:] == expected


def test_scores_that_lie_there_are_told_in_one_line(tmp_path):
    for seed in (0, 1):
        plan = planned("fedavg", {}, Training(batch_size=8), 1, seed=seed)
        data = make_chain(tmp_path / str(seed))
        train(data, plan, work=tmp_path, out=tmp_path / "runs" / str(seed))
    assert "already made" not in session.run(f"fedcli report --work {tmp_path}")
    again = session.run(f"fedcli report --work {tmp_path}")
    assert again.count("already") == 1
    assert "2 runs have been evaluated already\n" in again
    scores = next(tmp_path.glob("runs/0/scores/*/scores.json")).parent
    lock = scores.with_name(
        f".{scores.name}.0123abcd.lock"
    )  # of a process that was killed when it had made them
    lock.touch()
    session.run(f"fedcli report --work {tmp_path}")
    assert not lock.exists()


def test_a_run_that_cannot_be_evaluated_is_left_out_of_a_report_with_a_warning(tmp_path):
    for name in ("a", "b"):
        data = make_chain(tmp_path / name)
        plan = planned("fedavg", {}, Training(batch_size=8), 1)
        train(data, plan, work=tmp_path, out=tmp_path / "runs" / name)
    path = tmp_path / "runs" / "a" / "run.json"
    edited = path.read_text().replace('"method": "fedavg"', '"method": "of-tomorrow"')
    manifest.write_text(path, edited)
    printed = session.run(f"fedcli report --work {tmp_path}")
    assert f"warning: left out {path.parent}: " in printed
    assert "of-tomorrow" in printed
    rows_shown = [line for line in printed.splitlines() if line.startswith(" FedAvg ")]
    assert len(rows_shown) == len(("all scores", "groups by sex"))
    (tmp_path / "runs" / "b" / "run.json").unlink()
    assert "error: unknown method 'of-tomorrow'" in session.run(f"fedcli report --work {tmp_path}")


def test_a_run_whose_scores_cannot_be_read_is_left_out_of_a_report_of_all(tmp_path, monkeypatch):
    runs = [tmp_path / "runs" / name for name in ("a", "b")]
    for run in runs:
        plan = planned("fedavg", {}, Training(batch_size=8), 1)
        train(make_chain(tmp_path / run.name), plan, work=tmp_path, out=run)
    with monkeypatch.context() as earlier:  # as a version wrote it that took nan for a score
        earlier.setattr(written_scores, "_text", lambda value: "nan")
        session.run(f"fedcli evaluate {runs[0]}")
    printed = session.run(f"fedcli report --work {tmp_path}")
    assert f"warning: left out {runs[0]}: " in printed
    assert "'nan' is no score" in printed
    assert [line for line in printed.splitlines() if line.startswith(" FedAvg ")]
    result = session.run(f"fedcli report {runs[0]}")
    assert "'nan' is no score" in result


def test_a_run_whose_manifest_is_a_broken_link_is_named(tmp_path):
    for name in ("a", "b"):
        data = make_chain(tmp_path / name)
        plan = planned("fedavg", {}, Training(batch_size=8), 1)
        train(data, plan, work=tmp_path, out=tmp_path / "runs" / name)
    path = tmp_path / "runs" / "b" / "run.json"
    path.unlink()
    path.symlink_to("elsewhere.json")
    why = f"{path} is a link to elsewhere.json, which is not there"
    runs = tmp_path / "runs"
    cases = (
        f"report --work {tmp_path}",
        f"report {runs}",
        f"plot sweep --over lr --work {tmp_path}",
        f"ls --work {tmp_path}",
    )
    for line in cases:
        warning = f"warning: left out {path.parent}: {why}\n"
        assert warning in session.run(f"fedcli {line}"), line
    of_the_run = [
        f"report {path.parent}",
        f"report {path}",
        f"evaluate {path.parent}",
        f"inspect {path}",
    ]
    for line in of_the_run:
        assert f"error: {why}\n" in session.run(f"fedcli {line}"), line
    (runs / "a" / "run.json").unlink()
    assert f"error: {why}\n" in session.run(f"fedcli report --work {tmp_path}")


def test_the_command_writes_any_format_to_a_file_and_refuses_a_place_in_a_run(tmp_path):
    path = scores(tmp_path / "a", gap=None)
    out = tmp_path / "tables" / "table.tex"
    result = session.run(f"fedcli report {path} --format latex --out {out}")
    assert result == f"{out}\n"
    assert out.read_text() == render(rows([path]), "latex")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text("{}")
    assert "- is no file" in session.run(f"fedcli report {path} --format csv --out -")
    outcome = session.run(f"fedcli report {path} --format html --out {tmp_path}/run/page.html")
    assert "sealed" in outcome
    for flag in ("--figures", "--card", "--evidence"):
        result = session.run(f"fedcli report {path} {flag} {tmp_path}/run")
        assert "sealed" in result
        result = session.run(f"fedcli report {path} {flag} {out}")
        assert f"{out} is a file" in result
    assert "is not one of last5, last, best" in session.run(f"fedcli report {path} --at lst5")


def test_minutes_are_the_linesof_each_round_once(tmp_path):
    plan = planned("fedavg", {}, Training(batch_size=8), 2)
    run = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    path = evaluate(run)
    lines = [{"round": 1, "seconds": 60}, {"round": 1, "seconds": 30}, {"round": 2, "seconds": 60}]
    timing_path = run.parent / "timing.jsonl"
    timing_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    columns, (line,) = table_cells(rows([path], minutes=True))
    result = (columns[-1], line[-1])
    assert result == ("minutes", "1.50")
    assert "minutes" not in table_cells(rows([path]))[0]
    assert timing.of_runs([path]) == timing.ClockTimes(1.5, None, None, None, None, None)
    clocks = {"evaluation_seconds": 10, "images_per_second": 8, "peak_bytes": 5}
    later = [line | clocks for line in lines]
    slow = {"round": 2, "seconds": 30, "images_per_second": 2, "peak_bytes": 9}
    later.append(clocks | slow)
    text = "".join(json.dumps(line) + "\n" for line in later)
    timing_path.write_text(text + '{"round": 3, "sec')
    expected = timing.ClockTimes(1, 5, 1 / 3, 9, None, None)
    assert timing.of_runs([path]) == expected
    text = render(rows([path], minutes=True), "csv")
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["minutes"] == "1.00"


def test_the_command_also_writes_all_numbers_in_long_form(tmp_path):
    plan = planned("fedavg", {}, Training(batch_size=8), 1)
    run = train(make_chain(tmp_path), plan, work=tmp_path, out=None)
    out = tmp_path / "long.csv"
    result = session.run(f"fedcli report {run} --export {out}")
    assert "FedAvg" in result
    lines = list(csv.DictReader(io.StringIO(out.read_text())))
    (gap,) = [
        line
        for line in lines
        if (
            line["metric"],
            line["measure"],
            line["version"],
            line["attribute"],
            line["client"],
            line["statistic"],
        )
        == ("accuracy", "gap", "clean", "sex", "", "last")
    ]
    assert 0 <= float(gap["value"]) <= 1
    assert gap["method"] == "fedavg"
    assert len(lines) > 200


def test_a_report_of_scores_that_lie_there_loads_no_network_and_draws_nothing(tmp_path):
    paths = [scores(tmp_path / "a"), scores(tmp_path / "b", auc=0.8)]
    words = ["fedcli", "report", *map(str, paths), "--quiet"]
    line = f"import sys; from fedcli.commands.app import app; sys.argv = {words!r}; app(standalone_mode=False); "
    line += (
        "sys.exit(' '.join({'torch', 'matplotlib', 'pandas', 'jinja2'} & set(sys.modules)) or None)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert "FedAvg" in ended.stdout


def test_a_metric_of_ones_own_without_any_number_is_said(tmp_path):
    metric_file = tmp_path / "own.py"
    metric_file.write_text("def nothing(probabilities, labels, groups):\n    return None\n")
    plan = planned("fedavg", {}, Training(batch_size=8), 1)
    run = train(make_chain(tmp_path), plan, work=tmp_path, out=tmp_path / "runs" / "a")
    result = session.run(f"fedcli report {run} --metric {metric_file}:nothing")
    assert "has no number for any run" in result
