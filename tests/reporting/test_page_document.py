"""A document as Markdown and as HTML, its pictures, terms and cells."""

import base64

import pytest

from fedcli.errors import FedcliError
from fedcli.metrics import PARITY, get, title
from fedcli.reporting import page
from fedcli.reporting.page import markup
from fedcli.reporting.table import Cell, Column, ReportTable, Section

TABLE = ReportTable.of("Scores", ["method", Column("AUC", "%")], [["FedAvg", 0.81]], "In percent.")
SECTION = Section(
    "answer",
    "The answer",
    [TABLE],
    text=["A sentence."],
    notes=["A note.", "Another."],
    pairs=[("rounds", "5")],
)
TEXT = """\
Generated images.

# A title

A lead.

- Data: scans
- Model: cnn

## The answer

A sentence.

- A note.
- Another.
- rounds: 5

### Scores

| method | AUC (%) |
| --- | ---: |
| FedAvg | 81.0 |

In percent.
"""


def document(*sections, **parts):
    facts = [("Data", "scans"), ("Model", "cnn")]
    return page.Document("A title", "A lead.", facts, sections, **parts)


def test_a_document_in_markdown_has_lists_without_blank_lines():
    assert document(SECTION, generated="Generated images.").markdown == TEXT


def test_a_table_without_title_and_legend_has_neither_in_markdown():
    bare = ReportTable.of("", ["method"], [["FedAvg"]])
    text = document(Section("bare", "Bare", [bare])).markdown
    assert text.startswith("# A title\n\nA lead.\n\n- Data: scans\n- Model: cnn\n\n## Bare\n\n|")
    assert text.endswith("| FedAvg |\n")
    assert "###" not in text


def test_a_document_in_html_leaves_out_sections_that_hold_nothing():
    text = document(SECTION, Section("empty", "Nothing")).html
    assert '<section id="answer">' in text
    assert 'id="empty"' not in text
    assert "<dt>Data</dt><dd>scans</dd>" in text
    assert '<p class="brand">fedcli report</p>' in text
    assert "<h3>Before you compare</h3><ul><li>A note.</li><li>Another.</li></ul>" in text


def test_a_document_in_html_names_generated_images_and_explains_terms():
    text = document(SECTION, generated="Generated images.", terms=[("AUC", "An area.")]).html
    assert '<p class="generated">Generated images.</p>' in text
    assert "<dt>AUC</dt><dd>An area.</dd>" in text


def test_words_of_a_document_are_escaped():
    section = Section("x", "<b>", text=["a & b"])
    text = document(section).html
    assert "<h2>&lt;b&gt;</h2>" in text
    assert "<p>a &amp; b</p>" in text


def test_pictures_are_held_by_the_page(tmp_path):
    path = tmp_path / "curve.SVG"
    path.write_bytes(b"<svg/>")
    (panels,) = page.pictures([("A curve", path)])
    (drawing,) = panels.figures
    data = base64.b64encode(b"<svg/>").decode()
    assert drawing.caption == "A curve"
    assert drawing.image == f"data:image/svg+xml;base64,{data}"
    assert panels.layout == "wide"


def test_a_file_that_is_no_picture_is_refused(tmp_path):
    with pytest.raises(FedcliError, match=r"curve\.pdf is no picture that a page can hold"):
        page.pictures([("A curve", tmp_path / "curve.pdf")])
    assert page.pictures([]) == []


def test_terms_are_the_metrics_of_the_page_then_all_others():
    accuracy = title("accuracy")
    terms = page._terms(["accuracy"], set())
    assert terms[0] == (accuracy, get("accuracy").meaning)
    names = [name for name, _ in terms]
    for name in PARITY:
        assert title(name) in names
    assert title("balanced_accuracy") not in names


def test_a_metric_in_the_head_of_a_table_is_explained():
    balanced = title("balanced_accuracy")
    for head in (balanced, f"{balanced} (%)", f"{balanced}, %", f"by sex: {balanced}"):
        terms = dict(page._terms([], {head}))
        assert terms[balanced] == get("balanced_accuracy").meaning


CELLS = [
    (Cell("fedavg_m"), "fedavg_<wbr>m"),
    (Cell("a/b"), "a/<wbr>b"),
    (Cell("81.0", best=True), "<b>81.0</b>"),
    (Cell("81.0", spread="1.2"), '81.0 <span class="pm">±&#8239;1.2</span>'),
    (Cell("81.0", whose="sex f"), '81.0 <span class="pm">sex f</span>'),
    (Cell("81.0", below=Cell("80.0")), '81.0<br><span class="pm">80.0</span>'),
    (Cell("<"), "&lt;"),
    (Cell("1.0 (0.5 – 2.0)"), '1.0 <span class="pm nb">(0.5 – 2.0)</span>'),
]


@pytest.mark.parametrize(("cell", "html"), CELLS)
def test_a_cell_is_marked_up(cell, html):
    assert markup.shown_cell(cell) == html


def test_options_of_a_command_stay_in_one_piece():
    command = markup.shown_cell(Cell("fedcli train fedavg --lr '<1'"))
    words = 'fedcli train fedavg <span class="nb">--lr</span> &#39;&lt;1&#39;'
    assert command == f"<code>{words}</code>"


def test_an_option_behind_words_is_small():
    assert markup.breakable("Rate (--lr)") == 'Rate <small class="pm nb">--lr</small>'


def test_heads_without_a_common_one_have_a_single_line():
    (line,) = markup.heads([Column("method"), Column("AUC", "%")])
    assert [head.text for head in line] == ["method", "AUC (%)"]
    assert [head.at for head in line] == [0, 1]
    assert {head.rows for head in line} == {1}


def test_heads_with_a_common_one_have_two_lines():
    columns = [Column("method"), Column("clean", over="AUC"), Column("noisy", over="AUC")]
    above, below = markup.heads(columns)
    result = [(head.text, head.columns, head.rows) for head in above]
    assert result == [
        ("method", 1, 2),
        ("AUC", 2, 1),
    ]
    assert [head.text for head in below] == ["clean", "noisy"]
    assert [head.at for head in above] == [0, None]
    assert [head.at for head in below] == [1, 2]
    assert markup.heads([]) == [[]]


def test_a_fragment_for_a_notebook_has_tables_then_sentences():
    text = markup.fragment([TABLE], ["Less < more."])
    assert text.count("<table>") == 1
    assert text.endswith("<p>Less &lt; more.</p>")
    assert "<!doctype" not in text
