"""The page's script in a browser: columns sort, what is open is printed, nothing is wider than a telephone."""

import html
import json
import re
import shutil
import subprocess

import pytest

from fedcli.reporting.page import Document
from fedcli.reporting.table import ReportTable, Section

PROBE = """<script>
const table = document.querySelector("table"), head = table.tHead.rows[0].cells[1];
const button = head.querySelector("button"), root = document.documentElement;
const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent).join("");
const seen = () => [head.getAttribute("aria-sort"), names()];
button.focus();
const made = { focus: document.activeElement === button, sorted: [seen()], wide: root.scrollWidth > innerWidth };
for (const hit of [button, head, button]) { hit.click(); made.sorted.push(seen()); }
dispatchEvent(new Event("beforeprint"));
made.open = document.querySelector("details").open;
dispatchEvent(new Event("afterprint"));
made.closed = !document.querySelector("details").open;
made.alone = document.querySelectorAll("details table button").length;
document.title = JSON.stringify(made);
</script></body>"""


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium")
def test_columns_sort_and_what_is_open_is_printed(tmp_path):
    rows = [["a", "10.50 ±1.00"], ["b", "-"], ["c", "−2.00"], ["d", "9.75†"], ["e", "1,200"]]
    table = ReportTable.of(
        "Scores", ["name", "a_score_with_a_very_long_name_that_cannot_break"], rows
    )
    folded = ReportTable.of("Folded", ["x", "y"], [["1", "2"]])
    page = Document(
        "A page",
        "Of one table.",
        [],
        [Section("scores", "Scores", tables=[table], folded=[folded])],
    ).html
    (tmp_path / "page.html").write_text(page.replace("</body>", PROBE), encoding="utf-8")
    words = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=400,900",
        "--dump-dom",
    ]
    ended = subprocess.run(
        [*words, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120
    )
    outcome = json.loads(html.unescape(re.search("<title>(.*?)</title>", ended.stdout, re.S)[1]))
    expected = [
        [None, "abcde"],
        ["ascending", "cdaeb"],
        ["descending", "eadcb"],
        [None, "abcde"],
    ]
    assert outcome["sorted"] == expected
    assert outcome["focus"]
    assert not outcome["open"]
    assert outcome["closed"]
    assert not outcome["wide"]
    assert outcome["alone"] == 0  # a table of one line has nothing to sort
