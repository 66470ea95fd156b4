"""docs/which-method.md: its numbers are those of the CSV files, and its words follow from them."""

import csv
import re

import pytest
import results
import which_method

from fedcli.comparison.verdict import HIGHER, INCONCLUSIVE, LOWER, MODELS_ONLY
from fedcli.reproduction import recipe

TEMPLATES = {path.stem: path for path in which_method.PAGES}
TEXTS = [path.read_text(encoding="utf-8") for path in which_method.PAGES]
DECIMAL = re.compile(r"\d+\.\d")
OF_A_METHOD = ("difference", "marked", "change", "claim")
CACHED = which_method.numbers, which_method.means, which_method.tests, which_method.rank_tests


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_page_is_its_template_filled_with_the_scores(name):
    template = TEMPLATES[name]
    written = which_method.PAGES[template].read_text(encoding="utf-8")
    again = "write it anew: python benchmarks/which_method.py"
    assert which_method.page(template) == written, again


@pytest.mark.parametrize("text", TEXTS)
def test_no_result_is_written_by_hand(text):
    prose = [line for line in text.splitlines() if not line.startswith("    ")]  # no commands
    assert DECIMAL.findall(which_method.FIELD.sub("", "\n".join(prose))) == []


def test_each_line_names_the_methods_of_its_fields():
    count = 0
    for line in "\n".join(TEXTS).splitlines():
        text = which_method.FIELD.sub("", line)
        for name, arguments in which_method.FIELD.findall(line):
            if name in OF_A_METHOD:
                parts = arguments.split(" | ")
                method = parts[0] if name == "claim" else parts[2]
                assert method in text, (method, line)
                count += 1
    assert count > 20


def test_each_recipe_that_it_names_is_there_and_has_scores_or_is_said_to_be_missing():
    template = TEMPLATES["which_method_tables"]
    page = which_method.PAGES[template].read_text(encoding="utf-8")
    named = set(re.findall(r"benchmark/([a-z0-9-]+)", page))
    assert {f"benchmark/{name}" for name in named} <= recipe.names().keys()
    _, missing = page.split("## What is missing")
    for name in recipe.names():
        stem = name.removeprefix("benchmark/")
        if stem != name and stem not in which_method.recipes():
            assert f"benchmark/{stem}" in missing, name


CORRECTIONS = (
    "FedAvg, classes as they come",
    "FedAvg, logit-adjust-all",
    "Logit adjustment",
    "BSM-FL",
    "FedLC",
    "LDAM-DRW",
    "CReFF",
)


@pytest.mark.parametrize("federation", ["hospitals", "twenty"])
def test_the_correction_to_begin_with_is_significantly_below_no_other(federation):
    for method in CORRECTIONS:
        line = which_method.test_of(federation, "both balanced accuracy", method)
        is_shown = line["verdict"] in which_method.MARKS
        assert not is_shown or float(line["difference"]) < 0, method


# on clean images
LOSES = (
    "FedISM+",
    "FedISM",
    "SAGA",
    "AFL",
    "q-FFL",
    "TERM",
    "DnC",
    "Multi-Krum",
    "FairFed, equal opportunity by sex",
    "FairFed, equal opportunity by age",
)
LOSES_NOTHING = (
    "FedSAM",
    "SALT",
    "FedMRL",
    "FedAvg, then CCVR",
    "FedNTD",
    "FedCE",
    "Centred clipping",
    "FedMGDA+",
    "FedSNR",
    "FedHEAL",
    "SWAD",
    "FedFV",
)


def from_scratch(score, method):
    """The difference of a method from FedAvg in a small network, 0 if it is not significant."""
    line = which_method.test_of("hospitals-scratch", score, method)
    return float(line["difference"]) if line["verdict"] in which_method.MARKS else 0


def test_one_method_is_significantly_better_on_noisy_images_from_scratch_over_seeds_too():
    verdicts = {}
    for method in (*LOSES, *LOSES_NOTHING):
        line = which_method.test_of("hospitals-scratch", "noisy AUC", method)
        verdicts[method] = line["verdict"]
    better = [method for method, verdict in verdicts.items() if verdict == HIGHER]
    assert better == ["FedSAM"]
    assert from_scratch("clean AUC", "MoFedSAM") > 0 == from_scratch("noisy AUC", "MoFedSAM")


@pytest.mark.parametrize("method", [*LOSES_NOTHING, *LOSES])
def test_the_methods_that_the_page_says_gain_on_noisy_images_from_scratch_do(method):
    gain = from_scratch("noisy AUC", method)
    assert 0 < gain <= from_scratch("noisy AUC", "SALT")
    clean = from_scratch("clean balanced accuracy", method)
    assert clean < 0 if method in LOSES else clean == 0


def test_salt_gains_more_than_fedsam_in_each_seed():
    numbers = which_method.numbers("ham10000-hospitals-scratch")
    fedavg, fedsam, salt = (numbers[name]["noisy AUC"] for name in ("FedAvg", "FedSAM", "SALT"))
    for seed in (0, 1, 2):
        assert salt[seed] > fedsam[seed] > fedavg[seed]


def test_methods_with_a_higher_auc_in_both_federations_of_skin_images_are_named():
    higher = []
    for federation in ("hospitals", "twenty"):
        lines = which_method.tests(federation, "both AUC").items()
        higher.append({method for method, line in lines if line["verdict"] == HIGHER})
    assert higher[0] & higher[1] == {"FedHEAL", "FedCE", "FedDisco", "FedFV"}


@pytest.mark.parametrize("method", ["Median", "FairFed"])
def test_the_methods_that_the_page_says_do_the_reverse_do(method):
    assert from_scratch("clean AUC", method) > 0 > from_scratch("noisy AUC", method)


SCORES = {  # method -> its scores with three seeds
    "FedAvg": (50.0, 51.0, 52.0),
    "AFL": (53.0, 53.0, 53.0),
    "SALT": (49.0, 51.0, 53.0),
    "TERM": (40.0, 41.0, 42.0),
}
DIFFERENCES = (  # method, difference, low, high, verdict
    ("AFL", 2.0, 1.0, 3.0, HIGHER),
    ("SALT", -0.04, -1.0, 1.0, INCONCLUSIVE),
    ("TERM", -10.0, -12.0, -8.0, LOWER),
    ("FedDyn", 1.0, 0.5, 1.5, MODELS_ONLY),
)


def write(path, head, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


@pytest.fixture
def office(tmp_path, monkeypatch):
    monkeypatch.setattr(which_method, "HERE", tmp_path)
    rows = []
    for method, values in SCORES.items():
        for seed, value in enumerate(values):
            rows.append(("office", "probe", method, seed, "mean of domains", value))
            rows.append(("office", "probe", method, seed, "all images, accuracy", value))
    write(tmp_path / "office-probe.csv", results.SCORES, rows)
    tests = []
    for method, *numbers, verdict in DIFFERENCES:
        about = "office", "probe", method, "clean", "accuracy", 3
        tests.append((*about, *numbers, 0.01, 0.01, verdict))
    write(tmp_path / "office-probe-differences.csv", results.DIFFERENCES, tests)
    for function in CACHED:
        function.cache_clear()
    yield "office | all images, accuracy"
    for function in CACHED:
        function.cache_clear()


def test_differences_come_with_their_verdicts(office):
    filled = which_method.filled
    assert filled(f"{{difference: {office} | AFL}}") == "+2.0 (+1.0 to +3.0)"
    assert filled(f"{{marked: {office} | AFL}}") == "+2.0 (+1.0 to +3.0) s"
    assert filled(f"{{marked: {office} | SALT}}") == "+0.0 (-1.0 to +1.0)"
    assert filled(f"{{marked: {office} | FedDyn}}") == "+1.0 (+0.5 to +1.5) m"


def test_lists_of_methods_are_of_one_verdict(office):
    filled = which_method.filled
    assert filled(f"{{higher: {office}}}") == "AFL +2.0 (+1.0 to +3.0)"
    assert filled(f"{{lower: {office}}}") == "TERM -10.0 (-12.0 to -8.0)"


def test_a_change_has_an_interval_over_seeds(office):
    assert which_method.change("office", "mean of domains", "TERM") == "-10.0 (-10.0 to -10.0)"
    assert which_method.change("office", "mean of domains", "SALT") == "+0.0 (-2.5 to +2.5)"


@pytest.mark.parametrize(
    ("method", "sign", "end"),
    [
        ("AFL", ">", "confirmed"),
        ("AFL", "<", "contradicted"),
        ("TERM", "<", "confirmed"),
        ("FedDyn", ">", "not confirmed"),
    ],
)
def test_a_claim_ends_as_its_tests_do(office, method, sign, end):
    assert which_method.claim(method, f"office {sign} all images, accuracy") == end


@pytest.mark.parametrize(
    ("method", "end"), [("TERM", "contradicted"), ("SALT", "not confirmed"), ("AFL", "confirmed")]
)
def test_a_claim_on_a_score_without_a_test_ends_as_its_interval_over_seeds_does(
    office, method, end
):
    assert (
        which_method.claim_against(
            "TERM" if method == "AFL" else "FedAvg", method, "office > mean of domains"
        )
        == end
    )


def test_a_recommended_method_must_be_higher_somewhere(office):
    filled = which_method.filled
    score = "all images, accuracy"
    assert filled(f"{{gain: office | {score} | AFL}}") == "Office-Caltech-10 +2.0 (+1.0 to +3.0) s"
    with pytest.raises(ValueError, match="TERM is not above FedAvg"):
        filled(f"{{gain: office | {score} | TERM}}")
    column = "mean of domains"
    with pytest.raises(ValueError, match="TERM does not raise mean of domains"):
        filled(f"{{raised: office | {column} | TERM}}")


def test_a_table_of_differences_has_the_methods_named_and_those_significantly_higher(office):
    assert which_method.difference_table("office", "all images, accuracy", "TERM").split("\n") == [
        "| method | all images, accuracy |",
        "|---|---|",
        "| TERM | -10.0 (-12.0 to -8.0) s |",
        "| AFL | +2.0 (+1.0 to +3.0) s |",
    ]


def test_a_table_of_every_method_has_a_dash_where_there_is_no_score_or_no_test(office, monkeypatch):
    columns = {"all images, accuracy": "accuracy", "worst domain": "worst"}
    monkeypatch.setattr(which_method, "WHOLE", columns)
    monkeypatch.setattr(which_method, "COMPARED", ("all images, accuracy",))
    assert which_method.whole_table("office").split("\n") == [
        "| method | accuracy | to FedAvg | worst |",
        "|---|---:|---:|---:|",
        "| FedAvg | 51.0 | - | - |",
        "| AFL | 53.0 | +2.0 (+1.0 to +3.0) s | - |",
        "| SALT | 51.0 | +0.0 (-1.0 to +1.0) | - |",
        "| TERM | 41.0 | -10.0 (-12.0 to -8.0) s | - |",
    ]


def test_a_claim_names_the_federations_where_they_disagree(office, monkeypatch):
    monkeypatch.setattr(which_method, "has_verdicts", lambda name: name in ("office", "digits"))
    ends = {"office": "contradicted", "digits": "confirmed"}
    monkeypatch.setattr(which_method, "_end", lambda base, method, name, *score: ends[name])
    both = "office < std of domains", "digits < std of domains"
    assert which_method.claim("FedHEAL", *both) == (
        "confirmed: digits; contradicted: Office-Caltech-10"
    )
    ends["office"] = "confirmed"
    assert which_method.claim("FedHEAL", *both) == "confirmed"


def test_a_field_that_is_not_known_is_an_error(office):
    with pytest.raises(KeyError, match="nothing: 3"):
        which_method.filled("{nothing: 3}")


def test_long_lists_are_cut():
    assert which_method.joined(["a", "b"]) == "a and b"
    assert which_method.joined(list("abcdefghij")) == "a, b, c, d, e, f, g and 3 more"


def test_paragraphs_are_wrapped_and_tables_are_not():
    words = "word " * 60
    lines = which_method.wrapped(f"- {words}").splitlines()
    assert max(map(len, lines)) <= which_method.WIDTH
    assert lines[1].startswith("  word")
    assert which_method.wrapped(f"| {words}|") == f"| {words}|"
