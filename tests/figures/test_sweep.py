import json
from dataclasses import replace

import numpy as np
import pytest
from nested_scores import over, scores_of
from run_folders import a_line, a_run
from whole_bodies import CLIENT, whole

from fedcli.commands import plot as module
from fedcli.data import manifest
from fedcli.errors import UsageError
from fedcli.figures import drawing
from fedcli.figures.kinds import FIGURES, sweep
from fedcli.figures.series import read
from fedcli.scores.parts import Chosen
from fedcli.scores.table import FILE, write
from fedcli.stages import collect

POINTS = [
    ("FedISM+", 2, 71.0, 0.7),
    ("FedISM+", 0.5, 69.0, 0.5),
    ("FedISM+", 1, None, None),
    ("q-FedAvg", 1, 66.0, 0.5),
    ("FedAvg", None, 65.0, 0.4),
    ("FedGA", None, None, None),
]


def a_system(folder, *, label="FedISM+", seed=0, rounds=(0.5, 0.7), lr=0.1, **settings):
    """A run and its scores."""
    options = {"seed": seed, "lr": lr, "settings": settings}
    lines = [a_line(1)]
    path = a_run(folder, lines, label=label, options=options)
    record = read(path)
    clean = {"balanced_accuracy": over(*rounds)}
    versions = {"clean": clean}
    description = {"label": label, "settings": settings, "options": options}
    body = {"versions": versions, **description}
    return record, scores_of(body)


def seal(record, scores):
    """The scores beside their run."""
    folder = record.folder / FILE
    write(folder, scores.table)
    manifest.seal(record.folder, manifest.Manifest("scores", [], {}, {}, {}, scores.facts()))


def gathered(*pairs, key="q", metric="balanced_accuracy", version="clean"):
    """(system, value, mean, std) of these runs."""
    sweep.check([record for record, _ in pairs], key)
    return list(sweep.points(pairs, key, metric, version, "").itertuples(index=False, name=None))


def drawn(points):
    return drawing.drawn(sweep.draw(sweep.of_points(points, "q", "Balanced accuracy (%)")))


def test_values_stand_in_order_with_a_tick_each_and_a_gap_where_there_is_no_score():
    figure = drawn(POINTS)
    (axes,) = figure.axes
    line = axes.lines[0]
    assert line.get_xdata().tolist() == [0.5, 1, 2]
    assert np.array_equal(line.get_ydata(), [69, np.nan, 71], equal_nan=True)
    result = [tick.get_text() for tick in axes.get_xticklabels()]
    assert result == ["0.5", "1", "2"]
    result = [text.get_text() for text in figure.legends[0].get_texts()]
    assert result == [
        "FedISM+",
        "q-FedAvg",
        "FedAvg",
    ]
    result = (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale())
    assert result == (
        "q",
        "Balanced accuracy (%)",
        "linear",
    )


SCALES = [([1, 20], "linear"), ([1, 21], "log"), ([0, 1, 900], "linear"), ([0, 1e-4, 1], "symlog")]


@pytest.mark.parametrize(("values", "scale"), SCALES)
def test_values_that_spread_far_stand_on_a_logarithmic_axis(values, scale):
    points = [("a", x, 1.0, None) for x in values]
    (axes,) = drawn(points).axes
    assert axes.get_xscale() == scale


def test_words_stand_in_the_order_given():
    points = [("a", "site", 1.0, None), ("a", "iid", 2.0, None), ("b", "iid", 3.0, 1.0)]
    (axes,) = drawn(points).axes
    result = [tick.get_text() for tick in axes.get_xticklabels()]
    assert result == ["site", "iid"]
    result = [line.get_xdata().tolist() for line in axes.lines[:2]]
    assert result == [[0, 1], [1]]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_points_give_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{k}{suffix}" for k in range(2)]
    for path in paths:
        drawing.write(sweep.draw(sweep.of_points(POINTS, "q", "Balanced accuracy (%)")), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_runs_that_differ_in_the_seed_are_one_point_and_one_without_the_option_is_a_line(tmp_path):
    folder = tmp_path / "a"
    first_seed = a_system(folder, q=2, seed=0, rounds=(0.5, 0.7))
    second_seed = a_system(tmp_path / "b", q=2, seed=1, rounds=(0.7, 0.9))
    another_q = a_system(tmp_path / "c", q=0.5, rounds=(0.4, 0.4))
    fedavg = a_system(tmp_path / "d", label="FedAvg", rounds=(0.3, 0.5))
    points = gathered(first_seed, second_seed, another_q, fedavg)
    spread = np.std([5, 7, 7, 9])
    expected = [
        ("FedISM+", 0.5, 40.0, 0.0),
        ("FedISM+", 2, pytest.approx(70.0), pytest.approx(10 * spread)),
        ("FedAvg", None, pytest.approx(40.0), pytest.approx(10.0)),
    ]
    assert points == expected


def test_runs_that_trained_otherwise_than_the_sweep_are_left_out_unless_they_are_given(
    tmp_path, monkeypatch, capsys
):
    runs = tmp_path / "runs"
    items = [a_system(runs / f"{q}{rho}", q=q, rho=rho) for q in (1, 2) for rho in (0.05, 0.1)]
    items.append(a_system(runs / "longer", q=2, rho=0.1, lr=0.3))
    items.append(a_system(runs / "other", label="FedAvg", lr=0.3))
    items += [a_system(runs / "plain", label="FedProx", mu=1)]
    records, _ = zip(*items, strict=True)
    alike, others = sweep.split(list(records), "q")
    assert len(alike) == 5
    assert others == ["FedISM+ (lr 0.3, rho=0.1)", "FedAvg (lr 0.3)"]
    for record, scores in items:
        seal(record, scores)
    monkeypatch.setattr(
        collect, "scores_of_all", lambda runs, *_: [run.parent / "scores.json" for run in runs]
    )
    options_of_figure = {"over": "q", "metric": "", "version": ""}
    module.draw(FIGURES["sweep"], [], options_of_figure, work=tmp_path, json=True)
    out, err = capsys.readouterr()
    systems = {line["system"]: line["value"] for line in json.loads(out)["frame"]}
    assert list(systems) == ["FedISM+ (rho=0.05)", "FedISM+ (rho=0.1)", "FedProx"]
    assert systems["FedProx"] is None
    assert "left out, as they trained otherwise" in err
    assert "FedAvg (lr 0.3)" in err
    folders = [str(record.folder) for record in records]
    module.draw(
        FIGURES["sweep"],
        folders,
        options_of_figure,
        work=tmp_path,
        json=True,
    )
    out, err = capsys.readouterr()
    result = len({line["system"] for line in json.loads(out)["frame"]})
    assert result == 5
    assert "warning: some runs trained otherwise" in err
    assert "more than q" in err


def test_a_score_without_meaning_is_no_point(tmp_path):
    folder = tmp_path / "a"
    with_a_gap = a_system(folder, q=1, rounds=(None, 0.5))
    other = a_system(tmp_path / "b", q=2)
    points, _ = gathered(with_a_gap, other)
    assert points[1] == 1
    assert np.isnan(points[2:]).all()


def test_an_option_of_the_data_can_be_swept_and_which_clients_a_ratio_takes_is_no_difference(
    tmp_path,
):
    from conftest import ROSTER

    pairs = []
    for count in (1, 2):
        roster = [{**CLIENT, "client": name} for name in ROSTER]
        body = {"ratio": count / 4, "roster": roster}
        options = {"clients": ROSTER[-count:], "seed": count, "severity": 3}
        folder = tmp_path / f"noise{count}"
        folder.mkdir()
        body = whole("corruption", body, folder)
        above = manifest.seal(folder, manifest.Manifest("corruption", [], options, {}, {}, body))
        record, scores = a_system(tmp_path / str(count), q=1)
        written = json.loads((record.folder / "run.json").read_text())
        written["parents"] = manifest.links(record.folder, [above])
        (record.folder / "run.json").write_text(json.dumps(written))
        pairs.append((read(record.folder), scores))
    result = [value for _, value, _, _ in gathered(*pairs, key="ratio")]
    assert result == [0.25, 0.5]
    with pytest.raises(UsageError, match="severity is 3 in all these runs"):
        gathered(*pairs, key="severity")


def test_where_all_runs_have_validation_images_their_scores_are_drawn(tmp_path):
    """And those of the test images where they are asked for."""
    items = [a_system(tmp_path / f"run{q}", q=q) for q in (1, 2)]
    (_, run_of_one), (_, run_of_two) = items
    best = Chosen(3, "balanced_accuracy", 0.8)
    of_one = replace(run_of_one, best=best)
    best = Chosen(3, "balanced_accuracy", 0.4)
    of_two = replace(run_of_two, best=best)
    runs = {str(number): record for number, (record, _) in enumerate(items)}

    def framed(scores, other_scores, **how):
        table = sweep.frame(
            runs, scores=lambda _: [scores, other_scores], runs_named=True, over="q", **how
        )
        return table["mean"].tolist(), table.attrs["score"]

    assert framed(of_one, of_two) == ([80, 40], "balanced accuracy,\nvalidation images (%)")
    result = framed(of_one, of_two, version="clean")[0]
    expected = pytest.approx([60, 60])
    assert result == expected
    result = framed(of_one, items[1][1])[0]
    expected = pytest.approx([60, 60])
    assert result == expected  # one has none
    with pytest.raises(UsageError, match="a run has no validation images"):
        framed(of_one, items[1][1], version="validation")
    with pytest.raises(UsageError, match="validation images have no score 'auc'"):
        framed(of_one, of_two, version="validation", metric="auc")


def values_drawn(records, scores_of, *, named=False, **how):
    """The values in the frame of a sweep that chose the first two of its runs."""
    runs = {}
    for record in records:
        runs[str(record.folder)] = record

    def scores(records):
        return [scores_of[record.folder] for record in records]

    def chosen(records):
        return records[:2]

    how |= {"scores": scores, "chosen": chosen, "runs_named": named}
    table = sweep.frame(runs, over="q", **how)
    return table["value"].tolist()


def test_values_that_were_not_chosen_are_drawn_on_validation_images_alone(tmp_path):
    best = Chosen(3, "balanced_accuracy", 0.8)
    records = []
    tested = {}
    validated = {}
    for q in (1, 2, 3):
        record, scores = a_system(tmp_path / f"run{q}", q=q)
        records.append(record)
        tested[record.folder] = scores
        validated[record.folder] = replace(scores, best=best)
    result = values_drawn(records, validated)
    assert result == [1, 2, 3]
    result = values_drawn(records, validated, version="validation")
    assert result == [1, 2, 3]
    result = values_drawn(records, tested)
    assert result == [1, 2]
    result = values_drawn(records, validated, version="clean")
    assert result == [1, 2]
    result = values_drawn(records, validated, metric="balanced_accuracy")
    assert result == [1, 2]
    result = values_drawn(records, validated, version="clean", named=True)
    assert result == [1, 2, 3]


def test_one_value_that_was_chosen_is_no_sweep_on_test_images(tmp_path):
    records = []
    tested = {}
    for seed, q in enumerate((1, 1, 2)):
        folder = tmp_path / f"run{seed}"
        record, scores = a_system(folder, q=q, seed=seed)
        records.append(record)
        tested[record.folder] = scores
    with pytest.raises(UsageError, match="q is 1 in all these runs"):
        values_drawn(records, tested)


def test_what_cannot_be_swept_is_told(tmp_path):
    folder = tmp_path / "a"
    pairs = [a_system(folder, q=1), a_system(tmp_path / "b", q=2)]
    with pytest.raises(UsageError, match="no run has an option 'ql'") as caught:
        gathered(*pairs, key="ql")
    assert caught.value.hint == "did you mean 'q'?"
    with pytest.raises(UsageError, match=r"lr is 0.1 in all"):
        gathered(*pairs, key="lr")
    with pytest.raises(UsageError, match="no score 'auc'"):
        gathered(*pairs, metric="auc")
    with pytest.raises(UsageError, match="no corrupted test images"):
        gathered(*pairs, version="corrupted")


def test_the_command_scores_runs_and_prints_points(tmp_path, monkeypatch, capsys):
    by_name = {q: a_system(tmp_path / f"run{q}", q=q) for q in (1, 2)}
    for record, scores in by_name.values():
        seal(record, scores)
    monkeypatch.setattr(
        collect, "scores_of_all", lambda runs, *_: [run.parent / "scores.json" for run in runs]
    )
    runs = [str(record.folder / "run.json") for record, _ in by_name.values()]
    module.draw(
        FIGURES["sweep"], runs, {"over": "q", "metric": "", "version": ""}, work=tmp_path, json=True
    )
    out, err = capsys.readouterr()
    written = json.loads(out)
    point = {"system": "FedISM+", "mean": 60.0, "std": pytest.approx(10.0)}
    expected = [{**point, "value": 1}, {**point, "value": 2}]
    assert written["frame"] == expected
    assert written["path"].endswith("-sweep-q.png")
    assert "rounds and seeds" in err
