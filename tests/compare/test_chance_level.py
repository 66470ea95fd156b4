"""A report says of models whose decisions may be no better than chance that they may."""

from dataclasses import replace

import numpy as np
from scored_runs import Y, model, scored

from fedcli.compare.cautions import at_chance
from fedcli.reporting.rows import notes, rows


def intervals(low, value, version="clean"):
    return {
        version: {"balanced_accuracy": {"value": value, "low": low, "high": value + 0.1, "unit": "image", "units": 60}}
    }


def noted(*paths):
    return " ".join(notes(rows(list(paths))))


def test_a_model_that_answers_one_class_is_said_not_to_be_shown_to_beat_chance(tmp_path):
    stuck = [np.tile(np.float32([0, 1, 0]), (len(Y), 1))] * 2
    said = noted(scored(tmp_path / "a", stuck, intervals=intervals(1 / 3, 1 / 3)))
    assert "FedAvg: gives the same answer for every clean image. Try --prior logit-adjust" in said


def test_a_run_that_has_a_prior_is_not_told_to_take_one(tmp_path):
    (row,) = rows([scored(tmp_path / "a", model(0.1, 1), intervals=intervals(0.3, 0.38))])
    (run,) = row.scored
    corrected = replace(run, scores=replace(run.scores, options={**run.scores.options, "prior": "logit-adjust"}))
    assert at_chance([run]).endswith(". Try --prior logit-adjust, a higher --lr or more rounds")
    assert at_chance([corrected]).endswith(". Try a higher --lr or more rounds")


def test_a_lower_end_above_chance_by_rounding_alone_is_at_chance(tmp_path):
    stuck = [np.tile(np.float32([0, 1, 0]), (len(Y), 1))] * 2
    low = np.nextafter(1 / 3, 1)
    assert "gives the same answer" in noted(scored(tmp_path / "a", stuck, intervals=intervals(low, low)))


def test_a_model_near_chance_is_said_to_be_and_one_above_it_is_not(tmp_path):
    weak, skilled = model(0.1, 1), model(2.0, 1)
    said = noted(scored(tmp_path / "a", weak, intervals=intervals(0.3, 0.38)))
    assert (
        "may be no better than chance (33.3 %) on clean images: balanced accuracy 38.0 %, its 95 % interval begins at "
        "30.0 %" in said
    )
    assert "chance" not in noted(scored(tmp_path / "b", skilled, intervals=intervals(0.7, 0.8)))


def test_only_the_seed_that_is_at_chance_is_named(tmp_path):
    paths = [
        scored(tmp_path / f"{seed}", model(1.0, seed), seed=seed, intervals=intervals(low, 0.5))
        for seed, low in ((0, 0.45), (1, 0.2))
    ]
    said = " ".join(notes(rows(paths, spread="pooled")))
    assert "no better than chance (33.3 %) on clean images (seed 1): " in said
