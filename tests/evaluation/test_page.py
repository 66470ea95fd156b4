"""The page is one file that says everything, safely, and looks the same for the same scores."""

import base64
import io
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import make_chain
from PIL import Image

from fedcli.data import manifest
from fedcli.errors import FedcliError, UsageError
from fedcli.evaluation import page
from fedcli.evaluation.curves import Series
from fedcli.evaluation.evaluate import evaluate
from fedcli.evaluation.page import convergence, figures, images, markup, statistics
from fedcli.evaluation.page.systems import systems
from fedcli.evaluation.page.tables import Table
from fedcli.evaluation.rows import rows
from fedcli.federation.client import Training
from fedcli.federation.train import Plan, train

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EMPTY = ("meta", "img", "path", "use", "rect", "br", "wbr", "link", "hr")
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
)


class Reader(HTMLParser):
    """Every element with its attributes, in order; fails where one is not closed."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
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
    work, made = tmp_path_factory.mktemp("page"), []
    path = make_chain(work, corrupted=True)
    old = manifest.read(path)
    manifest.write_text(path, replace(old, options={"kind": "gaussian-noise", "clients": ["west"]}).text)
    for method in ("fedavg", "fedheal"):
        for seed in (0, 1):
            plan = Plan(method, {}, Training(batch_size=10, lr=0.01), rounds=2, seed=seed, eval_every=1)
            run = train(path, plan, work=work, out=None, threads=1)
            made.append(evaluate(run, by=[], out=None, device="cpu", made_by=["evaluate"]))
    return made


@pytest.fixture(scope="module")
def path(scores, tmp_path_factory):
    return page.write(tmp_path_factory.mktemp("out") / "page.html", scores)


@pytest.fixture(scope="module")
def text(path):
    return path.read_text(encoding="utf-8")


def test_the_page_holds_all_parts_in_order(text):
    assert re.findall(r'<section id="([\w-]+)">', text) == [
        "scores", "certainty", "figures", "group-sex", "corruption", "clients", "settings", "lineage", "terms",
    ]  # fmt: skip
    assert "<h1>FedAvg and FedHEAL on made</h1>" in text
    assert (
        "2 systems trained on made by 4 clients for 2 rounds with 2 seeds each, with gaussian noise of severity 3 on 1 "
        "client and on a copy of the test set." in text
    )
    for said in (
        "FedHEAL (2 seeds)",
        "released: what its authors",
        "Against FedAvg (2 seeds)",
        "Training loss",
    ):
        assert said in text


def test_the_page_needs_nothing_else_and_names_no_place(text, path, scores):
    assert "<script" not in text and "@import" not in text
    assert set(re.findall(r'https?://[^"\s<]*', text)) == {"http://www.w3.org/2000/svg"}
    for where in (path, scores[0]):
        assert str(where.parent) not in text
    assert all(link["href"].startswith("#") for link in Reader(text).all("a"))


def test_every_picture_says_what_it_shows_and_no_name_is_taken_twice(text):
    found = Reader(text)
    pictures = [svg for svg in found.all("svg") if "aria-hidden" not in svg]
    assert len(pictures) > 6 and all(len(svg["aria-label"]) > 5 and svg["role"] == "img" for svg in pictures)
    assert all(image["alt"] and image["src"].startswith("data:image/png;base64,") for image in found.all("img"))
    ids = [attributes["id"] for _, attributes in found.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {use["href"][1:] for use in found.all("use")} <= set(ids)
    assert not re.search(r"#010203|#040506|#070809|DejaVu Sans'|xlink", text)


def test_equal_scores_give_equal_bytes(path, scores, tmp_path):
    assert page.write(tmp_path / "again.html", scores).read_bytes() == path.read_bytes()


def test_given_tables_come_first_and_the_words_of_others_are_text(scores, tmp_path):
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "one.png")
    table = Table("Ours", ["row", "ours (%)"], [["<A & B>", "70.00 ± 1.00 *"], ["B", "-"]], "a & b")
    written = page.write(
        tmp_path / "p.html", scores[:1], title="<script>alert(1)</script>", tables=[table], notes=["5 < 6"],
        pictures=[("a sweep", tmp_path / "one.png")],
    ).read_text()  # fmt: skip
    Reader(written)
    assert "<script" not in written and "&lt;script&gt;alert(1)" in written and "5 &lt; 6" in written
    assert "&lt;A &amp; B&gt;" in written and "a &amp; b" in written
    assert '<td class="n"><b>70.00 <span class="pm">±&#8239;1.00</span></b></td>' in written
    assert written.index("Ours") < written.index("<summary>All scores</summary>") and 'alt="a sweep"' in written
    assert "Against" not in written
    with pytest.raises(FedcliError, match="no picture that a page can hold"):
        page.write(tmp_path / "q.html", scores[:1], pictures=[("x", tmp_path / "p.html")])


def test_the_reference_is_the_one_asked_for_and_the_first_by_default(scores):
    compared = systems(rows(scores, spread="pooled"), scores)
    (table,) = statistics.tests(compared, ["accuracy"], "fedheal")
    assert table.title == "Against FedHEAL (2 seeds): average accuracy" and "Holm" in table.legend
    assert table.lines[0][0] == "FedHEAL (2 seeds)" and table.lines[0][-1] == "the reference"
    assert table.lines[1][0] == "FedAvg (2 seeds)" and " to " in table.lines[1][3]
    assert statistics.tests(compared, ["accuracy", "recall_macro"], "")[0].title.startswith("Against FedAvg")
    with pytest.raises(UsageError, match="no row of the report is named 'fedhel'"):
        statistics.tests(compared, ["accuracy"], "fedhel")


def test_scores_alone_make_a_page(scores, tmp_path):
    """Without the run and the data that they were made from, and without what later versions added."""
    (tmp_path / "old").mkdir()
    old = manifest.read(scores[0])
    new = ("intervals", "best_on_validation", "among_clients_groups")
    body = {key: value for key, value in old.body.items() if key not in new}
    alone = manifest.seal(tmp_path / "old", manifest.Manifest("scores", [], old.options, {}, {}, body))
    written = page.write(tmp_path / "p.html", [alone]).read_text()
    Reader(written)
    assert "<h1>FedAvg on made</h1>" in written and 'id="figures"' not in written and 'id="corruption"' not in written


def test_the_images_are_the_first_of_each_class_as_they_are_and_changed():
    assert images.chosen(np.array([2, 2, 0, 1, 1, 0, 2])).tolist() == [2, 5, 3, 4, 0, 1]
    clean = np.arange(2 * 50 * 50, dtype=np.uint8).reshape(2, 50, 50, 1)
    picture = images._pasted(clean, clean[::-1])
    assert (
        picture.shape == (2 * 104, 2 * 104) and picture[2, 2] == clean[0, 0, 0] and picture[106, 106] == clean[0, 0, 0]
    )
    opened = Image.open(io.BytesIO(base64.b64decode(images.png(picture).partition(",")[2])))
    assert (np.array(opened) == picture).all()


def test_curves_are_means_over_clients_and_then_over_seeds():
    def a_run(**clients):
        curves = {name: np.array([[t + 1.0, value] for t, value in enumerate(v)]) for name, v in clients.items()}
        return Series("loss", "", curves)

    one, other = a_run(a=[1, 3], b=[3, np.nan]), a_run(a=[4, 5, 6])
    rounds, mean, low, high = convergence.over_seeds([one, other])
    assert rounds.tolist() == [1, 2, 3] and mean.tolist() == [3, 4, 6]
    assert low.tolist() == [2, 3, 6] and high.tolist() == [4, 5, 6]


def test_a_figure_is_drawn_in_names_of_the_page_and_escapes_its_words():
    drawn = figures.dots({0: {"<m>": (0.5, np.nan, np.nan)}, 8: {"<m>": (0.7, 0.6, 0.8)}}, 'say "x" & y', "by sex")
    assert drawn.svg.startswith('<svg aria-label="say &#34;x&#34; &amp; y. by sex" role="img" viewBox="0 0 ')
    assert "var(--c0)" in drawn.svg and "var(--c1)" in drawn.svg and "&lt;m&gt;" in drawn.svg


def test_cells_and_commands_are_marked_up():
    assert markup.shown_cell("auc_ovo") == "auc_<wbr>ovo"
    assert markup.shown_cell("fedcli train --lr 1") == '<code>fedcli train <span class="nb">--lr</span> 1</code>'
    assert Table("", ["a", "b"], [["x", "−1.0 to +2"], ["y", "< 0.001"]]).numeric == [False, True]


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed")
def test_a_browser_shows_the_page_within_a_narrow_window(path, tmp_path):
    probe = "<script>document.title = document.documentElement.scrollWidth + ' of ' + innerWidth</script></body>"
    (tmp_path / "page.html").write_text(path.read_text().replace("</body>", probe))
    command = [CHROMIUM, *QUIET.split(), f"--user-data-dir={tmp_path / 'profile'}", "--window-size=420,900"]
    command += ["--no-first-run", "--dump-dom", f"file://{tmp_path / 'page.html'}"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    wide, window = map(int, re.search(r"<title>(\d+) of (\d+)</title>", shown).groups())
    assert wide <= window and shown.count("<svg") == path.read_text().count("<svg")
