"""Federations at random: what an evaluation over their sites says is so on all images together, or is called hidden."""

import pytest
import random_federations as federations
from made_plans import train
from site_federation import chain_with_tests, plan


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    work = tmp_path_factory.mktemp("run")
    return train(chain_with_tests(work), plan(rounds=1), work=work, out=work / "run")


@pytest.mark.parametrize("part", range(4))
def test_scores_over_sites_are_true_or_hidden(part, run, play, tmp_path):
    for draw in play.cases():
        federation = federations.drawn(draw)
        wrong = federations.revealed(federation)
        scores = federations.scored(federation, run, tmp_path / str(play.case))
        if scores:
            wrong += federations.faults(federation, scores, tmp_path / str(play.case))
            other = federations.answered_otherwise(federation, draw)
            federations.scored(other, run, tmp_path / f"{play.case}-other")
            folders = str(play.case), f"{play.case}-other"
            paths = [tmp_path / folder / "scores.json" for folder in folders]
            wrong += federations.wrong_comparison(federation, paths)
        elif federations.covered(federation):
            wrong.append("has no scores, although sites show a class")
        play.note(wrong, f"{len(federation.hospitals)} sites, part {part}")
