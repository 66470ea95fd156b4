"""A site by itself: what it answers, refuses and writes down, and what it says of its images."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from made_plans import train
from scipy.integrate import quad
from scipy.stats import norm
from session import run
from site_federation import (
    Carried,
    chain_with_tests,
    engine_of,
    plan,
    sites_of,
    through_bytes,
    train_at,
)

from fedcli import methods
from fedcli.data.corruption.attack import Attack, make_attack
from fedcli.data.manifest import Destination
from fedcli.errors import FedcliError, UsageError
from fedcli.federation.client import ClientReport, ClientTask
from fedcli.sites import policy
from fedcli.sites.description import SiteError, describe, hidden, versions
from fedcli.sites.engine import Sites
from fedcli.sites.policy import Policy, Privacy, Refusal
from fedcli.sites.site import Site, recall, remember


def audit(site):
    return [json.loads(line) for line in (site.folder / "audit.jsonl").read_text().splitlines()]


def test_a_description_holds_no_id_and_hides_small_counts(data):
    described = describe(data, "north", "hospital-a")
    text = json.dumps(described)
    assert described["client"] == "hospital-a"
    assert described["images"] == {
        "train": 20,
        "val": 0,
        "test": 0,
    }
    assert "img-" not in text
    assert "patient" not in text
    assert described["counts"]["class"]["train"] == {"a": None, "b": None, "c": None}
    expected = {
        "a": 7,
        "b": 7,
        "c": 6,
    }
    result = describe(data, "north", "north", smallest=5)["counts"]["class"]["train"]
    assert result == expected


@pytest.mark.parametrize("kind", ["alie", "ipm", "min-max"])
def test_an_attack_that_sees_the_updates_of_others_has_no_site(data, tmp_path, kind):
    to = Destination(tmp_path, None, ["attack"])
    attacked = make_attack(data, Attack(kind, 1.0), to, 1)
    with pytest.raises(SiteError, match="attack by what the others send, which no site sees"):
        describe(attacked, "north", "hospital-a")


HIDDEN_CELLS = [
    (
        {"a": 3, "b": 40, "c": 20},
        {"a": None, "b": 40, "c": None},
    ),  # one hidden count is a difference
    (
        {"a": 1, "b": 2, "c": 20, "d": 30},
        {"a": None, "b": None, "c": None, "d": 30},
    ),  # as a sum of 3 is
    ({"a": 0, "b": 40}, {"a": 0, "b": 40}),
    ({"a": 6, "b": 7, "c": 50}, {"a": None, "b": None, "c": 50}),
]


@pytest.mark.parametrize(("cells", "expected"), HIDDEN_CELLS)
def test_no_sum_gives_a_hidden_count_away(cells, expected):
    assert hidden(cells, 10) == expected


def test_which_client_a_site_holds_must_be_clear(data, tmp_path):
    with pytest.raises(SiteError, match="has 4 clients"):
        Site(data, tmp_path / "site")
    with pytest.raises(SiteError, match="has no client 'nobody'"):
        Site(data, tmp_path / "site", client="nobody")
    with pytest.raises(SiteError, match="no name for a site"):
        Site(data, tmp_path / "site", client="north", name="../up")


def test_every_answer_is_a_line_in_the_audit_file(data, tmp_path):
    sites = sites_of(data, tmp_path / "sites")
    train_at(sites, data, plan("scaffold"), tmp_path)
    lines = audit(sites["north"])
    result = [(line["ask"], line["round"]) for line in lines]
    assert result == [
        ("begin", None),
        ("train", 1),
        ("train", 2),
    ]
    assert lines[1]["arrays"].keys() == {"theta", "loss", "columns/control_change"}
    assert len(lines[1]["sha256"]) == 64
    expected = ["client", "kept", "n", "round", "row", "run", "steps"]
    assert lines[1]["scalars"] == expected


WRONG_QUESTIONS = [
    ({}, "cannot answer 'None'"),
    ({"ask": "images"}, "cannot answer 'images'"),
    ({"ask": ["train"]}, "cannot answer"),
    ({"ask": "train", "client": "south"}, "it is north, not south"),
    ({"ask": "train", "client": "north"}, "has not begun this run"),
    ({"ask": "begin", "client": "north", "run": "../../up", "threads": 1}, "without a name"),
    (
        {"ask": "begin", "client": "north", "run": "0" * 16, "threads": 1},
        "the coordinator None",
    ),
]


@pytest.mark.parametrize(("question", "sentence"), WRONG_QUESTIONS)
def test_a_question_that_means_nothing_is_answered_by_a_sentence(site, question, sentence):
    scalars, arrays = through_bytes(site.answer(question, {}))
    assert sentence in scalars["error"]
    assert not arrays
    if "hint" in scalars:
        assert audit(site)[-1]["error"] == scalars["error"]
    else:
        assert scalars["unknown"]


def test_a_plan_that_names_a_file_or_a_field_of_another_version_is_refused(site):
    question = {
        "ask": "begin",
        "client": "north",
        "run": "0" * 16,
        "threads": 1,
        "versions": versions(),
    }
    whole = plan().decided()
    cases = (
        ({"weights": "/etc/passwd"}, "opens no file"),
        ({"method": "moon+/tmp/mine.py:rule"}, "opens no file"),
        ({"model": "./net.py:build"}, "opens no file"),
        ({"model": "timm:hf-hub:somebody/net"}, "opens no file"),
        ({"lr": "fast"}, "options received with lr 'fast', which is a text"),
        ({"lr": None}, "without a value of lr"),
        ({"new": 1}, "with an unknown 'new'"),
        ({"settings": None}, "with settings None"),
        ({"rounds": True}, "--rounds=True is not a number"),
        ({"method": "no such"}, "unknown method"),
    )
    for change, sentence in cases:
        scalars, _ = site.answer({**question, "plan": {**whole, **change}}, {})
        assert sentence in scalars["error"]


def test_what_fails_inside_leaves_without_its_text(site, monkeypatch, caplog):
    def fails(scalars, arrays):
        raise ValueError("patient 17 has no age")

    monkeypatch.setattr(site, "_begin", fails)
    scalars, _ = site.answer({"ask": "begin", "client": "north"}, {})
    assert scalars["error"] == "an unexpected ValueError, which its own log explains"
    assert "patient 17" in caplog.text
    assert "patient" not in json.dumps(audit(site))


def test_memory_is_kept_of_the_last_rounds(tmp_path):
    for round in range(1, 6):
        remember(tmp_path, round, {"c": torch.full((2,), float(round))})
    result = recall(tmp_path, 4, "cpu")["c"].tolist()
    assert result == [4.0, 4.0]
    assert recall(tmp_path, 0, "cpu") == {}
    with pytest.raises(
        FedcliError,
        match="after round 2 is not at this site, which has it of these rounds: 3, 4, 5",
    ):
        recall(tmp_path, 2, "cpu")


def a_policy(tmp_path, text):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return policy.read(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('methods = ["fedprox"]', "its policy allows the methods fedprox, not scaffold"),
        ("minimum_images = 21", "it has 20 training images; its policy asks for at least 21"),
        ("maximum_rounds = 1", "its policy allows 1 rounds, not 2"),
        ("columns = []", "does not allow the column 'control_change' to be sent"),
        ("[privacy]\nepsilon = 1e3", "does not allow the column 'control_change' to be sent"),
        ("gradients = false", "'control_change' is as long as one"),
    ],
)
def test_a_policy_refuses_in_a_sentence_that_names_the_site(data, tmp_path, text, sentence):
    sites = sites_of(data, tmp_path / "sites", policy=a_policy(tmp_path, text))
    with pytest.raises(SiteError, match=f"site north: .*{sentence}"):
        train_at(sites, data, plan("scaffold"), tmp_path)


def test_a_model_after_a_single_step_is_a_gradient(data, tmp_path):
    sites = sites_of(data, tmp_path / "sites", policy=Policy(gradients=False))
    with pytest.raises(
        SiteError, match="allows no gradients, and the model after a single step shows one"
    ):
        train_at(sites, data, plan(batch_size=32), tmp_path)
    train_at(sites, data, plan(), tmp_path, out=tmp_path / "run")  # three steps


WRONG_POLICIES = [
    ("method = []", "a policy has no 'method'"),
    ("methods = [", "is not TOML"),
    ("methods = 3", "methods is not a list of names"),
    ("minimum_images = -1", "minimum_images=-1 is out of range"),
    ("privacy = 1", "privacy is not a table"),
    ("[privacy]\nnoise = 0", "policy.toml: noise=0.0 is out of range"),
    ("smallest_cell = 0", "policy.toml: smallest_cell=0 is out of range"),
    ('methods = ["fedavgg"]', "policy.toml: unknown method 'fedavgg'"),
    ('methods = ["./mine.py:rule"]', "a site trains no method of a file"),
    ("[privacy]\nseed = 3", "a policy has no 'seed'"),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG_POLICIES)
def test_a_policy_that_means_nothing_is_refused(tmp_path, text, sentence):
    with pytest.raises(UsageError, match=sentence):
        a_policy(tmp_path, text)


def test_methods_and_columns_that_are_unknown_here_are_warned_of(tmp_path, caplog):
    allowed = a_policy(
        tmp_path, 'methods = ["FedAvg", "of-another-hospital"]\ncolumns = ["control_chang"]'
    )
    assert allowed.methods == ("fedavg", "of-another-hospital")
    assert allowed.columns == ("control_chang",)
    assert "'of-another-hospital', which this site cannot train" in caplog.text
    assert (
        "no method of fedcli reports a column 'control_chang'; did you mean 'control_change'?"
        in caplog.text
    )


def test_the_known_columns_are_those_that_methods_report():
    sources = [
        path.read_text(encoding="utf-8") for path in Path(methods.__file__).parent.glob("*.py")
    ]
    reported = {
        name for source in sources for name in re.findall(r'client\.report\["(\w+)"\]', source)
    }
    assert reported | {"sharpness", "loss"} == policy.COLUMNS, (
        "sharpness and loss are options of fedism"
    )


def checked(data, tmp_path, text):
    """The output of `fedcli site check` under a policy."""
    path = tmp_path / "policy.toml"
    path.write_text(text)
    printed = run(
        f"fedcli site check --data {data} --client north --policy {path} --state {tmp_path / 'state'}"
    )
    return " ".join(printed.split())


def test_a_check_says_how_many_answers_the_policy_allows_and_what_was_spent(tmp_path):
    data = chain_with_tests(tmp_path)
    printed = checked(data, tmp_path, "[privacy]\nnoise = 20.0")
    allowed = Privacy().answers
    assert policy.epsilon(20.0, allowed, 1e-5) <= 8.0 < policy.epsilon(20.0, allowed + 1, 1e-5)
    assert f"which allows {allowed:,} answers, one each round" in printed
    assert "Sent so far: 0 answers" in printed
    assert "mean training loss" not in printed
    assert "Nothing about the test images is sent" in printed
    assert "not even one" not in printed
    (tmp_path / "state").mkdir()
    ledger = {
        "answered": ["a" * 64, "b" * 64],
        "epsilon": 0.6,
        "delta": 1e-5,
    }  # with less noise than now
    (tmp_path / "state" / policy.LEDGER).write_text(json.dumps(ledger))
    assert "Sent so far: 2 answers, epsilon 0.6" in checked(data, tmp_path, "[privacy]")
    printed = checked(data, tmp_path, "[privacy]\nnoise = 0.5")
    assert "allows 0 answers" in printed
    assert "The first answer spends 24.4" in printed
    assert "not even one answer stays within epsilon 8" in printed


def test_a_check_says_what_leaves_in_an_evaluation_and_whether_models_are_summed(tmp_path):
    data = chain_with_tests(tmp_path)
    printed = checked(data, tmp_path, "smallest_cell = 3\nsecure_aggregation = true")
    assert "its mean training loss" in printed
    assert "counts of the 10 test images" in printed
    assert "of fewer than 3 images, and others" in printed
    assert "the sum over at least 2 sites" in printed
    assert "Nothing about the test images is sent" in checked(data, tmp_path, "scores = false")


def test_a_check_shows_what_leaves_in_sentences_that_say_so(tmp_path):
    data = chain_with_tests(tmp_path)
    printed = checked(data, tmp_path, "")
    assert "The model is sent as it is, not masked" in printed
    assert "The policy allows rounds of one training step" in printed
    printed = checked(
        data, tmp_path, "gradients = false\ncolumns = []\nminimum_images = 5\nmaximum_rounds = 3"
    )
    assert "A model after a single training step is not sent" in printed
    assert "a method that reports more than" in printed
    assert "at most 3 rounds of a training; at least 5 training images here" in printed


def test_the_guide_shows_what_a_check_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "sites.md").read_text(encoding="utf-8")
    example = " ".join(page.partition("`site check` prints")[2].split("```")[1].split())
    printed = checked(
        chain_with_tests(tmp_path), tmp_path, page.split("```toml")[1].split("```")[0]
    )
    printed = (
        printed.partition("Counts in the description")[0]
        .replace(" ─", "")
        .replace(" under this policy:", "")
    )
    subjects = " (?=sent once|sent each|form of|noise|further|image quality|evaluation|methods|limits|record)"
    rows = re.split(subjects, printed)
    rows_compared = [
        row.strip()
        for row in rows
        if row.startswith(("sent once", "form", "noise", "further", "limits"))
    ]
    assert len(rows_compared) >= 5
    for row in rows_compared:
        assert row in example


def test_the_policy_of_the_guide_lets_its_methods_train(data, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "sites.md").read_text(encoding="utf-8")
    text = page.split("```toml")[2].split("```")[0]
    allowed = a_policy(tmp_path, text.replace("minimum_images = 50", "minimum_images = 5"))
    for method in allowed.methods:
        sites = sites_of(data, tmp_path / method, policy=allowed)
        train_at(sites, data, plan(method), tmp_path, out=tmp_path / "runs" / method)
    assert allowed.columns == ("control_change",)


def test_a_check_says_that_a_client_without_test_images_cannot_be_evaluated(data, tmp_path):
    printed = checked(data, tmp_path, "")
    assert "this client has no test images" in printed
    assert "fedcli partition --by SITE" in printed


@pytest.mark.parametrize(("noise", "answers"), [(4.0, 1), (4.0, 10), (20.0, 100), (1.0, 1)])
def test_the_accountant_agrees_with_the_integral_and_stays_below_renyi(noise, answers):
    """Hockey-stick divergence of two normal densities, integrated; and the bound by Renyi divergences, which is looser.

    Mironov 2017, Propositions 1, 3 and 7: an order a costs k a / (2 s^2), with s = noise / 2 for one answer.
    """
    delta = 1e-5
    spent = policy.epsilon(noise, answers, delta)
    s = noise / 2 / math.sqrt(answers)  # of a normal density whose mean differs by 1

    def excess(x):
        return max(0.0, norm.pdf(x, 1, s) - math.exp(spent) * norm.pdf(x, 0, s))

    crossing = spent * s * s + 0.5
    result = quad(excess, crossing, crossing + 40 * s, epsabs=1e-14)[0]
    assert result == pytest.approx(delta, rel=1e-4)
    orders = np.linspace(1.01, 200, 20_000)
    divergences = answers * orders / (2 * (noise / 2) ** 2)
    renyi = (divergences + math.log(1 / delta) / (orders - 1)).min()
    assert 0.5 * renyi < spent < renyi


def test_more_answers_reveal_more_and_none_nothing():
    spent = [policy.epsilon(4.0, answers, 1e-5) for answers in range(5)]
    assert spent[0] == 0
    assert spent == sorted(spent)
    assert policy.epsilon(1e-3, 1, 1e-5) == math.inf


def test_a_noised_update_is_cut_differs_by_site_and_is_the_same_when_asked_again(data, tmp_path):
    strict = Policy(privacy=Privacy(clip=0.1, noise=0.5, epsilon=1e3))
    runs = []
    for name in "ab":
        sites = sites_of(data, tmp_path / name, policy=strict)
        run = train_at(sites, data, plan(rounds=1), tmp_path, out=tmp_path / f"run-{name}")
        runs.append(run)
    runs.append(train_at(sites, data, plan(rounds=1), tmp_path, out=tmp_path / "again"))
    models = [(run.parent / "models" / "00001.h5").read_bytes() for run in runs]
    first_model, other_model, same_model = models
    assert first_model != other_model
    assert other_model == same_model
    outcome = json.loads((runs[0].parent / "rounds.jsonl").read_text())["loss"]
    assert outcome == [None] * 4
    ledger = json.loads((tmp_path / "b" / "north" / "privacy.json").read_text())
    assert len(ledger["answered"]) == 1
    result = (tmp_path / "b" / "north" / "noise.key").stat().st_mode & 0o777
    assert result == 0o600


def test_no_two_updates_are_given_one_noise(data, tmp_path):
    """Else whoever may choose the plan cancels the noise: the same task under a plan that trains nothing shows it."""
    policy = Policy(privacy=Privacy(clip=1.0, noise=20.0, epsilon=1e6))
    sites = sites_of(data, tmp_path / "sites", policy=policy)
    sent = {}

    class Kept(Carried):
        def __call__(self, messages, timeout):
            for client, message in messages:
                if client == "north":
                    sent[message[0]["ask"]] = message
            return super().__call__(messages, timeout)

    with engine_of(lambda federation: Sites(federation, Kept(sites))) as engine:
        train(data, plan(rounds=1), work=tmp_path, engine=engine)
    (begin, tensors) = sent["begin"]
    task = sent["train"]
    site = sites["north"]
    first_theta = site.answer(*task)[1]["theta"]
    idle = {**begin["plan"], "lr": 1e-30}
    assert "error" not in site.answer({**begin, "plan": idle}, tensors)[0]
    second_theta = site.answer(*task)[1]["theta"]
    distance = np.linalg.norm(first_theta - second_theta)
    assert distance > 20  # the update itself has a norm of at most 1
    ledger = json.loads((tmp_path / "sites" / "north" / "privacy.json").read_text())
    assert len(ledger["answered"]) == 2


def test_an_update_is_moved_by_no_more_than_its_clip_and_noise(tmp_path):
    task = ClientTask("north", 0, 1, 1, 0, torch.zeros(2), {}, {})
    report = ClientReport(
        "north", 0, 1, 2, torch.tensor(0.5), torch.tensor([3.0, 4.0]), {}, {}
    )  # norm 5
    quiet = Privacy(clip=1.0, noise=1e-9, epsilon=math.inf)
    noised = policy.noised(report, task, quiet, tmp_path, "q")
    assert noised.theta.tolist() == pytest.approx([0.6, 0.8], abs=1e-6)
    assert noised.loss.isnan()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"answered": 3, "epsilon": 1, "delta": 1}', '{"answered": []}']
)
def test_a_damaged_ledger_is_refused(tmp_path, text):
    (tmp_path / "privacy.json").write_text(text)
    with pytest.raises(FedcliError, match=r"privacy.json"):
        policy.read_ledger(tmp_path / "privacy.json")


def test_a_site_whose_epsilon_is_spent_answers_no_more(tmp_path):
    task = ClientTask("north", 0, 1, 1, 0, torch.zeros(2), {}, {})
    report = ClientReport("north", 0, 1, 2, torch.tensor(0.5), torch.ones(2), {}, {})
    allowed = Privacy(noise=4.0, epsilon=policy.epsilon(4.0, 2, 1e-5) + 1e-9)
    for question in ("1", "2", "2"):
        policy.noised(report, task, allowed, tmp_path, question)
    with pytest.raises(Refusal, match="answer 3 would reveal epsilon"):
        policy.noised(report, task, allowed, tmp_path, "3")
