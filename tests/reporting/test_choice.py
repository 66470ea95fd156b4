"""`--choose`: which round, and which run, validation images take by a rule."""

from types import SimpleNamespace

import pytest
import session
from hospitals import prepared, write_hospitals

import fedcli
from fedcli.errors import FedcliError, UsageError
from fedcli.reporting.choice import _taken
from fedcli.reporting.rows import rows
from fedcli.scores.choice import Candidate, chosen, distances, values
from fedcli.scores.scores import RunScores
from fedcli.scores.table import BEST


def candidate(round, score, **groups):
    return Candidate(round, score, {"sex": groups}, {"sex": dict.fromkeys(groups, 9)})


KNOWN = [
    candidate(1, 0.80, f=0.90, m=0.50),
    candidate(2, 0.70, f=0.66, m=0.64),
    candidate(3, 0.75, f=0.86, m=0.62),
]


def test_each_rule_takes_its_round():
    result = [KNOWN[chosen(KNOWN, rule)].round for rule in ("overall", "worst-group", "dto")]
    assert result == [
        1,
        2,
        3,
    ]
    expected = pytest.approx([0.14, 0.24, (0.04**2 + 0.02**2) ** 0.5])
    assert distances(KNOWN) == expected  # utopia: 0.90, 0.64
    assert values(KNOWN, "worst-group") == [0.50, 0.64, 0.62]


def test_of_equal_worst_groups_the_better_overall_counts_then_the_earlier_round():
    equal = [
        candidate(1, 0.6, f=0.5, m=0.7),
        candidate(2, 0.7, f=0.5, m=0.9),
        candidate(3, 0.7, f=0.9, m=0.5),
    ]
    assert equal[chosen(equal, "worst-group")].round == 2
    assert chosen([candidate(1, 0.6)], "dto") is None
    assert chosen([candidate(1, 0.6)], "overall") == 0
    unknown = candidate(1, 0.6, f=0.5, m=None)
    assert unknown.worst == 0.5
    assert unknown.smallest == 9


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def clients(work):
    dataset = prepared(write_hospitals(work / "raw", count=96), work)
    return fedcli.partition(dataset, by=["hospital"], val=0.4, work=work)


@pytest.fixture(scope="module")
def runs(clients, work):
    return [
        fedcli.train("fedavg", clients, rounds=3, lr=lr, work=work).path for lr in (0.001, 0.01)
    ]


def test_the_round_taken_is_the_best_of_the_kept_models_by_its_rule(runs):
    scores_by_rule = {}
    for rule in ("overall", "worst-group", "dto"):
        scores = RunScores.read(fedcli.evaluate(runs[0], choose=rule).path)
        scores_by_rule[rule] = scores
        best = scores.best
        candidates = values(scores.candidates, rule)
        assert best.validation == (min(candidates) if rule == "dto" else max(candidates))
        position = scores.kept_rounds.index(best.round)
        expected = scores.versions["clean"]["balanced_accuracy"].values[position]
        best_scores = scores.part(model=BEST).overall["clean"]
        assert best_scores["balanced_accuracy"].last == pytest.approx(expected)
    assert scores_by_rule["worst-group"].best.metric == "worst-group balanced_accuracy"
    result = {*scores_by_rule["dto"].candidates[0].groups}
    assert result == {*scores_by_rule["dto"].groups}
    usual = RunScores.read(fedcli.evaluate(runs[0]).path)
    assert usual.candidates == []
    expected = max(values(scores_by_rule["dto"].candidates, "overall"))
    assert usual.best.validation == expected


def test_a_report_says_by_which_rule_rounds_and_runs_were_taken(runs):
    text = session.run(f"fedcli report {runs[0]} {runs[1]} --choose worst-group")
    printed = " ".join(text.split())
    assert (
        "the kept model with the highest worst-group balanced_accuracy on the clients' validation images"
        in printed
    )
    assert "chosen by validation worst-group balanced_accuracy (%): round" in printed
    assert "Model choice on validation images" in printed
    assert "overall, worst-group" in printed.replace("dto, ", "")
    report = fedcli.report(runs, choose="dto")
    assert "smallest distance to the utopia point of balanced_accuracy" in report.to("markdown")
    assert "Model choice on validation images" in report.to("html")
    assert len(report.choices) == 1
    (alone,) = fedcli.report(runs[:1], choose="dto").choices
    result = [row[0].text for row in alone.rows]
    assert result == ["round 1", "round 2", "round 3"]
    best_rows = rows(list(report.scores), at="best")
    assert best_rows[0].chosen[0]["metric"].startswith("distance")


def test_seeds_whose_validation_images_have_other_groups_share_those_that_all_have():
    """A rare group is drawn into the validation images of one partition and not into those of another."""
    both = candidate(1, 0.8, f=0.9, m=0.5)
    other = candidate(2, 0.6, f=0.7)
    runs = []
    for best in (both, other):
        scores = SimpleNamespace(candidates=[best], best=best)
        runs.append(SimpleNamespace(scores=scores))
    choice = _taken(SimpleNamespace(scored=runs))
    assert choice.score == pytest.approx(0.7)
    assert choice.groups == {"sex": {"f": pytest.approx(0.8)}}
    assert choice.images == {"sex": {"f": 9}}
    assert choice.smallest == 9


def test_what_cannot_be_chosen_is_refused(runs, clients, work):
    with pytest.raises(UsageError, match="--choose 'wurst-group' is no rule"):
        fedcli.evaluate(runs[0], choose="wurst-group")
    with pytest.raises(UsageError, match="exclude each other"):
        fedcli.report(runs, choose="dto", at="last")
    dataset = prepared(write_hospitals(work / "other", count=24, seed=1), work)
    plain = fedcli.train(
        "fedavg", fedcli.partition(dataset, by=["hospital"], work=work), rounds=1, work=work
    )
    with pytest.raises(FedcliError, match="no validation images to choose a model by"):
        fedcli.evaluate(plain, choose="overall")
