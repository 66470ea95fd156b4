"""The page is one file that says everything, safely, and looks the same for the same scores."""

import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import make_chain
from made_plans import planned, train
from nested_scores import over, scores_of
from pandas import DataFrame
from PIL import Image
from report_tables import texts

from fedcli.comparison import cautions, verdict
from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import Training
from fedcli.figures import inline
from fedcli.figures.kinds import forest
from fedcli.reporting import page, timing
from fedcli.reporting.page import lead, markup, provenance
from fedcli.reporting.rows import compared, led_by, rows, shortened
from fedcli.reporting.table import Cell, Column, ReportTable, number
from fedcli.reporting.tables import report
from fedcli.scores.evaluate import evaluate

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
EMPTY = ("meta", "img", "path", "use", "rect", "br", "wbr", "link", "hr")
QUIET = "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"


class Reader(HTMLParser):
    """Every element with its attributes, in order; fails where one is not closed."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.open = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.open += [] if tag in EMPTY else [tag]

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert tag in EMPTY or self.open.pop() == tag

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """FedAvg and FedHEAL with two seeds each, on a federation with a corrupted client."""
    work = tmp_path_factory.mktemp("page")
    paths = []
    path = make_chain(work, corrupted=True)
    old = manifest.read(path)
    manifest.write_text(
        path, replace(old, options={"kind": "gaussian-noise", "clients": ["west"]}).text
    )
    for method in ("fedavg", "fedheal"):
        for seed in (0, 1):
            training = Training(batch_size=10, lr=0.01)
            plan = planned(method, {}, training, rounds=2, seed=seed, eval_every=1)
            run = train(path, plan, work=work, out=None)
            paths.append(evaluate(run))
    return paths


@pytest.fixture(scope="module")
def path(scores, tmp_path_factory):
    return page.write(tmp_path_factory.mktemp("out") / "page.html", scores)


@pytest.fixture(scope="module")
def text(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], ""),
        (["validation accuracy"], ""),
        (["validation accuracy", "accuracy"], page.LOOKED_AT),
    ],
)
def test_only_curves_of_test_scores_are_said_to_choose_nothing(names, sentence):
    assert page._looked_at(names) == sentence


def test_the_page_holds_all_parts_in_order(text):
    expected = [
        "answer",
        "scores",
        "certainty",
        "group-sex",
        "images",
        "clients",
        "training",
        "data",
        "settings",
        "lineage",
        "terms",
    ]
    assert re.findall(r'<section id="([\w-]+)"', text) == expected
    closed = re.findall(r'<section id="([\w-]+)" class="part">\n<details><summary>', text)
    assert closed[0] == "certainty"
    assert len(closed) == 9
    assert "<h1>FedAvg and FedHEAL on made</h1>" in text
    assert (
        "made. 2 methods trained by 4 clients for 2 rounds with 2 seeds each, with gaussian noise of severity 3 on 1 "
        "client (west) and on a copy of the test set." in text
    )
    for words in (
        "released: what its authors",
        "Against FedAvg",
        "Training loss",
        "Scores with 95 % intervals by patient",
        "Is FedHEAL better than FedAvg, and for every group by sex?",
        "<dt>Chance</dt><dd>33.3 % balanced accuracy, 50 % AUC</dd>",
        "west (corrupted)",
        "<figcaption>a</figcaption>",
    ):
        assert words in text
    assert "(2 seeds)" not in text  # the sentence has said it of all
    assert (
        text.index('class="findings"')
        < text.index("<svg aria-label")
        < text.index("<table>")
        < text.index("<details>")
    )


def test_no_page_has_the_name_of_a_metric_or_of_a_difference(text):
    """Words stand in their places; options, commands and tables of scores excepted."""
    page_text = re.sub(r"<(code|style|script).*?</\1>", "", text, flags=re.S)
    for part in page_text.split("<section ")[1:]:
        if not part.startswith(('id="scores"', 'id="settings"', 'id="lineage"')):
            matches = re.findall(
                r"[^<>]*(?:_macro|auc_ovo|balanced_accuracy|_ovr_|parity_difference)[^<>]*",
                part.replace("<wbr>", ""),
            )
            assert not [match for match in matches if "levelling down" not in match]


def test_numbers_of_the_first_run_alone_have_its_name(scores, monkeypatch):
    named = []
    monkeypatch.setattr(page.clinical, "tables", lambda runs: named.extend(runs) or [])
    systems = compared(shortened(rows(scores, spread="pooled")))
    list(page._closed_sections(systems, page.PageOptions()))
    assert [name for name, _ in named] == ["FedAvg, seed 0", "FedHEAL, seed 0"]


def test_the_page_needs_nothing_else_and_names_no_place(text, path, scores):
    assert text.count("<script") == 1
    assert "fetch(" not in text
    assert "@import" not in text
    assert set(re.findall(r'https?://[^"\s<]*', text)) == {"http://www.w3.org/2000/svg"}
    for where in (path, scores[0]):
        assert str(where.parent) not in text
    assert all(link["href"].startswith("#") for link in Reader(text).all("a"))


def test_every_picture_says_what_it_shows_and_no_name_is_taken_twice(text):
    result = Reader(text)
    pictures = [svg for svg in result.all("svg") if "aria-hidden" not in svg]
    assert len(pictures) > 6
    for svg in pictures:
        assert len(svg["aria-label"]) > 5
        assert svg["role"] == "img"
    for image in result.all("img"):
        assert image["alt"]
        assert image["src"].startswith("data:image/png;base64,")
    ids = [attributes["id"] for _, attributes in result.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    outcome = {use["href"][1:] for use in result.all("use")}
    assert outcome <= set(ids)
    assert not re.search(r"#010203|#040506|#070809|DejaVu Sans'|xlink", text)


def test_equal_scores_give_equal_bytes(path, scores, tmp_path):
    result = page.write(tmp_path / "again.html", scores).read_bytes()
    assert result == path.read_bytes()


def test_given_tables_come_first_and_the_words_of_others_are_text(scores, tmp_path):
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "one.png")
    best = replace(number(70.0, 1.0), best=True)
    table = ReportTable(
        "Ours",
        [Column("row"), Column("ours", "%")],
        [[Cell("<A & B>"), best], [Cell("B"), Cell()]],
        "a & b",
    )
    pictures = [("a sweep", tmp_path / "one.png")]
    options = page.PageOptions(
        title="<script>alert(1)</script>",
        tables=[table],
        notes=["5 < 6"],
        pictures=pictures,
        findings=["A against B is inconclusive."],
        tests=[replace(table, title="Mine")],
        clocks=False,
    )
    written = page.write(tmp_path / "p.html", scores[:1], options).read_text("utf-8")
    Reader(written)
    assert written.count("<script") == 1
    assert "&lt;script&gt;alert(1)" in written
    assert "5 &lt; 6" in written
    assert "&lt;A &amp; B&gt;" in written
    assert "a &amp; b" in written
    assert '<td class="n"><b>70.00 <span class="pm">±&#8239;1.00</span></b></td>' in written
    assert written.index("Ours") < written.index("<summary>All scores</summary>")
    assert 'alt="a sweep"' in written
    assert "Against" not in written
    assert "Time and memory" not in written
    parts = "Ours", "a sweep", "A against B is inconclusive.", "Mine"
    assert sorted(parts, key=written.index) == list(parts)
    page_options = page.PageOptions(pictures=[("x", tmp_path / "p.html")])
    with pytest.raises(FedcliError, match="no picture that a page can hold"):
        page.write(tmp_path / "q.html", scores[:1], page_options)


def test_the_reference_is_the_one_asked_for_and_the_first_by_default(scores):
    lines = rows(scores, spread="pooled", metrics=["accuracy"])
    of_heal = report(led_by(lines, "fedheal"))
    tables, _ = lead.tests(compared(lines), of_heal.tests)
    table = tables[0]
    titles = [table.title for table in tables]
    assert titles == [
        f"Against FedHEAL: accuracy, {images} images" for images in ("clean", "noisy")
    ]
    table = tables[1]
    assert "Holm" in table.legend
    reference, other = texts(table)
    result = (reference[0], reference[-1], table.columns[-1].name)
    assert result == (
        "FedHEAL",
        "reference",
        "verdict",
    )
    assert other[0] == "FedAvg"
    assert " to " in other[3]
    assert other[-1] in (
        verdict.MODELS_ONLY,
        verdict.INCONCLUSIVE,
    )  # two seeds are too few for more
    assert of_heal.verdicts[0].startswith("FedAvg: ")
    assert " than FedHEAL on " in of_heal.verdicts[0] or "from FedHEAL" in of_heal.verdicts[0]
    (score,) = {where.metric for where in of_heal.tests}
    assert score == "accuracy"  # the one that is shown
    by_default = report(led_by(lines[::-1], ""))
    assert {test[0].name for test in by_default.tests.values()} == {lines[-1].label}
    with pytest.raises(UsageError, match="no row of the report is named 'fedhel'"):
        led_by(lines, "fedhel")


def test_scores_alone_make_a_page(scores, tmp_path):
    """Without the run and the data that they were made from, and without what later versions added."""
    (tmp_path / "old").mkdir()
    old = manifest.read(scores[0])
    body = {key: value for key, value in old.body.items() if key != "best"}
    (tmp_path / "old" / "scores.csv").write_bytes((scores[0].parent / "scores.csv").read_bytes())
    alone = manifest.seal(
        tmp_path / "old", manifest.Manifest("scores", [], old.options, {}, {}, body)
    )
    written = page.write(tmp_path / "p.html", [alone]).read_text("utf-8")
    Reader(written)
    assert "<h1>FedAvg on made</h1>" in written
    assert 'id="training"' not in written
    assert 'id="images"' not in written
    assert "How good is FedAvg, and is it as good for every group by sex?" in written


def test_a_figure_is_drawn_in_names_of_the_page_and_escapes_its_words():
    line = ['say "x" & y', "a", 0, "sex", "<m>", 3, False, 50.0, np.nan, np.nan]
    table = DataFrame(
        [line, ['say "x" & y', "b", 8, "sex", "<m>", 3, False, 70.0, 60.0, 80.0]],
        columns=forest.COLUMNS,
    )
    table.attrs = {"title": "", "caption": "", "score": "accuracy"}
    (figure,) = inline.of_picture(forest.draw(table)).figures
    assert figure.svg.startswith(
        '<svg aria-label="say &#34;x&#34; &amp; y test images" role="img" viewBox="0 0 '
    )
    assert "var(--c0)" in figure.svg
    assert "var(--c1)" in figure.svg
    assert "&lt;m&gt;" in figure.svg


def test_cells_and_commands_are_marked_up():
    assert markup.breakable("auc_ovo") == "auc_<wbr>ovo"
    assert (
        markup.shown_cell(Cell("fedcli train --lr 1"))
        == '<code>fedcli train <span class="nb">--lr</span> 1</code>'
    )


def test_runs_without_weights_losses_rounds_or_clients_make_a_page(tmp_path):
    """Single-site, winner takes all, absent clients, one round, a system on clean images, a corruption of no client."""
    clean = make_chain(tmp_path)
    noisy = make_chain(tmp_path / "noisy", corrupted=True)
    old = manifest.read(noisy)
    manifest.write_text(noisy, replace(old, body=old.body | {"clients": []}).text)

    def scored(data, method="fedavg", settings=None, rounds=2, **how):
        training = Training(batch_size=10, lr=0.01)
        plan = planned(
            method,
            settings or {},
            training,
            rounds=rounds,
            eval_every=2,
            **how,
        )
        run = train(data, plan, work=data.parent, out=None)
        return evaluate(run)

    alone = scored(clean, rounds=1, single_site=True)
    result = page.write(tmp_path / "a.html", [alone]).read_text("utf-8")
    assert "Weights in the aggregation" not in result
    paths = [
        alone,
        scored(clean, "afl", {"rule": "released"}, rounds=1),
        scored(noisy, participation=0.3, rounds=3),
        scored(noisy, "fedbn"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        text = page.write(tmp_path / "b.html", paths, page.PageOptions(at="last")).read_text(
            "utf-8"
        )
    Reader(text)
    weighed = re.findall(r'aria-label="([^"]*). weight of each client', text)
    assert len(weighed) == 3
    for name in weighed:
        assert "single-site" not in name
    assert "Balanced accuracy: corrupted test images" in text
    assert "Bold marks the best for a client" in text
    assert not re.search(r'[" ](nan|inf)\b', text, re.I)


def test_what_training_took_is_shown_where_clocks_lie_beside_the_runs(
    text, scores, tmp_path, monkeypatch
):
    assert "Time and memory" in text
    assert "images per second" in text
    timed = compared(rows(scores[:1]))
    took = timing.ClockTimes(1.5, 1234.4, 0.25, None, 0.456, None, 0.123)
    monkeypatch.setattr(timing, "of_runs", lambda _: took)
    assert "energy" not in text
    result = [cell.text for cell in provenance._times(timed)[0].rows[0][1:]]
    assert result == [
        "1.50",
        "1,234",
        "25.0",
        "-",
        "46",
        "-",
        "0.12",
    ]
    monkeypatch.undo()
    (provenance.timing.manifest.parent(scores[0], "run").parent / "timing.jsonl").rename(
        tmp_path / "timing.jsonl"
    )
    try:
        assert provenance._times(timed) == []
    finally:
        (tmp_path / "timing.jsonl").rename(timed[0].run_files[0].parent / "timing.jsonl")


def test_a_group_without_a_score_has_no_dot(scores):
    lines = compared(rows(scores[:1]))
    sex = lines[0].scores.groups["sex"]["clean"]["auc_ovo_macro"]
    sex["f"].values[-1] = None
    table = forest.frame(compared(lines), version="clean")
    assert table["group"].tolist() == ["all images", "m"]


def test_what_a_small_group_decides_is_marked_and_is_no_winner(scores, text):
    """Both groups of the fixture have 20 images."""
    assert re.search(r"\d† <span class=\"pm\">±", text)
    by_metric = {"accuracy": {"f": over(0.5, 0.9), "m": over(0.6, 0.7)}}

    def decided(**small):
        groups = {
            group: {"accuracy": 0.0, "reason": small.get(group, ""), "count": 20} for group in "fm"
        }
        body = {
            "versions": {},
            "groups": {"sex": {"clean": {"last_round": {"groups": groups}, "each": by_metric}}},
        }
        return [
            cautions.small_decides([scores_of(body)], "sex", "clean", "accuracy", rounds)
            for rounds in ("last5", "last")
        ]

    assert decided() == [set(), set()]
    best = {"gap"}
    worst = {"worst group", "gap"}  # f has the higher mean, and the higher last round
    assert decided(f="few") == [best, best]
    assert decided(m="few") == [worst, worst]


@pytest.mark.parametrize("at", ["last5", "last"])
def test_a_score_stands_beside_its_own_interval(scores, at):
    """The interval is over the rounds that the tables show; of two seeds it is of the mean."""
    lines = compared(rows(scores[:2], spread="pooled", at=at))
    (table,) = lead.intervals(lines, ["accuracy"])
    scores_of_runs = [run.versions["clean"]["accuracy"] for run in lines[0].each]
    values = [100 * (score.last if at == "last" else score.mean) for score in scores_of_runs]
    assert table.rows[0][1].text.startswith(f"{np.mean(values):.1f} (")
    assert (
        markup.shown_cell(Cell("60.0 (50.0 – 70.0)"))
        == '60.0 <span class="pm nb">(50.0 – 70.0)</span>'
    )


def test_a_run_with_a_damaged_or_missing_line_of_its_clock_has_no_time(scores):
    file = manifest.parent(scores[0], "run").parent / "timing.jsonl"
    whole = file.read_text("utf-8")
    first_line, second_line = whole.splitlines()
    assert timing.of_runs(scores[:1]).minutes > 0
    try:
        cases = (
            first_line,
            f"{first_line}\n{second_line[:20]}",
            f"{first_line}\n{second_line[:20]}{second_line}",
            f'{first_line}\n{{"round": 2}}\n[]',
        )
        for text in cases:
            file.write_text(text)
            assert timing.of_runs(scores[:1]) is None
            assert rows(scores[:1], minutes=True)[0].minutes is None
        file.write_text(f'{first_line}\n{{"round": 2, "seconds": 1}}\n')
        assert timing.of_runs(scores[:1]).peak_bytes is None
    finally:
        file.write_text(whole)


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
def test_a_browser_shows_the_page_within_a_narrow_window(path, tmp_path):
    probe = "<script>document.title = document.documentElement.scrollWidth + ' of ' + innerWidth</script></body>"
    (tmp_path / "page.html").write_text(path.read_text("utf-8").replace("</body>", probe), "utf-8")
    command = [
        CHROMIUM,
        *QUIET.split(),
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=420,900",
    ]
    command += ["--no-first-run", "--dump-dom", f"file://{tmp_path / 'page.html'}"]
    document = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=60, check=True
    ).stdout
    wide, window = map(int, re.search(r"<title>(\d+) of (\d+)</title>", document).groups())
    assert wide <= window
    assert document.count("<svg") == path.read_text("utf-8").count("<svg")
