import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import session
from made_scores import a_seed, a_stage, column, over, scores, spread_of
from nested_scores import body_of, scores_of
from report_tables import as_text, table_cells
from scored_runs import Y, model, scored

from fedcli.comparison.cautions import small_in_sets, unreliable_groups
from fedcli.comparison.systems import brief
from fedcli.errors import UsageError
from fedcli.reporting.columns import SHOWN
from fedcli.reporting.rows import notes, rows
from fedcli.reporting.single_runs import legend
from fedcli.reporting.tables import render, report
from fedcli.scores.numbers import is_lower


def test_a_line_per_run_with_percent_mean_and_spread(tmp_path):
    path = scores(tmp_path / "a", auc=0.90126, std=0.01234, corrupted=0.8)
    columns, lines = table_cells(rows([path]))
    expected = {
        "method": "FedAvg",
        "rule": "paper",
        "clean balanced_accuracy (%)": "80.13 ±1.23",
        "clean auc_ovo_macro (%)": "90.13 ±1.23",
        "corrupted balanced_accuracy (%)": "70.00 ±1.23",
        "corrupted auc_ovo_macro (%)": "80.00 ±1.23",
        "average balanced_accuracy (%)": "75.06 ±1.23",
        "average auc_ovo_macro (%)": "85.06 ±1.23",
        "sex worst group auc_ovo_macro (%)": "80.13",
        "sex gap auc_ovo_macro (%)": "10.00",
    }
    result = dict(zip(columns, lines[0], strict=True))
    assert result == expected


CLEAN = ["clean balanced_accuracy (%)", "clean auc_ovo_macro (%)"]
GAP = "sex gap auc_ovo_macro (%)"


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        (["clean"], CLEAN),
        (["clean,gap"], [*CLEAN, GAP]),
        (["Gap", "AVERAGE auc_ovo_macro"], ["average auc_ovo_macro (%)", GAP]),
        (["sex"], ["sex worst group auc_ovo_macro (%)", GAP]),
        (
            ["balanced accuracy"],
            [f"{version} {CLEAN[0][6:]}" for version in ("clean", "corrupted", "average")],
        ),
    ],
)
def test_columns_are_chosen_by_a_word_of_their_heads(tmp_path, words, heads):
    path = scores(tmp_path / "a", corrupted=0.8)
    columns, _ = table_cells(rows([path], columns=words))
    assert columns[2:] == heads


def test_a_word_of_no_column_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(UsageError, match="the report has no column 'claen'") as error:
        rows([scores(tmp_path / "a")], columns=["claen"])
    assert "clean" in error.value.hint


def test_the_best_of_a_column_is_marked_and_low_is_good_for_gap_and_std(tmp_path):
    large_gap = scores(tmp_path / "a", auc=0.9, gap=0.2, among=0.03)
    small_gap = scores(tmp_path / "b", auc=0.8, gap=0.05, among=0.01)
    paths = [large_gap, small_gap]
    assert column(paths, "clean auc_ovo_macro (%)") == ["90.00 ±1.00 *", "80.00 ±1.00"]
    assert column(paths, "sex gap auc_ovo_macro (%)") == ["20.00", "5.00 *"]
    assert column(paths, "sex worst group auc_ovo_macro (%)") == ["70.00", "75.00 *"]
    assert column(paths, "std among clients auc_ovo_macro (%)") == ["3.00", "1.00 *"]


def test_values_that_print_alike_are_all_marked(tmp_path):
    paths = []
    for name, auc in {"a": 0.900001, "b": 0.900002, "c": 0.7}.items():
        paths.append(scores(tmp_path / name, auc=auc))
    assert column(paths, "clean auc_ovo_macro (%)") == [
        "90.00 ±1.00 *",
        "90.00 ±1.00 *",
        "70.00 ±1.00",
    ]


def test_a_run_without_a_version_has_a_dash_and_does_not_compete(tmp_path):
    paths = [scores(tmp_path / "a"), scores(tmp_path / "b", corrupted=0.8)]
    assert column(paths, "corrupted auc_ovo_macro (%)") == ["-", "80.00 ±1.00"]
    result = column(paths[::-1], "corrupted auc_ovo_macro (%)")
    assert result == ["80.00 ±1.00", "-"]


def test_columns_keep_their_order_whichever_run_comes_first(tmp_path):
    paths = [scores(tmp_path / "a"), scores(tmp_path / "b", corrupted=0.8)]
    expected = table_cells(rows(paths[::-1]))[0]
    assert table_cells(rows(paths))[0] == expected


def test_a_column_in_which_no_run_has_a_number_is_left_out(tmp_path):
    columns, _ = table_cells(rows([scores(tmp_path / "a", gap=None)]))
    assert columns == ["method", "rule", "clean balanced_accuracy (%)", "clean auc_ovo_macro (%)"]


def test_runs_of_one_method_are_told_apart_by_the_settings_that_differ(tmp_path):
    def heal(name, settings, lr):
        names = {"method": "fedheal", "label": "FedHEAL", "rule": "released"}
        options = {"lr": lr, "seed": 0}
        return scores(tmp_path / name, settings=settings, options=options, **names)

    released = heal("a", {"rule": "released", "tau": 0.3, "beta": 0.4}, 0.1)
    paper = heal("b", {"rule": "paper", "tau": 0.4, "beta": 0.4}, 0.1)
    paths = [released, paper]
    assert column(paths, "method") == ["FedHEAL (tau=0.3)", "FedHEAL (tau=0.4)"]
    other = scores(tmp_path / "c", options={"lr": 0.2, "seed": 0})
    assert column([paths[0], other], "method") == ["FedAvg (lr=0.2)", "FedHEAL (lr=0.1)"]


def test_runs_on_other_data_are_told_apart_and_warned_about(tmp_path, capsys):
    data = {
        "dataset": a_stage("d"),
        "partition": a_stage("q", alpha=0.5),
        "corruption": a_stage("c", kind="gaussian"),
    }
    paths = [scores(tmp_path / "a"), scores(tmp_path / "b", data=data, rounds=7)]
    assert column(paths, "method") == ["FedAvg (rounds=6, no corruption)", "FedAvg [2]"]
    warning = "these runs do not share the same partition, corruption, rounds"
    assert warning in capsys.readouterr().err
    assert warning in render(rows(paths), "markdown")


def test_runs_on_the_same_data_give_no_warning(tmp_path, capsys):
    table = rows([scores(tmp_path / "a"), scores(tmp_path / "b", auc=0.8)])
    assert notes(table) == []
    assert capsys.readouterr().err == ""


def test_a_group_too_small_to_tell_is_noted_once(tmp_path, capsys):
    paths = []
    for name, auc in (("a", 0.9), ("b", 0.8)):
        paths.append(scores(tmp_path / name, small="12 images, fewer than 30", auc=auc))
    rows(paths)
    assert (
        capsys.readouterr().err
        == "warning: groups of few test images: sex male (12 images, fewer than 30)\n"
    )


def test_a_file_of_ones_own_is_named_by_its_file_and_first_digits():
    outcome = brief({"mine": {"file": "mine.py", "sha256": "d5" * 32}})
    assert outcome == "mine.py d5d5d5d5"
    result = [brief("0" * 64), brief(0.5), brief(2.0), brief("cnn")]
    assert result == [
        "00000000",
        "0.5",
        "2",
        "cnn",
    ]


def test_several_small_groups_are_one_note():
    sizes = {
        "9": "9 images",
        "90": "",
        "7": "7 images",
        "0": "no test image",
    }  # the last one is not warned of
    groups = {}
    for size, few in sizes.items():
        groups[size] = {"accuracy": 0.5, "reason": few, "count": int(size)}
    whole = {"clean": {"accuracy": 0.5, "count": 60, "classes_missing": []}}
    scores = scores_of(
        {
            "dataset": "skin",
            "versions": whole,
            "groups": {"sex": {"clean": {"last_round": {"groups": groups}}}},
        }
    )
    assert unreliable_groups(scores) == [
        "groups of few test images: sex 9 (9 images), sex 7 (7 images)"
    ]
    result = small_in_sets({"": scores, "fold 1": scores}, "sex").keys()
    assert result == {"9", "7"}
    assert legend(scores)[-1] == "† not reliable: sex 9 (9 images), sex 7 (7 images)."
    assert unreliable_groups(scores_of({"versions": whole})) == []


def test_a_metric_of_all_groups_together_that_is_marked_has_its_legend(tmp_path):
    metric = "demographic_parity_difference_ovr_macro"
    few = scored(tmp_path / "a", model(1, 0, y=Y[:12]), y=Y[:12], units=None)
    text = render(rows([few], metrics=[metric], columns=[metric]), "markdown")
    assert "33.3†" in text
    assert "† not reliable: sex f (6 images, fewer than 30), sex m (6 images" in text


def test_markdown_is_one_table_with_its_legend_and_escapes_bars(tmp_path):
    label = "Fed|Avg\nplus"
    path = scores(tmp_path / "a", label=label, gap=None, std=None, kept_rounds=[5, 6])
    text = render(rows([path]), "markdown")
    assert text == (
        "skin, 4 clients, 6 rounds.\n\n"
        "Scores in %: mean of rounds 5 and 6 ± standard deviation over these rounds.\n\n"
        "| method | balanced accuracy, clean (%) | AUC, one-vs-one, clean (%) |\n"
        "| --- | ---: | ---: |\n"
        "| Fed\\|Avg plus | 80.0 | 90.0 |\n"
    )


def test_csv_holds_bare_numbers_and_quotes_commas(tmp_path):
    quoted = scores(tmp_path / "a", label='Fed"A", v', gap=None)
    noisy = scores(tmp_path / "b", corrupted=0.8, gap=None)
    text = render(rows([quoted, noisy]), "csv")
    lines = list(csv.reader(io.StringIO(text)))
    assert lines[0][:5] == [
        "method",
        "rule",
        "clean balanced_accuracy mean (%)",
        "clean balanced_accuracy std (%)",
        "clean auc_ovo_macro mean (%)",
    ]
    expected = ['Fed"A", v', "paper", "80.00", "1.00", "90.00", "1.00"]
    assert lines[1][:6] == expected
    assert lines[1][6:] == [""] * 8
    assert lines[2][6:8] == ["70.00", "1.00"]


def test_json_holds_full_numbers_and_which_is_best(tmp_path):
    paths = [scores(tmp_path / "a", auc=0.9012345), scores(tmp_path / "b", auc=0.8)]
    written = json.loads(render(rows(paths), "json"))
    assert written["notes"] == []
    result = [row["name"] for row in written["rows"]]
    assert result == ["FedAvg", "FedAvg"]
    cell = written["rows"][0]["cells"]["clean auc_ovo_macro"]
    marks = {"best": True, "small_group_decides": False}
    expected = {"mean": 0.9012345, "std": pytest.approx(0.01), "lower_is_better": False} | marks
    assert cell == expected
    assert written["rows"][1]["cells"]["clean auc_ovo_macro"]["best"] is False


def test_an_unknown_format_names_the_nearest(tmp_path):
    with pytest.raises(UsageError, match="unknown report format 'markdwn'") as caught:
        render([], "markdwn")
    assert caught.value.hint == "did you mean 'markdown'?"


def test_runs_that_differ_in_the_seed_alone_are_one_row_with_either_spread(tmp_path):
    paths = [a_seed(tmp_path / "b", 1, 0.6, 0.8), a_seed(tmp_path / "a", 0, 0.5, 0.7)]
    name = "clean auc_ovo_macro"
    (pooled,) = rows(paths, spread="pooled")
    (runs,) = rows(paths, spread="runs")
    assert pooled.name == "FedAvg (2 seeds)"
    assert pooled.seeds == [0, 1]
    assert pooled.paths == paths[::-1]
    assert pooled.cells[name].mean == pytest.approx(0.65)
    expected = pytest.approx(np.std([0.5, 0.7, 0.6, 0.8]))
    assert pooled.cells[name].std == expected
    expected = pytest.approx(np.std([0.6, 0.7], ddof=1))
    assert runs.cells[name].std == expected
    assert "ddof 1" in render([runs], "markdown")
    assert "and over seeds ± standard deviation over all of them" in render([pooled], "markdown")
    written = json.loads(render(rows(paths, spread="runs", at="last"), "json"))
    assert "the last round's model" in written["legend"]
    (last,) = rows(paths, spread="pooled", at="last")
    assert last.cells[name].mean == pytest.approx(0.75)
    assert [row.name for row in rows(paths)] == ["FedAvg (seed=1)", "FedAvg (seed=0)"]


def test_runs_that_differ_in_more_than_the_seed_stay_apart_and_unlike_seeds_are_told(tmp_path):
    paths = [a_seed(tmp_path / "a", 0, 0.5), a_seed(tmp_path / "b", 1, 0.6)]
    longer = a_seed(tmp_path / "c", 0, 0.7, rounds=9)
    table = rows([*paths, longer], spread="pooled")
    assert [row.name for row in table] == [
        "FedAvg (2 seeds, rounds=6)",
        "FedAvg (rounds=9, seed=0)",
    ]
    assert "the rows are means over different seeds: FedAvg 0, 1; FedAvg 0" in notes(table)
    twice = [paths[0], a_seed(tmp_path / "d", 0, 0.5, dataset="skin")]
    result = [row.runs for row in rows(twice, spread="pooled")]
    assert result == [1, 1]


def test_other_networks_are_other_systems_and_named(tmp_path):
    small = {"name": "cnn", "size": 32, "channels": 3, "precision": "fp32"}
    residual = small | {"name": "resnet18"}
    paths = [a_seed(tmp_path / "a", 0, 0.5, model=small)]
    paths.append(a_seed(tmp_path / "b", 1, 0.6, model=residual))
    result = [row.name for row in rows(paths, spread="pooled")]
    assert result == [
        "FedAvg (model=cnn, seed=0)",
        "FedAvg (model=resnet18, seed=1)",
    ]
    paths[1] = a_seed(tmp_path / "c", 1, 0.6, model=small | {"size": 64})
    result = [row.runs for row in rows(paths, spread="pooled")]
    assert result == [1, 1]
    paths[1] = a_seed(tmp_path / "d", 1, 0.6, model=small)
    outcome = [row.name for row in rows(paths, spread="pooled")]
    assert outcome == ["FedAvg (2 seeds)"]


def test_the_spread_among_clients_is_over_rounds_and_seeds_where_each_round_is_known(tmp_path):
    def one(folder, seed, *values):
        return a_seed(folder, seed, 0.5, 0.7, among_clients=spread_of(*values))

    paths = [one(tmp_path / "a", 0, 0.02, 0.04)]
    paths.append(one(tmp_path / "b", 1, 0.05, 0.07))
    name = "std among clients auc_ovo_macro"
    (both,) = rows(paths, spread="pooled")
    assert both.cells[name].mean == pytest.approx(0.045)
    expected = pytest.approx(np.std([0.02, 0.04, 0.05, 0.07]))
    assert both.cells[name].std == expected
    (last,) = rows(paths[:1], at="last")
    assert last.cells[name].mean == pytest.approx(0.04)


def test_the_best_on_validation_is_shown_where_a_run_kept_it(tmp_path):
    plain = scores(tmp_path / "a")
    with pytest.raises(UsageError, match="no run kept the model"):
        rows([plain], at="best")
    between = {
        "auc_ovo_macro": {
            "worst": {"group": "male", "score": 0.6},
            "best": None,
            "gap": 0.2,
            "std": 0.1,
            "average": 0.7,
        }
    }
    groups = {
        "sex": {"clean": {"between": between, "es_auc_ovo_macro": 0.5, "groups": {"male": {}}}}
    }
    best = {
        "round": 3,
        "metric": SHOWN[0],
        "validation": 0.75,
        "versions": {"clean": {"count": 9, "classes_missing": [], SHOWN[0]: 0.7, SHOWN[1]: 0.8}},
        "groups": groups,
    }
    with_best = scores(tmp_path / "b", label="FedProx", best_on_validation=best, among=0.1)
    table = rows([with_best, plain], at="best")
    _columns, lines = table_cells(table)
    assert lines[0] == ["FedProx", "paper", "70.00", "80.00", "50.00", "60.00", "20.00"]
    assert lines[1][2:] == ["-"] * 5
    assert "FedAvg: it kept no model that was best on validation" in notes(table)
    assert "validation images" in render(table, "markdown")
    assert "FedProx: chosen by validation balanced_accuracy (%): round 3 (75.00)" in notes(table)
    assert "unknown for the best round, so left out: std among clients auc_ovo_macro" in notes(
        table
    )


def test_each_row_of_a_method_whose_rows_differ_says_its_own_values(tmp_path):
    def ism(name, q, count=6):
        settings = {"q": q, "tau": 1.0}
        names = {"method": "ism", "label": "ISM"}
        return scores(tmp_path / name, settings=settings, rounds=count, **names)

    paths = [ism("a", 2.0), ism("b", 2.0, 9), ism("c", 0.5), scores(tmp_path / "d")]
    assert column(paths, "method") == [
        "FedAvg",
        "ISM (q=2, rounds=6)",
        "ISM (q=2, rounds=9)",
        "ISM (q=0.5, rounds=6)",
    ]


def test_the_best_is_marked_among_rows_of_the_same_data_and_rounds_alone(tmp_path):
    paths = []
    for name, auc, n in (("a", 0.7, 6), ("b", 0.6, 6), ("c", 0.9, 9)):
        paths.append(scores(tmp_path / name, auc=auc, rounds=n))
    assert column(paths, "clean auc_ovo_macro (%)") == [
        "70.00 ±1.00 *",
        "60.00 ±1.00",
        "90.00 ±1.00",
    ]
    assert "among rows of the same data and rounds" in render(rows(paths), "markdown")
    text = render(rows(paths[1:]), "markdown")
    assert " *" not in text.split("In %")[0]
    assert "No best is marked: no two rows share" in text
    assert "a difference may be due to that and not to the method" in text


def test_what_lies_between_groups_stands_under_one_head_for_each_attribute(tmp_path):
    body = body_of(scores(tmp_path / "a"))
    groups = dict.fromkeys(("sex", "sex at birth", "sex*age"), body["groups"]["sex"])
    path = scores(tmp_path / "b", groups=groups)
    main, between = report(rows([path])).tables
    assert main.title == ""
    assert as_text(main)[0][1:] == [
        "clean balanced_accuracy (%)",
        "clean auc_ovo_macro (%)",
    ]
    assert between.title == "Between groups of the clean images: AUC, one-vs-one, %"
    heads = [(f"by {name}", head) for name in groups for head in ("worst", "gap ↓")]
    assert [column.levels for column in between.columns] == [("", "method"), *heads]
    expected = [["FedAvg", *["80.0", "10.0"] * 3]]
    assert as_text(between)[1] == expected
    text = render(rows([path]), "markdown")
    assert "AUC, one-vs-one, %:\n\n| method | by sex, worst | by sex, gap ↓ |" in text
    assert "sex*age gap auc_ovo_macro (%)" in render(rows([path]), "csv")
    assert "by sex at" in session.run(f"fedcli report {path}")


def test_other_metrics_take_the_place_of_the_two_and_unknown_ones_are_refused(tmp_path):
    metrics = (*SHOWN, "calibration_error_top_label", "f1_macro")
    versions = {"clean": dict.fromkeys(metrics, over(0.3))}
    paths = [scores(tmp_path / "a", versions=versions)]
    paths.append(scores(tmp_path / "b", versions=versions, label="B"))
    table = rows(paths, metrics=["f1_macro", "calibration_error_top_label"])
    assert table_cells(table)[0][2:4] == [
        "clean f1_macro (%)",
        "clean calibration_error_top_label (%)",
    ]
    assert is_lower(table[0].heads["clean calibration_error_top_label"])
    with pytest.raises(UsageError, match="no metric 'f1'"):
        rows(paths, metrics=["f1"])


def test_latex_is_a_booktabs_table_with_escapes_and_the_best_in_bold(tmp_path):
    label = "Fed_A & 100%"
    paths = [scores(tmp_path / "a", label=label, auc=0.9, gap=None, corrupted=0.8)]
    paths.append(scores(tmp_path / "b", auc=0.8, gap=None, corrupted=0.7))
    text = render(rows(paths, metrics=["auc_ovo_macro"]), "latex")
    before, _, after = text.partition(r"\begin{tabular}")
    assert r"\caption{Scores on skin, 4 clients, 6 rounds.}" in before
    assert r"\label{tab:scores}" in before
    expected = [
        "{lrrr}",
        r"\toprule",
        r" & \multicolumn{3}{c}{AUC, one-vs-one, \%} \\",
        r"\cmidrule(lr){2-4}",
        r"method & clean & corrupted & both \\",
        r"\midrule",
        r"Fed\_A \& 100\% & \textbf{90.0 $\pm$1.0} & \textbf{80.0 $\pm$1.0} & \textbf{85.0 $\pm$1.0} \\",
        r"FedAvg & 80.0 $\pm$1.0 & 70.0 $\pm$1.0 & 75.0 $\pm$1.0 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    *table, notes, end = after.splitlines()
    assert table == expected
    assert notes.startswith(r"\par\smallskip\parbox{\linewidth}{\footnotesize ")
    assert "Bold: the best of the column, not tested." in notes
    assert end == r"\end{table}"


def test_latex_is_one_table_to_a_float_without_a_bare_sign(tmp_path):
    settings = {"auc": 0.9, "corrupted": 0.8, "among": 0.1, "label": "Ours_#1 {x} ~ 50 %"}
    paths = [scores(tmp_path / "a", **settings), scores(tmp_path / "b", auc=0.8, corrupted=0.7)]
    text = render(rows(paths), "latex")
    floats = re.findall(r"\\begin{(table\*?)}(.*?)\\end{\1}", text, re.S)
    assert len(floats) > 1
    for _, body in floats:
        assert body.count(r"\begin{tabular}") == body.count(r"\caption{") == 1
        caption = re.search(r"\\caption{(.*)}", body)[1]
        assert len(re.findall(r"[.!?](?:\s|$)", caption)) == 1
        bare = re.sub(r"\\[#$%&_{}]|\\\\|Table~", "", body)
        assert bare.count("{") == bare.count("}")
        assert not re.search(r"[#%~↓→±<>†]", re.sub(r"\$[^$]*\$", "", bare))
        lines = re.search(r"\\midrule\n(.*)\\bottomrule", body, re.S)[1].splitlines()
        columns = len(re.search(r"\\begin{tabular}{([lr]+)}", body)[1])
        assert {line.count(" & ") + 1 for line in lines} == {columns}
    assert r"$\downarrow$" in text
    few = render(rows(paths, columns=["clean"]), "latex")
    assert r"\begin{table}" in few
    assert "table*" not in few


def test_a_method_of_ones_own_is_called_by_its_name_and_its_code_is_in_the_legend(tmp_path):
    code = {"mine": {"file": "mine.py", "sha256": "2ad1c3e9" * 8}}
    own = {"label": "Mine", "method": "mine", "options": {"code": code}}
    paths = [scores(tmp_path / "a"), scores(tmp_path / "b", label="FedProx", method="fedprox")]
    paths.append(scores(tmp_path / "c", **own))
    assert column(paths, "method") == ["FedAvg", "FedProx", "Mine"]
    legend = "Methods: FedAvg and FedProx as in their papers; Mine is mine.py 2ad1c3e9."
    assert report(rows(paths)).legends[-1] == legend
    changed = {"mine": {"file": "mine.py", "sha256": "0" * 64}}
    paths.append(scores(tmp_path / "d", **(own | {"options": {"code": changed}})))
    names = column(paths, "method")[2:]
    assert names == ["Mine (code=mine.py 2ad1c3e9)", "Mine (code=mine.py 00000000)"]


def test_each_caption_explains_what_its_own_table_shows(tmp_path):
    paths = [scores(tmp_path / "a", auc=0.9), scores(tmp_path / "b", auc=0.8)]
    lines = []
    for row in rows(paths):
        doubtful = [name for name in row.cells if "gap" in name]
        lines.append(replace(row, doubtful=doubtful))
    caption, second_caption = report(lines, best="Bold").captions
    assert "Bold: the best of the column, not tested." in caption
    assert second_caption
    assert not {*caption} & {*second_caption}
    text = render(rows(paths), "latex")
    assert text.count("mean of the last five rounds") == 1
    assert text.count(r"Runs, numbers and signs as in Table~\ref{tab:scores}.}") == 1
