"""Columns of a recipe are places in scores.json, and its figures are of what there is."""

import numpy as np
import pytest
from evaluated_runs import a_run, scorer
from nested_scores import body_of
from tiny_recipe import TINY, write

from fedcli.errors import UsageError
from fedcli.metrics.task import ONE
from fedcli.reproduction import places, recipe
from fedcli.runs.scoring import curve

GROUPED = 'dataset = "digits"\nevaluate = { by = ["domain"] }'


REFUSED_PATHS = [
    ("dataset", "known: among_clients, "),
    ("version/clean/accuracy", "did you mean 'versions'?"),
    ("versions/clean", "it goes on there with one of: accuracy, "),
    ("versions/clean/acuracy", "did you mean 'accuracy'?"),
    ("versions/clean/accuracy/first", "known: last, mean_last5, per_round, std_last5"),
    ("versions/corrupted/accuracy", "its data have no corrupt stage"),
    ("versions/average/accuracy", "its data have no corrupt stage"),
    ("versions/*", "known: clean"),
    ("single_site", "known: among_clients, "),
    ("groups/domian/clean/each/accuracy/usps", "did you mean 'domain'?"),
    ("groups/domain/clean/each/accuracy", "it goes on there with one of: a name of your data"),
    ("clients/*/auc", "known: accuracy, "),
    ("among_clients/accuracy", "it goes on there with one of: mean, std, worst"),
    ("shots/versions/clean/middle", "known: all, balanced_accuracy, head, medium, tail"),
    ("bytes/upp", "did you mean 'up'?"),
    ("best_on_validation/validation", "write val = 0.1"),
]


@pytest.mark.parametrize(
    ("score_path", "hint"),
    REFUSED_PATHS,
)
def test_a_column_is_a_number_of_scores_json(tmp_path, score_path, hint):
    text = TINY.replace('dataset = "toy"', GROUPED, 1).replace(
        "versions/clean/accuracy", score_path
    )
    with pytest.raises(UsageError) as error:
        recipe.load(write(tmp_path, text))
    assert hint in error.value.hint
    assert (
        "column 'accuracy': scores.json has no number at" in error.value.sentence
        or score_path.startswith("best")
    )


def test_every_number_that_is_written_has_its_place(tmp_path, monkeypatch):
    run = a_run(tmp_path, own={"south": range(30), "west": range(30, 60)})
    body = body_of(scorer(monkeypatch)(run, by=["sex"]))
    parts = "versions", "clients", "among_clients", "groups", "shots", "bytes"
    body["shots"] = {"versions": body["shots"]["versions"]}
    paths = list(numbers({part: body[part] for part in parts}))
    assert len(paths) > 1000
    for path in paths:
        places.check("/".join(path), "phantom", ["sex"], corrupted=True, best=False)


def numbers(value, parts=()):
    """Every place that holds a number."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        yield list(parts)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from numbers(part, (*parts, name))


FIGURE_TEXT = '\n[[figure]]\ntitle = "f"\nkind = "convergence"\n'


FIGURES = {
    'metric = "nope"': "metric should be 'balanced_accuracy', 'auc_ovo_macro' or|",
    'version = "nope"': "version should be '', 'clean'|",
    'version = "corrupted"': "data.plain has no corrupted images|clean",
    'version = "validation"': "data.plain has no validation parts|val = 0.1",
    "rows = 3": "rows should be a valid list|",
    'rows = "FedAvg"': "rows should be a valid list|",
    'columns = ["accuracy"]': "a convergence has no columns|metric",
}


@pytest.mark.parametrize("line", FIGURES)
def test_a_figure_asks_for_what_is_there(tmp_path, line):
    sentence, _, hint = FIGURES[line].partition("|")
    with pytest.raises(UsageError) as error:
        text = TINY + FIGURE_TEXT + line
        recipe.load(write(tmp_path, text))
    assert sentence in error.value.sentence
    assert hint in error.value.hint


def test_curves_are_of_the_metrics_that_training_records():
    result = tuple(curve(np.eye(2), np.arange(2)))
    assert result == ONE.curves
