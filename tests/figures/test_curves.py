import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROSTER, make_chain
from numpy.testing import assert_allclose
from run_folders import a_line, a_run

from fedcli.commands.plot import draw as command
from fedcli.data import manifest
from fedcli.errors import FedcliError, HashError, UsageError
from fedcli.figures import drawing
from fedcli.figures import names as labels
from fedcli.figures.kinds import FIGURES, convergence, curves
from fedcli.figures.series import Series, over_runs, read

PNG = b"\x89PNG\r\n\x1a\n"


def drawn(*records, names=None):
    """The panels of a picture by title, and the names in its legend."""
    series = names or []
    figure = drawing.drawn(FIGURES["curves"].picture(labels.labels(list(records)), series=series))
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes}
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    panels.pop("", None)  # the free place that holds the legend
    names_in_legend = []
    for legend in filter(None, legends):
        names_in_legend += [text.get_text() for text in legend.get_texts()]
    return panels, names_in_legend, figure


def test_a_record_is_read_as_named_curves_in_the_order_they_are_shown(tmp_path):
    reports = {"mu": [1.0, 2.0, 3.0, 4.0], "rescue_factor": [0.0] * 4, "loss": [9.0] * 4}
    values = {
        "reports": reports,
        "server": {"epsilon": 0.5, "mu": 0.1},
        "test": {"clean": {"balanced_accuracy": 0.25}},
    }
    path = a_run(tmp_path / "run", [a_line(1, **values), a_line(2, **values)])
    record = read(path)
    expected = [
        "loss",
        "clean balanced_accuracy",
        "weights",
        "mu",
        "rescue_factor",
        "reported loss",
        "epsilon",
        "server mu",
    ]
    assert list(record.series) == expected
    assert list(record.series["mu"].curves) == ROSTER
    assert not record.series["mu"].scalar
    result = record.series["mu"].curves["south"].tolist()
    assert result == [[1, 2], [2, 2]]
    result = record.series["server mu"].curves[""].tolist()
    assert result == [[1, 0.1], [2, 0.1]]
    result = record.series["clean balanced_accuracy"].curves[""].tolist()
    assert result == [
        [1, 25],
        [2, 25],
    ]  # percent
    assert record.series["rescue_factor"].title == "Rescue factor"
    result = (record.clients, record.played, record.rounds, record.dataset)
    assert result == (4, 2, 2, "skin")


def test_rounds_without_a_score_or_a_client_have_no_point_and_null_is_a_gap(tmp_path):
    test = {"clean": {"auc": 0.5}}
    even = [0.5, 0.5]
    first = a_line(1, clients=["north", "west"], loss=[1.0, 2.0], weights=even)
    second = a_line(2, clients=["north", "south"], loss=[None, 3.0], weights=even, test=test)
    third = a_line(3, clients=["north", "west"], loss=[4.0, 5.0], weights=even)
    lines = [first, second, third]
    path = a_run(tmp_path / "run", lines)
    series = read(path).series
    curves = series["loss"].curves
    expected = [[1, 2], [3, 5]]
    assert curves["west"].tolist() == expected
    assert curves["south"].tolist() == [[2, 3]]
    expected = [[1, 1], [2, np.nan], [3, 4]]
    assert np.array_equal(curves["north"], expected, equal_nan=True)
    result = series["clean auc"].curves[""].tolist()
    assert result == [[2, 0.5]]


def test_an_unfinished_run_is_read_with_its_datas_roster_up_to_the_last_whole_line(tmp_path):
    make_chain(tmp_path)
    lines = [a_line(1), a_line(2)]
    folder = a_run(tmp_path / "runs" / "mine", lines, finished=False)
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "lo')
    record = read(folder)
    assert list(record.series["loss"].curves) == ROSTER
    result = (record.played, record.rounds, record.label)
    assert result == (2, 9, "fedmrl")
    (tmp_path / "partitions" / "made" / "partition.json").unlink()
    result = list(read(folder).series["loss"].curves)
    assert result == [
        "client 0",
        "client 1",
        "client 2",
        "client 3",
    ]


def test_what_is_no_record_is_told(tmp_path):
    with pytest.raises(FedcliError, match="no such run"):
        read(tmp_path / "nowhere")
    with pytest.raises(FedcliError, match="holds no record of rounds"):
        read(tmp_path)
    with pytest.raises(FedcliError, match="has no round yet"):
        read(a_run(tmp_path / "new", [], finished=False))
    for k, line in enumerate(
        [{"round": 1}, a_line(1, weights=[1.0]), {"round": "x"}, [], a_line(1, reports=3)]
    ):
        with pytest.raises(FedcliError, match="is damaged"):
            read(a_run(tmp_path / f"bad{k}", [line]))
    changed = a_run(tmp_path / "changed", [a_line(1)])
    (changed / "rounds.jsonl").write_text(json.dumps(a_line(2)) + "\n")
    with pytest.raises(HashError, match=r"rounds.jsonl"):
        read(changed / "run.json")


def test_one_run_has_a_line_per_client_and_names_them(tmp_path):
    lines = [a_line(t, server={"epsilon": 1 / t}) for t in (1, 2, 3)]
    path = a_run(tmp_path / "run", lines)
    record = read(path)
    panels, legend, figure = drawn(record)
    assert list(panels) == ["Training loss", "Weight in the aggregation", "Epsilon"]
    assert legend == ROSTER
    assert figure.get_suptitle() == "FedMRL on skin: 4 clients, 3 rounds"
    losses = [line.get_ydata().tolist() for line in panels["Training loss"].lines]
    expected = [[1 / t + k for t in (1, 2, 3)] for k in range(4)]
    assert losses == expected
    assert len(panels["Epsilon"].lines) == 1
    looks = {(line.get_color(), line.get_linestyle()) for line in panels["Training loss"].lines}
    assert len(looks) == 4
    assert panels["Epsilon"].lines[0].get_color() not in {colour for colour, _ in looks}


def test_up_to_twelve_clients_look_different_and_more_are_thin_lines_under_their_mean(tmp_path):
    def many(count):
        loss = [float(k) for k in range(count)]
        weights = [1 / count] * count
        line = {
            "round": 1,
            "loss": loss,
            "weights": weights,
        }
        roster = [f"site {k}" for k in range(count)]
        return read(a_run(tmp_path / str(count), [line], roster=roster))

    panels, legend, _ = drawn(many(12), names=["loss"])
    result = len(
        {(line.get_color(), line.get_linestyle()) for line in panels["Training loss"].lines}
    )
    assert result == 12
    assert len(legend) == 12
    panels, legend, _ = drawn(many(13), names=["loss"])
    assert legend == ["one client", "mean over clients"]
    result = panels["Training loss"].lines[-1].get_ydata().tolist()
    assert result == [6.0]


def test_several_runs_are_compared_by_the_mean_and_the_range_of_their_clients(tmp_path):
    first = a_line(1, server={"epsilon": 1.0})
    second = a_line(2, server={"epsilon": 0.5})
    fedmrl = a_run(tmp_path / "one", [first, second])
    plain = [a_line(t) for t in (1, 2, 3)]
    fedavg = a_run(tmp_path / "other", plain, label="FedAvg")
    panels, legend, figure = drawn(read(fedmrl), read(fedavg))
    assert legend == [
        "FedMRL",
        "FedAvg",
        "lowest to highest client",
        "largest weight",
        "smallest weight",
    ]
    assert figure.get_suptitle() == "2 runs on skin"
    losses = panels["Training loss (each method's own)"]
    mean = [line.get_ydata().tolist() for line in losses.lines]
    expected = [[2.5, 2.0], pytest.approx([2.5, 2.0, 1 / 3 + 1.5])]
    assert mean == expected
    band = losses.collections[0].get_paths()[0].vertices
    result = (band[:, 1].min(), band[:, 1].max())
    assert result == (0.5, 4.0)
    assert len(panels["Epsilon"].lines) == 1  # the other has none


def test_of_weights_the_extremes_of_each_run_are_drawn_as_their_mean_is_always_the_same(tmp_path):
    weights = [0.1, 0.1, 0.1, 0.7]
    turned = a_line(2, weights=weights)
    records = [
        read(a_run(tmp_path / str(k), [a_line(1), turned], options={"seed": k})) for k in range(2)
    ]
    panels, _, _ = drawn(*records, names=["weights"])
    lines = panels["Weight in the aggregation"].lines
    result = [line.get_ydata().tolist() for line in lines]
    expected = [[0.4, 0.7], [0.1, 0.1]] * 2
    assert result == expected
    result = len({(line.get_color(), line.get_marker()) for line in lines})
    assert result == 4


def test_runs_of_one_method_are_named_by_their_settings_or_else_by_their_folders(tmp_path):
    def runs(*names_and_options):
        return [
            read(a_run(tmp_path / name, [a_line(1)], options=options))
            for name, options in names_and_options
        ]

    low = {"lr": 1, "settings": {"mu": 0.1}}
    high = {"lr": 1, "settings": {"mu": 0.5}}
    short = runs(("a", low), ("b", high))
    path = a_run(tmp_path / "c", [a_line(1)], label="FedAvg", options={"lr": 7})
    other = read(path)
    result = drawn(*short, other)[1][:3]
    assert result == ["FedMRL (mu=0.1)", "FedMRL (mu=0.5)", "FedAvg"]
    one_kind = {"partition_options": "of one kind" * 9}
    another_kind = {"partition_options": "of another kind" * 9}
    long = runs(("d", one_kind), ("e", another_kind))
    result = drawn(*long)[1][:2]
    assert result == ["d", "e"]
    records = runs(("fedmrl-a", {}), ("fedmrl-b", {}))
    result = drawn(*records)[1][:2]
    assert result == ["fedmrl-a", "fedmrl-b"]
    result = drawn(records[0], replace(records[0]))[1][:2]
    assert result == ["FedMRL [1]", "FedMRL [2]"]


def test_no_title_stands_for_two_things(tmp_path):
    reports = {
        "training_loss": [1.0, 2.0, 3.0, 4.0],
        "mu": [0.0, 1.0, 2.0, 3.0],
        "odd": [0.0, 1.0, 2.0, 3.0],
    }
    values = {"reports": reports}
    lines = [a_line(t, **values, server={"mu": t, "odd": t}) for t in (1, 2)]
    path = a_run(tmp_path / "run", lines)
    record = read(path)
    titles = list(drawn(record)[0])
    assert len(titles) == len(record.series) == 7
    result = [title for title in titles if "Training loss" in title]
    assert result == ["Training loss"]
    assert {"Odd", "Odd, kept by the server"} < set(titles)


SCALES_BY_VALUES = [
    ([1.0, 20.0, 2.0, 3.0], "linear"),
    ([1.0, 21.0, 2.0, 3.0], "log"),
    ([0.0, 1.0, 900.0, 3.0], "linear"),
    ([0.0, 1e-5, 1e-3, 1.0], "symlog"),
    ([-1.0, 1e-5, 1e-3, 1.0], "linear"),
    ([None, 1e-5, 1e-3, 1.0], "log"),
]


@pytest.mark.parametrize(("values", "scale"), SCALES_BY_VALUES)
def test_values_that_spread_far_stand_on_a_logarithmic_axis(tmp_path, values, scale):
    path = a_run(tmp_path / "run", [a_line(1, reports={"odd": values})])
    record = read(path)
    panels, _, figure = drawn(record, names=["odd"])
    assert panels["Odd"].get_yscale() == scale
    figure.canvas.draw()
    ticks = [text.get_text() for text in panels["Odd"].get_yticklabels()]
    assert not any("$" in tick for tick in ticks)  # TeX would be printed as it is
    if scale == "symlog":
        assert panels["Odd"].yaxis.get_transform().linthresh == 1e-5
        assert {"0", "1e-5", "1"} <= set(ticks)


def test_what_never_changes_is_left_out_unless_it_is_asked_for(tmp_path, capsys):
    reports = {"mu": [0.01] * 4}
    lines = [a_line(t, reports=reports, server={"gone": None}) for t in (1, 2)]
    folder = a_run(tmp_path / "run", lines)
    record = read(folder)
    result = curves.chosen([record], [])
    assert result == ["loss", "weights", "gone"]
    result = curves.chosen([record], ["mu"])
    assert result == ["mu"]
    reports = {"mu": [0.02] * 4}
    path = a_run(tmp_path / "other", [a_line(1, reports=reports)])
    other = read(path)
    assert "mu" in curves.chosen([record, other], [])
    command(FIGURES["curves"], [str(folder)], {"series": []}, work=tmp_path)
    assert "left out, as it never changes: mu (0.01)\n" in capsys.readouterr().err
    loss = [1.0] * 4
    weights = [0.25] * 4
    path = a_run(tmp_path / "flat", [a_line(1, loss=loss, weights=weights)])
    flat = read(path)
    result = curves.chosen([flat], [])
    assert result == ["loss", "weights"]


@pytest.mark.parametrize("count", range(1, 11))
def test_the_lowest_panel_of_each_column_names_the_axis(tmp_path, count):
    server = {f"s{k}": k for k in range(count)}
    path = a_run(tmp_path / "run", [a_line(1, server=server)])
    record = read(path)
    names = [f"s{k}" for k in range(count)]
    axes = drawn(record, names=names)[2].axes
    below = {}
    for panel in axes:
        below[panel.get_subplotspec().colspan.start] = panel  # row by row: the last is the lowest
    result = {panel for panel in axes if panel.get_xlabel() == "round"}
    assert result == set(below.values())


def test_a_gap_is_not_bridged_and_a_point_between_gaps_is_a_dot(tmp_path):
    lines = [a_line(t, server={"reward": None if t in (50, 52) else 1.0}) for t in range(1, 100)]
    path = a_run(tmp_path / "run", lines)
    panels, _, _ = drawn(read(path), names=["reward"])
    (line,) = panels["Reward"].lines
    result = np.flatnonzero(np.isnan(line.get_ydata())).tolist()
    assert result == [49, 51]
    assert line.get_markevery() == [50]


def test_a_series_of_nulls_says_so(tmp_path):
    loss = [None] * 4
    path = a_run(tmp_path / "run", [a_line(1, loss=loss)])
    panels, legend, _ = drawn(read(path), names=["loss"])
    result = [text.get_text() for text in panels["Training loss"].texts]
    assert result == ["no finite value"]
    assert legend == []


def test_an_unknown_series_names_the_nearest_and_all(tmp_path):
    path = a_run(tmp_path / "run", [a_line(1, server={"epsilon": 1.0})])
    record = read(path)
    with pytest.raises(UsageError, match="no run has a series 'epsilom'") as caught:
        curves.chosen([record], ["loss", "epsilom"])
    assert caught.value.hint.startswith(
        "did you mean 'epsilon'? a series begins once a round has something to record"
    )
    assert caught.value.hint.endswith("known: loss, weights, epsilon")
    result = curves.chosen([record], ["weights", "loss", "weights"])
    assert result == ["weights", "loss"]


def test_a_series_that_only_ends_alike_is_not_suggested(tmp_path):
    path = a_run(tmp_path / "run", [a_line(1, server={"mean_loss": 1.0})])
    record = read(path)
    with pytest.raises(UsageError, match="no run has a series 'qmix_loss'") as caught:
        curves.chosen([record], ["qmix_loss"])
    assert "did you mean" not in caught.value.hint
    assert "something to record" in caught.value.hint


def test_the_command_writes_under_work_and_leaves_the_run_as_it_is(tmp_path, capsys):
    roster = ["$x_1$", "_hidden", "Zürich\n", "a" * 80]
    lines = [a_line(1), a_line(2)]
    folder = a_run(tmp_path / "runs" / "mine", lines, roster=roster)
    before = sorted(folder.iterdir())
    command(FIGURES["curves"], [], {"series": []}, work=tmp_path)
    path = Path(capsys.readouterr().out.strip())
    assert path == tmp_path / "plots" / "mine-curves.png"
    assert path.read_bytes().startswith(PNG)
    assert sorted(folder.iterdir()) == before
    assert manifest.verify(folder).kind == "run"


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_curves_give_the_same_bytes(tmp_path, suffix):
    folder = a_run(tmp_path / "run", [a_line(1), a_line(2)])
    pictures = [tmp_path / f"{k}{suffix}" for k in range(2)]
    for picture in pictures:
        command(
            FIGURES["curves"],
            [str(folder)],
            {"series": ["loss"]},
            work=tmp_path,
            out=picture,
            json=True,
        )
    picture_bytes, repeated = (picture.read_bytes() for picture in pictures)
    assert picture_bytes == repeated
    assert len(picture_bytes) > 5000
    result = sorted(p.name for p in tmp_path.iterdir())
    expected = [f"0{suffix}", f"1{suffix}", "run"]
    assert result == expected


@pytest.mark.parametrize(
    ("name", "sentence"), [("a.gif", "no picture"), ("runs/mine/a.png", "files are sealed")]
)
def test_a_picture_of_another_kind_or_inside_a_run_is_refused(tmp_path, name, sentence):
    folder = a_run(tmp_path / "runs" / "mine", [a_line(1)], finished=False)
    with pytest.raises(UsageError, match=sentence):
        out = tmp_path / name
        command(FIGURES["curves"], [str(folder)], {"series": []}, work=tmp_path, out=out)


def test_without_a_run_the_hint_says_how_to_get_one(tmp_path):
    with pytest.raises(FedcliError, match="no run under") as caught:
        command(FIGURES["curves"], [], {"series": []}, work=tmp_path)
    assert "fedcli train" in caught.value.hint


def a_tested(folder, scores, *, label="FedMRL", **options):
    """A run whose rounds have these scores on the clean test images, None where --eval-every left one out."""
    tests = [
        {"test": {"clean": {"balanced_accuracy": score}}} if score is not None else {}
        for score in scores
    ]
    lines = [a_line(t, **test) for t, test in enumerate(tests, 1)]
    path = a_run(folder, lines, label=label, options=options)
    return read(path)


def test_runs_that_differ_in_seeds_and_folds_are_one_system(tmp_path):
    runs = [
        a_tested(tmp_path / str(seed), [0.5], seed=seed, eval_every=seed, settings={"mu": 0.1})
        for seed in (1, 2)
    ]
    folder = tmp_path / "c"
    other = a_tested(folder, [0.5], seed=1, settings={"mu": 0.5})
    folder = tmp_path / "d"
    plain = a_tested(folder, [0.5], label="FedAvg", seed=7)
    folds = [replace(plain, data={"dataset fold": fold, "partition seed": fold}) for fold in (0, 1)]
    records = [*runs, other, *folds]
    systems = labels.systems(records)
    expected = {"FedMRL (mu=0.1)": runs, "FedMRL (mu=0.5)": [other], "FedAvg": folds}
    assert systems == expected
    records = [*runs, other]
    result = list(labels.systems(records, "mu"))
    assert result == ["FedMRL"]
    noise = [replace(plain, data={"corruption ratio": ratio}) for ratio in (0.1, 0.2)]
    result = list(labels.systems(noise))
    assert result == ["FedAvg (ratio 0.1)", "FedAvg (ratio 0.2)"]
    options = {"seed": 0, "rounds": 6, "lr": 0.003}
    longer = replace(plain, options=options)
    result = list(labels.systems([other, longer]))
    assert result == ["FedMRL", "FedAvg (lr 0.003, 6 rounds)"]
    result = list(labels.labels([other, longer]))
    assert result == ["FedMRL (seed 1)", "FedAvg (seed 0)"]


def test_test_curves_of_a_system_are_their_mean_in_a_band_of_their_spread(tmp_path):
    folder = tmp_path / "a"
    scores = [0.2, 0.4, None]
    first = a_tested(folder, scores, seed=0)
    second = a_tested(tmp_path / "b", [0.4, 0.8, 0.6], seed=1)
    runs = [first, second]
    folder = tmp_path / "c"
    alone = [a_tested(folder, [0.1, 0.2], label="FedAvg")]
    by_name = {"mine": runs, "alone": alone}
    figure = drawing.drawn(
        convergence.draw(convergence.of_series(by_name, ["clean balanced_accuracy"]))
    )
    (axes,) = figure.axes
    expected = [
        pytest.approx([30, 60, 60]),
        pytest.approx([10, 20]),
    ]
    result = [line.get_ydata().tolist() for line in axes.lines]
    assert result == expected
    band = axes.collections[0].get_paths()[0].vertices
    spread = 40 / np.sqrt(2)  # of 40 and 80 with ddof 1
    result = (band[:, 1].min(), band[:, 1].max())
    expected = pytest.approx((30 - spread / 2, 60 + spread))
    assert result == expected
    assert axes.get_title(loc="left") == "Balanced accuracy, clean"
    assert figure.get_suptitle() == "3 runs on skin, 3 seeds"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["mine", "alone", "mean ± std over runs"]


def test_the_command_draws_test_curves_and_says_where_there_are_none(tmp_path, capsys):
    folder = tmp_path / "one"
    tested = a_tested(folder, [0.2, 0.4])
    options = {"metric": "", "version": ""}
    command(FIGURES["convergence"], [str(tested.folder)], options, work=tmp_path)
    expected = tmp_path / "plots" / "one-convergence.png"
    assert Path(capsys.readouterr().out.strip()) == expected
    with pytest.raises(FedcliError, match="no run recorded auc_ovo_macro over") as caught:
        convergence.frame({"one": [tested]}, metric="auc_ovo_macro")
    assert caught.value.hint == "known: clean balanced_accuracy"
    path = a_run(tmp_path / "bare", [a_line(1)])
    bare = read(path)
    with pytest.raises(
        FedcliError, match="no run recorded corrupted balanced_accuracy over"
    ) as caught:
        convergence.frame({"bare": [bare]}, version="corrupted")
    assert "--eval-every 1" in caught.value.hint


def test_scores_that_are_all_unknown_are_refused_in_a_sentence(tmp_path):
    test = {"clean": {"balanced_accuracy": None}}
    unknown = a_line(1, test=test)
    path = a_run(tmp_path / "one", [unknown])
    record = read(path)
    with pytest.raises(FedcliError, match="no number is there to draw"):
        drawing.drawn(FIGURES["convergence"].picture({"one": [record]}))


def test_the_numbers_of_a_figure_are_printed_and_written(tmp_path, capsys):
    loss = [None, 1.0, 2.0, 3.0]
    folder = a_run(tmp_path / "run", [a_line(1), a_line(2, loss=loss)])
    options = {"series": ["loss"]}
    out = tmp_path / "a.csv"
    command(FIGURES["curves"], [str(folder)], options, work=tmp_path, out=out, json=True)
    lines = json.loads(capsys.readouterr().out)["frame"]
    expected = {
        "run": "FedMRL",
        "series": "loss",
        "client": "north",
        "round": 1,
        "value": 1.0,
    }
    assert lines[0] == expected
    assert lines[1]["value"] is None
    assert len(lines) == 8
    result = (tmp_path / "a.csv").read_text().splitlines()[:2]
    assert result == [
        "run,series,client,round,value",
        "FedMRL,loss,north,1,1.0",
    ]


def test_curves_are_means_over_clients_and_then_over_seeds():
    def a_run(**clients):
        curves = {}
        for name, values in clients.items():
            rounds = np.arange(1.0, len(values) + 1)
            curves[name] = np.stack([rounds, values], 1)
        return Series("loss", "", curves)

    run = a_run(a=[1, 3], b=[3, np.nan])
    longer = a_run(a=[4, 5, 6])
    rounds, mean, low, high = over_runs([run, longer]).to_numpy(float).T
    assert rounds.tolist() == [1, 2, 3]
    assert mean.tolist() == [3, 4, 6]
    std = np.array([2**0.5, 2**0.5, np.nan])  # of 2 and 4, of 3 and 5, of one run
    expected = [mean - std, mean + std]
    assert_allclose([low, high], expected)


def test_scores_on_validation_parts_are_a_series_of_their_own(tmp_path):
    test = {"clean": {"balanced_accuracy": 0.25}}
    line = a_line(1, validation={"balanced_accuracy": 0.5}, test=test)
    path = a_run(tmp_path / "run", [line])
    series = read(path).series
    assert series["validation balanced_accuracy"].unit == "validation images (%)"
    result = series["validation balanced_accuracy"].curves[""].tolist()
    assert result == [[1, 50]]


def test_a_ratio_of_two_series_is_a_series_of_the_rounds_that_divide(tmp_path):
    lines = []
    for t, divisors in enumerate(([1.0, 2.0, 4.0, 0.0], [2.0, 2.0, 2.0, 2.0]), 1):
        reports = {"supervised_loss": [4.0] * 4, "divergence_loss": divisors}
        lines.append(a_line(t, reports=reports))
    record = read(a_run(tmp_path / "run", lines))
    table = curves.frame({"run": record}, series=["supervised_loss/divergence_loss"])
    assert table.attrs["titles"] == {"supervised_loss/divergence_loss": "L_sup / L_f"}
    by_round = table.groupby("round")["value"].apply(list)
    assert by_round.tolist() == [[4.0, 2.0, 1.0], [2.0] * 4]
    with pytest.raises(UsageError, match="no run has a series 'loss/nothing'"):
        curves.frame({"run": record}, series=["loss/nothing"])
