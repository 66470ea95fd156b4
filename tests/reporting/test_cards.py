"""Model card, dataset card, evidence for guidelines, and Table 1."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import session
from conftest import ROSTER, make_chain
from made_plans import planned, train
from report_tables import texts
from scored_runs import heal, model, scored

from fedcli.data import manifest
from fedcli.federation.client import Training
from fedcli.figures.kinds import flow
from fedcli.reporting import cards, evidence
from fedcli.reporting.page import lead, provenance
from fedcli.reporting.rows import compared, rows
from fedcli.reporting.single_runs import by_severity_and_group
from fedcli.reporting.table import DAGGER, Cell, Column, ReportTable, number
from fedcli.scores.evaluate import evaluate
from fedcli.scores.evaluation_options import EvaluateOptions, ReportOptions
from fedcli.stages.report import Report

COUNTS = {  # items with material, and half
    "CLAIM 2024": (13, 10),
    "EU AI Act": (4, 7),
    "FUTURE-AI": (5, 4),
    "STARD-AI": (8, 6),
    "TRIPOD+AI": (14, 7),
}


POINT = SimpleNamespace(
    positive="ill", rule="sensitivity=0.95", threshold=0.1234, images=12, source="images"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained run, evaluated with operating points and under a corruption."""
    work = tmp_path_factory.mktemp("cards")
    data = make_chain(work)
    training = Training(batch_size=10, lr=0.01)
    trained = train(data, planned("fedavg", {}, training, 1), work=work, out=None)
    return evaluate(
        trained, EvaluateOptions(corrupt=["gaussian-noise"], severity=["1"], clinical=True)
    )


@pytest.fixture(scope="module")
def row(run):
    (row,) = rows([run])
    return row


def test_every_answer_is_a_field_of_a_manifest_with_its_hash(run, row):
    guidelines = evidence.guidelines(run, row.scores)
    manifests = {kind: manifest.parent(run, kind) for kind in ("dataset", "partition", "run")} | {
        "scores": run
    }
    hashes = {}
    for path in manifests.values():
        hashes[f"{path.parent.name}/{path.name}"] = manifest.sha256(path)
    items = [item for guideline in guidelines for item in guideline["items"]]
    answers = [answer for item in items for answer in item["answers"]]
    assert answers
    for answer in answers:
        assert hashes[answer["manifest"]] == answer["sha256"]
    training = next(item for item in guidelines[0]["items"] if item["item"] == "25")
    values = {answer["field"]: answer["value"] for answer in training["answers"]}
    assert json.loads(values["body.rounds"]) == 1


def test_a_run_fills_what_a_median_paper_does_not(run, row):
    guidelines = {
        guideline["guideline"]: guideline for guideline in evidence.guidelines(run, row.scores)
    }
    result = (len(guidelines["CLAIM 2024"]["items"]), len(guidelines["TRIPOD+AI"]["items"]))
    assert result == (44, 52)
    counts = {
        name: (guideline["material"], guideline["half"]) for name, guideline in guidelines.items()
    }
    assert counts == COUNTS  # this dataset has no card: where the data come from is not known
    body = json.loads(evidence.as_json(list(guidelines.values())))
    states = {item["item"]: item["state"] for item in body[0]["items"]}
    assert states["3"] == "a person must write this"
    assert states["22"] == "there is material"
    answers = [a for guideline in body for item in guideline["items"] for a in item["answers"]]
    for answer in answers:
        assert answer["value"] not in ("", "{}", '"none"')


def test_an_item_of_two_halves_is_half_where_one_of_them_has_no_material(run, row):
    guidelines = {
        guideline["guideline"]: guideline for guideline in evidence.guidelines(run, row.scores)
    }
    items = {item["item"]: item for item in guidelines["TRIPOD+AI"]["items"]}
    assert items["13"]["state"] == "half"
    assert items["13"]["without"] == ["how it was handled"]
    assert "run:options.class_weights" not in json.dumps(items["13"]["answers"])
    page = cards.evidence_page(row, list(guidelines.values())).markdown
    assert "how it was handled: a person must write this" in page


def claim(run, scores, number):
    (items,) = [
        guideline["items"]
        for guideline in evidence.guidelines(run, scores)
        if guideline["guideline"] == "CLAIM 2024"
    ]
    return next(item for item in items if item["item"] == number)


def test_the_selection_of_the_final_model_quotes_the_rounds_that_are_reported(run, row):
    item = claim(run, row.scores, "26")
    assert item["state"] == "half"
    assert "why the reported model is of these rounds" in item["without"]
    values = {answer["field"]: answer["value"] for answer in item["answers"]}
    assert json.loads(values["body.kept_rounds"]) == row.scores.kept_rounds


def test_parts_that_share_patients_are_counted_and_no_material(run, row):
    assert claim(run, row.scores, "20")["state"] == "there is material"
    shared = {"unit": "patients", "test": {"shared": 3, "of": 40}}
    item = claim(run, replace(row.scores, shared_patients=shared), "20")
    assert item["state"] == "half"
    assert item["without"] == ["that parts share nothing"]
    values = {answer["field"]: answer["value"] for answer in item["answers"]}
    assert json.loads(values["body.shared_patients"]) == shared


def test_thresholds_are_material_only_where_some_were_chosen():
    fields = [["thresholds", ["scores:body.clinical.classes.*.*.operating"]], ["why these", []]]

    def item(*operating):
        classes = {"ill": {"clean": {"operating": list(operating)}}, "well": {}}
        content = {"body": {"clinical": {"validation": 0, "classes": classes}}}
        return evidence._item("12a", "", fields, {"scores": ("a/scores.json", "0" * 64, content)})

    assert item()["state"] == evidence.PERSON
    chosen = item({"rule": "youden", "thresholds": {"": 0.4}})
    assert chosen["state"] == evidence.HALF
    (answer,) = chosen["answers"]
    assert json.loads(answer["value"])["ill"]["clean"][0]["thresholds"] == {"": 0.4}


@pytest.mark.parametrize("number", ["10", "23", "27", "36", "39"])
def test_an_item_whose_facts_no_manifest_has_is_not_filled(run, row, number):
    assert claim(run, row.scores, number)["state"] in (evidence.HALF, evidence.PERSON)


def test_scores_of_other_images_are_no_evaluation_on_internal_data(run, row):
    assert claim(run, row.scores, "32")["state"] == "there is material"
    external = SimpleNamespace(dataset="other", sha256="0" * 64)
    sources = evidence._sources(run, row.scores)
    content = sources["scores"][2]
    content["body"]["external"] = vars(external)
    fields = ["scores:body.versions", "!scores:body.external"]
    assert evidence._item("32", "", fields, sources)["state"] == evidence.PERSON


@pytest.mark.parametrize(
    "value",
    [
        None,
        False,
        "",
        "none",
        {},
        {"a": {}},
        {"a": {"b": None}},
        "your own folder",
        "Your own images: a folder",
    ],
)
def test_a_value_that_says_nothing_is_no_material(value):
    assert not evidence.says_something(value)


def test_a_long_value_is_quoted_by_the_names_of_its_parts():
    value = {"sex": {"clean": list(range(200))}, "age": {"clean": [1]}, "race": {}}
    assert evidence.quoted(value) == "3 entries: age, sex"
    assert evidence.quoted([1, 2]) == "[1, 2]"
    assert evidence.says_something([])
    assert evidence.quoted(list(range(300))).startswith("300 entries: [0, 1, ")
    result = len(evidence.quoted("x" * 300))
    assert result == evidence.SHORT


def test_the_card_of_ones_own_images_is_no_evidence(row):
    scores = replace(row.scores, dataset="images")
    assert not {"where", "citation", "licence"} & evidence.card_of(scores).keys()


def test_numbers_of_items_are_distinct():
    import tomllib

    for guideline in tomllib.loads(evidence.ITEMS.read_text())["guideline"]:
        numbers = [number for number, _, _ in guideline["items"]]
        assert len(numbers) == len(set(numbers)), guideline["name"]
        parts = [part for *_, fields in guideline["items"] for part in evidence.parts_of(fields)]
        fields = [field for _, part in parts for field in part]
        for field in fields:
            assert field.removeprefix(evidence.AGAINST).split(":")[0] in (*evidence.KINDS, "card")
            assert ":" in field


def test_the_cards_hold_what_is_known_and_name_what_is_not(row):
    model_card, dataset_card = cards.cards(row)
    text = model_card.markdown
    for title in (
        "Intended use",
        "Performance by group",
        "Operating points and calibration",
        "Known failures",
        "Provenance",
    ):
        assert f"\n## {title}\n" in text
    assert "the last five rounds ± their standard deviation" in text  # what the ± of the scores is
    assert "A person must write this: what it is for" in text
    assert "no group by sex on clean images" in text
    tables = next(section for section in model_card.sections if section.name == "groups").tables
    assert tables[0].rows[-1][2].text == f"0.0{DAGGER}"
    alike = "no group by sex on clean images, last round, scores lower than another: "
    assert f"{alike}100.0 % AUC, one-vs-one (not reliable)" in text
    assert "### Gaps between groups, last round: FedAvg" in text
    assert "auc_ovo_macro" not in text
    methods = next(section for section in model_card.sections if section.name == "training").tables[
        0
    ]
    for cell in methods.rows[0][-2:]:
        assert float(cell.text) > 0
    assert "gaussian noise" in text
    assert "<h2>Robustness</h2>" in model_card.html
    assert "| unknown |" not in dataset_card.markdown
    assert "A person must write this: licence of the data." in dataset_card.markdown


def test_the_command_writes_cards_and_evidence(run, tmp_path):
    session.run(f"fedcli report {run} --card {tmp_path}/cards --evidence {tmp_path}/evidence")
    names = sorted(path.name for path in (tmp_path / "cards").iterdir())
    assert names == ["dataset-card.html", "dataset-card.md", "model-card.html", "model-card.md"]
    result = sorted(path.name for path in (tmp_path / "evidence").iterdir())
    assert result == [
        "evidence.html",
        "evidence.json",
    ]


def test_a_card_is_of_one_system(tmp_path):
    average = scored(tmp_path / "a", model(1, 0))
    healed = heal(tmp_path / "b", model(2, 0))
    written = f"--export {tmp_path}/numbers.csv --card {tmp_path}/cards"
    printed = session.run(f"fedcli report {average} {healed} {written}")
    assert "a card is of one system, and these runs are 2: FedAvg, FedHEAL" in printed
    assert "warning" not in printed  # nothing is said or written before
    assert not (tmp_path / "numbers.csv").exists()


def test_a_figure_that_there_is_not_is_refused_before_anything_is_written(run, tmp_path):
    written = f"--export {tmp_path}/n.csv --card {tmp_path}/cards --figures {tmp_path}/figures"
    printed = session.run(f"fedcli report {run} --draw nonsense {written}")
    assert "no figure has 'nonsense' in its name" in printed
    assert "BalAcc" not in printed
    assert list(tmp_path.iterdir()) == []


def test_a_card_says_its_classes_and_that_images_are_generated(row):
    model_card, data = cards.cards(row)
    expected = ("Classes", f"3: {', '.join(row.scores.classes)}")
    assert expected in model_card.facts
    assert model_card.generated == ""
    assert ("Classes", ", ".join(row.scores.classes)) in data.facts
    sentence = "Generated images with a planted disparity."
    marked = cards.replace(model_card, generated=sentence)
    assert marked.markdown.startswith(sentence)
    assert marked.html.index(sentence) < marked.html.index("<h1>")


def test_table_1_counts_every_image_of_each_client_once(row, run):
    (table,) = provenance.table_one(manifest.parent(run, "run"))
    heads = [column.title for column in table.columns]
    expected = [*(f"{client}, train" for client in ROSTER), "all, test"]
    assert heads[1:] == expected
    images, *others = texts(table)
    assert images[1:] == ["20", "20", "20", "20", "40"]
    shares = {line[0]: line[1] for line in others if line[0].startswith("sex")}
    assert shares == {"sex: f": "10 (50.0)", "sex: m": "10 (50.0)"}


def test_a_card_names_what_was_read_and_not_how(row):
    result = lead.described(replace(row.scores, dataset="images"))
    assert result == "Your own images"
    assert lead.described(replace(row.scores, dataset="chexpert")).startswith(
        "CheXpert: chest radiographs"
    )
    assert flow._scheme("iid") == "Every client a random share, even up to one image"
    assert flow._scheme("mine") == "Scheme mine"


def test_the_flow_adds_up(row, run):
    (system,) = compared([row])
    images = flow.frame(system).set_index("step")["images"]
    assert images["files listed"] == images["images prepared"] == 120
    assert images["trained on"] == 80
    assert images["tested on"] == 40
    assert (
        flow._left_out([{"file": "a", "why": "x"}, {"file": "b", "why": "x"}])
        == "2 unreadable or excluded (2: x)"
    )


def test_scores_by_severity_and_group_have_a_gap(row):
    (table,) = by_severity_and_group([("", row.scores)])
    clean, noisy = table.rows
    assert [column.name for column in table.columns] == ["test images", "severity", "f", "m", "gap"]
    assert clean[0].text == "clean"
    assert noisy[1].text == "1"
    numbers = [cell.number for cell in noisy[2:4]]
    expected = pytest.approx(max(numbers) - min(numbers))
    assert noisy[4].number == expected


def test_the_first_sentence_agrees_with_the_augmentation_among_the_options(row):
    options = row.scores.options
    (run,) = row.scored

    def said(augment):
        scores = replace(run.scores, options={**options, "augment": augment}, corruption=None)
        return lead.sentence([replace(row, scored=[replace(run, scores=scores)])])

    assert said("none").endswith("on images as they are.")
    assert said("affine-flip").endswith("on images without corruption, augmented by affine-flip.")


def test_settings_that_had_no_effect_are_not_listed(row):
    def listed(**options):
        (run,) = row.scored
        scores = replace(run.scores, options={**run.scores.options, **options})
        table = provenance.settings([replace(row, scored=[replace(run, scores=scores)])], False)
        return " ".join(name for name, _ in table.pairs)

    private = {"dp_clip": 1.0, "dp_delta": 1e-5}
    result = (
        listed(**private, dp_noise=0.0, dp_sgd=0.0)
        .replace("--dp client", "")
        .replace("--dp image", "")
    )
    assert "--dp-" not in result
    with_noise = listed(**private, dp_noise=20.0)
    assert "--dp clip" in with_noise
    assert "--dp delta" in with_noise


def test_a_column_of_numbers_is_one_even_where_a_count_is_hidden():
    counts = [number(68.0, digits=0), Cell("few")]
    table = ReportTable(
        "", [Column("group"), Column("train")], [(Cell(g), c) for g, c in zip("ab", counts)]
    )
    assert table.numeric == [False, True]


def text_of(section):
    return " ".join(section.text)


def test_a_question_for_a_person_is_a_section(row):
    section = cards._question("use", "Intended use", "who uses it")
    assert (section.name, section.title) == ("use", "Intended use")
    assert text_of(section) == "A person must write this: who uses it."


def test_a_model_card_has_its_parts_in_order(row):
    (system,) = compared([row])
    titles = [section.title for section in cards._model_sections(system, row)]
    assert titles == [
        "Intended use",
        "Training and test data",
        "Training",
        "Performance",
        "Performance by group",
        "Operating points and calibration",
        "Robustness",
        "Known failures",
        "Risks and limits",
    ]


def test_a_system_without_points_and_severities_says_how_to_have_them(tmp_path):
    run = scored(tmp_path / "run", model(1, 0))
    (line,) = rows([run])
    (system,) = compared([line])
    sections = {section.name: section for section in cards._model_sections(system, line)}
    assert text_of(sections["points"]) == cards.NO_POINTS
    assert text_of(sections["robustness"]) == cards.NO_SEVERITIES


def test_thresholds_are_listed_with_the_images_that_chose_them(row, monkeypatch):
    (system,) = compared([row])
    assert cards._thresholds(system) == []  # no client has validation images
    monkeypatch.setattr(cards, "chosen_points", lambda run: [POINT])
    (table,) = cards._thresholds(system)
    assert table.title == "Thresholds"
    texts = [cell.text for cell in table.rows[0]]
    assert texts == ["ill", "95 % sensitivity", "0.1234", "12", "images"]
    assert table.legend == "From the validation images of these data, and for these data alone."


def test_numbers_of_the_first_of_several_runs_have_its_seed(tmp_path, monkeypatch):
    runs = [scored(tmp_path / f"a{seed}", model(1, seed), seed=seed) for seed in (0, 1)]
    (line,) = rows(runs, spread="pooled")
    (system,) = compared([line])
    named = []
    monkeypatch.setattr(cards.clinical, "tables", lambda runs, *_: named.extend(runs) or [])
    sections = {section.name: section for section in cards._model_sections(system, line)}
    (note,) = [note for note in sections["failures"].notes if note.startswith("worst group")]
    assert note.startswith("worst group by sex on clean images, seed 0, last round: ")
    assert not list(Report(runs, ReportOptions()).operating)
    assert [name for name, _ in named] == ["FedAvg (2 seeds), seed 0"] * 2
    monkeypatch.setattr(cards, "_points", lambda system: [POINT])
    assert cards._thresholds(system)[0].title == "Thresholds: FedAvg (2 seeds), seed 0"


def test_a_dataset_card_lists_options_that_were_given(row):
    (system,) = compared([row])
    options = {"size": 8, "clip": None, "skip": [], "name": ""}
    body = {"unknown": {"age": 3}}
    sections = {part.name: part for part in cards._dataset_sections(system, body, options)}
    assert sections["preparation"].pairs == [("size", "8")]
    (missing,) = sections["missing"].tables
    result = [cell.text for cell in missing.rows[0]]
    assert result == ["age", "3"]
    assert "consent" in text_of(sections["collection"])


def test_licences_of_weights_are_asked_for_where_there_are_some(row):
    options = {**row.scores.options, "weights": "imagenet"}
    with_weights = dict(cards._licences(replace(row.scores, options=options)))
    assert with_weights["Initial weights"] == "A person must write this: licence of imagenet."
    options["weights"] = None
    without = dict(cards._licences(replace(row.scores, options=options)))
    assert without["Initial weights"] == "none: trained from random values"


ANSWER = {
    "manifest": "a/run.json",
    "field": "body.rounds",
    "value": "5",
    "sha256": "0123456789abcd",
}
ITEM = {"item": "1", "asks": "rounds", "state": "half", "without": ["dates"], "answers": [ANSWER]}


def test_an_item_is_quoted_with_the_hash_of_its_manifest():
    assert cards._evidence_line(ITEM) == [
        "1",
        "rounds",
        "half",
        "a/run.json body.rounds = 5 (0123456789ab); dates: a person must write this",
    ]


def test_an_item_without_material_is_open():
    line = cards._evidence_line(ITEM | {"answers": []})
    assert line[2:] == ["open", "a person must write this"]


def test_the_page_of_evidence_counts_items_and_halves(row):
    guideline = {"guideline": "CLAIM", "source": "A journal", "material": 1, "half": 1}
    guidelines = [guideline | {"items": [ITEM, ITEM]}, guideline | {"half": 0, "items": [ITEM]}]
    document = cards.evidence_page(row, guidelines)
    assert document.title == f"Evidence for reporting guidelines: {row.name}"
    assert document.facts == [("CLAIM", "1 of 2, 1 by half"), ("CLAIM", "1 of 1")]
    assert text_of(document.sections[0]) == ("A journal. There is material for 1 of 2, 1 by half.")
