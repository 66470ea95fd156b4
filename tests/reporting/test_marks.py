"""The marks of a table: decided once, the same in every format, and no best where a test says otherwise."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from nested_scores import scores_of
from score_json import summary_of_groups
from scored_runs import heal, model, scored

from fedcli.comparison.cautions import small_decides
from fedcli.comparison.tested import compare
from fedcli.data import manifest
from fedcli.reporting import page, writers
from fedcli.reporting.page import subgroups
from fedcli.reporting.rows import rows
from fedcli.reporting.table import Cell, Column, ReportTable, mark, number
from fedcli.reporting.tables import render, report
from fedcli.scores.table import Score, Where

AUC = "clean auc_ovo_macro"
FEW = np.where(np.arange(60) < 26, 0, 1)  # 26 images of the first group, which is too small to tell


def marked(paths, **how):
    """column -> rows that are marked as its best."""
    whole = report(rows(paths, **how)).whole
    names = {}
    for k, column in enumerate(whole.columns):
        names[column.key] = [row[0].text for row in whole.rows if row[k].best]
    return names


def runs(folder, skills, seeds=1, **about):
    """FedAvg and FedHEAL of these skills, with as many seeds."""
    average_skill, heal_skill = skills
    averages = []
    heals = []
    for seed in range(seeds):
        common = about | {"seed": seed}
        averages.append(scored(folder / f"avg{seed}", model(average_skill, seed), **common))
        heals.append(heal(folder / f"heal{seed}", model(heal_skill, seed), **common))
    return averages + heals


def test_the_best_is_marked_where_its_lead_is_significant_and_nowhere_else(tmp_path):
    clear = runs(tmp_path / "clear", (0.5, 3))
    average = scored(tmp_path / "avg", model(1, 0))
    close = [average, heal(tmp_path / "heal", model(1, 9))]
    assert marked(clear)[AUC] == ["FedHEAL"]
    assert marked(close)[AUC] == []
    assert compare(close[:1], close[1:]).rows[1].p > 0.05
    result = " ".join(report(rows(clear)).legends)
    assert "over test patients (p < 0.05, Bonferroni); 1 training each." in result
    result = " ".join(report(rows(close)).legends)
    assert "better than every other row" not in result
    scores = "balanced accuracy or AUC on clean images"
    verdict = f"FedHEAL: no significant difference from FedAvg in {scores}."
    assert verdict in report(rows(close)).verdicts


def test_a_quantity_without_a_test_has_no_mark_beside_those_that_have_one(tmp_path):
    paths = runs(tmp_path, (0.5, 3))
    best = marked(paths)
    assert best[AUC] == ["FedHEAL"]
    assert best["sex worst group auc_ovo_macro"] == []


def test_a_score_of_two_classes_is_marked_and_tested_on_the_page(tmp_path):
    y = np.arange(60) % 2
    average = scored(tmp_path / "a", model(0.2, 0, 2, y), y=y)
    better = heal(tmp_path / "b", model(1.5, 0, 2, y), y=y)
    paths = [average, better]
    assert marked(paths, metrics=["auc_binary"])["clean auc_binary"] == ["FedHEAL"]
    page_options = page.PageOptions(metrics=["auc_binary"])
    html = page.write(tmp_path / "page.html", paths, page_options).read_text()
    assert re.search(r"FedHEAL: AUC \d+\.\d points higher than FedAvg on clean images", html)


def test_three_seeds_or_more_have_to_agree(tmp_path):
    paths = runs(tmp_path, (0.5, 3), seeds=3)
    assert marked(paths, spread="pooled")[AUC] == ["FedHEAL (3 seeds)"]
    result = " ".join(report(rows(paths, spread="pooled")).legends)
    assert "over patients and over seeds" in result
    uneven = []
    for seed in range(3):
        uneven.append(scored(tmp_path / f"u{seed}", model((0.2, 0.5, 4)[seed], seed), seed=seed))
    level = [heal(tmp_path / f"l{seed}", model(0.45, seed), seed=seed) for seed in range(3)]
    assert compare(level, uneven).rows[1].p_seeds > 0.05
    assert marked([*uneven, *level], spread="pooled")[AUC] == []


def test_a_row_that_cannot_be_tested_against_the_best_is_not_led(tmp_path):
    """Seeds 0 to 2 of two systems, and others of a third."""
    paths = runs(tmp_path, (0.5, 3), seeds=3)
    assert marked(paths, spread="pooled")[AUC] == ["FedHEAL (3 seeds)"]
    third_method = {"method": "fedprox", "label": "FedProx"}
    third = []
    for seed in (7, 8, 9):
        folder = tmp_path / f"prox{seed}"
        third.append(scored(folder, model(0.2, seed), seed=seed, **third_method))
    best = marked([*paths, *third], spread="pooled")
    assert not any(best.values())
    result = marked([*paths[:3], *third], spread="pooled")[AUC]
    assert result == ["FedAvg (3 seeds)"]  # no test at all, as the legend says
    legend = " ".join(report(rows([*paths[:3], *third], spread="pooled")).legends)
    assert "*: the best of the column, not tested." in legend


def test_without_predictions_the_best_number_is_marked_and_the_legend_says_so(tmp_path):
    paths = runs(tmp_path, (1, 1.02))
    (paths[0].parent / "predictions.h5").unlink()
    items = [manifest.read(path) for path in paths]
    for path, old in zip(paths, items, strict=True):
        files = {"scores.csv": old.files["scores.csv"]}
        manifest.write_text(path, replace(old, parents={}, files=files).text)
    assert len(marked(paths)[AUC]) == 1
    result = " ".join(report(rows(paths)).legends)
    assert "*: the best of the column, not tested." in result


def test_values_that_print_the_same_share_the_mark_unless_all_do():
    column = Column("score")
    cells = [number(90.001), number(90.002), number(70.0)]

    def always(first, second):
        return True

    result = [cell.best for cell in mark(column, cells, [""] * 3, always)]
    assert result == [True, True, False]
    for cell in mark(column, cells[:2], [""] * 2, always):
        assert not cell.best
    for cell in mark(column, cells, ["a", "b", "c"], always):
        assert not cell.best
    marked_cells = mark(column, cells, [""] * 3, lambda first, second: False)
    assert not any(cell.best for cell in marked_cells)


def test_two_that_print_the_same_are_not_best_where_a_test_cannot_tell_them_from_each_other():
    cells = [number(90.001), number(90.002), number(70.0)]
    marked_cells = mark(Column("score"), cells, [""] * 3, lambda first, second: second == 2)
    assert not any(cell.best for cell in marked_cells)


def test_what_a_small_group_decides_is_never_the_best():
    column = Column("gap", lower=True)
    cells = [Cell("1.00", number=1.0, doubtful=True), number(2.0), number(3.0)]
    marked_cells = mark(column, cells, [""] * 3, lambda first, second: True)
    assert not any(cell.best for cell in marked_cells)
    assert cells[0].plain == "1.00†"
    assert Cell(doubtful=True).plain == "-"


def test_every_format_has_the_same_marks_cell_by_cell(tmp_path):
    paths = runs(tmp_path, (0.5, 3), sex=FEW)
    table = report(rows(paths)).tables[0]
    expected = marks_of(table)
    assert any(best for row in expected for _, best in row)
    assert in_terminal(table) == expected
    assert in_markdown(writers.markdown(table)) == expected
    assert in_latex(writers.latex([table], [[]], [])) == expected
    html = page.write(tmp_path / "page.html", paths).read_text()
    assert in_html(html, 0) == expected
    between = report(rows(paths)).tables[1]
    expected = marks_of(between)
    assert any("†" in text for row in expected for text, _ in row)
    assert in_terminal(between) == expected
    assert in_markdown(writers.markdown(between)) == expected
    assert in_html(html, 1) == expected
    doubtful = [text for row in expected for text, _ in row if "†" in text]
    daggers = render(rows(paths), "latex").count(r"$^\dagger$")
    assert daggers == 1 + len(
        doubtful
    )  # once in the caption of the table, which says what it means


def marks_of(table):
    """Rows of (text, whether it is the best)."""
    return [[*map(mark_of, row)] for row in table.rows]


def mark_of(cell):
    return cell.plain, cell.best


def in_terminal(table):
    writers.show(table, out := io.StringIO())
    lines = out.getvalue().rstrip("\n").splitlines()[-len(table.rows) :]
    cells = [re.split(r"\s{2,}", line.strip().replace(" *", "*")) for line in lines]
    return [[*map(starred, row)] for row in cells]


def in_markdown(text):
    cells = [line.split("|")[1:-1] for line in text.splitlines()[2:]]
    return [[*map(starred, row)] for row in cells]


def starred(text):
    text = text.strip()
    return text.rstrip("*").rstrip(), text.endswith("*")


def in_latex(text):
    lines = (
        text.split("\\midrule\n")[1].split("\n\\bottomrule")[0].replace(" \\\\", "").splitlines()
    )
    cells = [line.replace(r"$\pm$", "±").replace(r"$^\dagger$", "†").split(" & ") for line in lines]
    return [[*map(bold_in_latex, row)] for row in cells]


def bold_in_latex(cell):
    plain = str.maketrans({"$": "", "{": "", "}": ""})
    return cell.removeprefix(r"\textbf").translate(plain), cell.startswith(r"\textbf")


def in_html(text, number):
    body = re.findall(r"<tbody>(.*?)</tbody>", text, re.S)[number]
    lines = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)
        for line in re.findall(r"<tr>(.*?)</tr>", body, re.S)
    ]
    return [[*map(bold_in_html, row)] for row in lines]


def bold_in_html(cell):
    text = re.sub(r"<[^>]*>", "", cell)
    return text.replace("±\u202f", "±").replace("±&#8239;", "±"), "<b>" in cell


def test_differences_in_decisions_that_a_small_group_may_decide_are_no_best_either(tmp_path):
    text = page.write(tmp_path / "page.html", runs(tmp_path, (0.5, 3), sex=FEW)).read_text()
    decisions = text[text.index("Differences in decisions: clean") :]
    body = decisions[: decisions.index("</table>")]
    assert body.count("†") == 6
    assert "<b>" not in body


@pytest.mark.parametrize(("small", "decided"), [("", set()), ("f", {"worst group", "gap"})])
def test_which_numbers_a_small_group_decides(small, decided):
    groups = np.arange(60) % 2
    if small:
        groups = np.repeat([0, 1], [20, 40])
    scores = summary_of_groups(model(1, 0), np.arange(60) % 3, groups, ["f", "m"])
    whole = scores_of({"versions": {}, "groups": {"sex": {"clean": scores}}})
    assert small_decides([whole], "sex", "clean", "accuracy", "last5") == decided


def test_numbers_are_told_from_text_by_how_they_begin():
    table = ReportTable.of("", ["a", "b"], [["x", "−1.0 to +2"], ["y", "< 0.001"]])
    assert table.numeric == [False, True]
    table = ReportTable("", [Column("a")], [[number(1.0, 0.5)], [Cell()]])
    assert table.numeric == [True]


def test_each_table_has_its_label_a_paragraph_and_a_caption_with_a_full_stop():
    table = ReportTable.of("", ["row"], [["a"]], "")
    text = writers.latex([table, table], [["At --scale smoke, as printed"], []], [])
    assert r"\caption{At \texttt{-{}-scale} smoke, as printed.}" in text
    assert text.count(r"\label{tab:scores}") == text.count(r"\label{tab:scores-2}") == 1
    assert "\\end{table}\n\n\\begin{table}" in text


def test_a_gap_that_is_smaller_as_no_group_gained_is_no_best(tmp_path):
    first, other = rows(runs(tmp_path, (1, 2)))
    where = Where("clean", attribute="sex", metric="auc_ovo_macro")
    groups = {name: where._replace(group=name) for name in ("f", "m")}
    names = {"gap": where._replace(measure="gap"), **groups}

    def best_gap(**means):
        lines = dict(other.known[0])
        before = [first.value(groups[name]).mean for name in means]
        for name, change in means.items():
            lines[groups[name]] = Score([first.value(groups[name]).mean + change], [1])
        after = [mean + change for mean, change in zip(before, means.values(), strict=True)]
        lines[names["gap"]] = Score([max(after) - min(after)], [1])
        changed = [first, replace(other, known=[lines])]
        (table,) = subgroups._by_system("AUC", changed, names, {}, "", [set(), set()])
        return [row[0].text for row in table.rows if row[1].best]

    low, high = sorted(groups, key=lambda name: first.value(groups[name]).mean)
    gap = first.value(groups[high]).mean - first.value(groups[low]).mean
    assert gap > 0.002  # else nothing can shrink
    assert best_gap(**{low: gap / 2, high: 0.0}) == ["FedHEAL"]
    assert best_gap(**{low: 0.0, high: -gap / 2}) == []
