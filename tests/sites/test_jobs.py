"""Engines whose job stands between coordinator and sites; here the job is a thread in place of NVFlare or Flower."""

import threading
from functools import partial

import pytest
from made_plans import train
from site_federation import plan, sites_of

from fedcli.sites import sockets
from fedcli.sites.description import SiteError
from fedcli.sites.transport.relay import Relay, paths_in


class Job(threading.Thread):
    """Carries questions to sites of this process; answer: what becomes of one, (question, answer of the site)."""

    def __init__(self, folder, sites, answer=lambda question, answered: question.answer(answered)):
        super().__init__(daemon=True)
        self.folder = folder
        self.sites = sites
        self.pass_on = answer
        self.ended = threading.Event()

    def run(self):
        with Relay(paths_in(self.folder, list(self.sites)), idle=60) as relay:
            while not self.ended.is_set():
                for question in relay.questions(0.02):
                    self.pass_on(question, self.sites[question.client].answer(*question.message))

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.ended.set()
        self.join(60)


def test_a_run_over_a_job_has_the_bytes_of_one_process_and_a_job_serves_several(data, tmp_path):
    with Job(tmp_path / "s", sites_of(data, tmp_path / "state")):
        for method, engine in (("scaffold", "flower"), ("fedheal", "nvflare")):
            local_run = train(data, plan(method), work=tmp_path, out=tmp_path / "here" / method)
            out = tmp_path / "there" / method
            engine = f"{engine}:{tmp_path / 's'}"
            job_run = train(data, plan(method), work=tmp_path, out=out, engine=engine)
            for name in ("rounds.jsonl", "run.json", "models/00002.h5"):
                expected = (job_run.parent / name).read_bytes()
                assert (local_run.parent / name).read_bytes() == expected


def answered_wrongly(question, answered, wrong):
    scalars, arrays = answered
    if question.client == "south" and "theta" in arrays:
        scalars, arrays = wrong(scalars, arrays)
    question.answer((scalars, arrays))


WRONG_ANSWERS = [
    (
        lambda s, a: ({"client": "south", "error": "an unexpected ValueError"}, {}),
        "site south: an unexpected Value",
    ),
    (
        lambda s, a: (s, a | {"theta": a["theta"] * float("nan")}),
        "site south: its model is not finite",
    ),
    (
        lambda s, a: (s, a | {"theta": a["theta"][:-1]}),
        "site south: it answered with a model of shape",
    ),
    (lambda s, a: (s, {}), "site south: a report arrived without its array"),
]


@pytest.mark.parametrize(("wrong", "sentence"), WRONG_ANSWERS)
def test_what_a_site_answers_wrongly_is_one_sentence(data, tmp_path, wrong, sentence):
    sites = sites_of(data, tmp_path / "state")
    answer = partial(answered_wrongly, wrong=wrong)
    with Job(tmp_path / "s", sites, answer), pytest.raises(Exception, match=sentence):
        train(data, plan(), work=tmp_path, engine=f"flower:{tmp_path / 's'}")


def test_a_site_of_another_version_and_one_that_is_silent_are_named(data, tmp_path):
    sites = sites_of(data, tmp_path / "state")
    sites["west"].description["versions"] = {"fedcli": "0.0.1"}
    with Job(tmp_path / "s", sites), pytest.raises(SiteError, match="site west has the versions"):
        train(data, plan(), work=tmp_path, engine=f"nvflare:{tmp_path / 's'}")
    with (
        Job(tmp_path / "s", sites, lambda question, answered: None),
        pytest.raises(SiteError, match=r"site .*: it gave no sign of life for 0.3 s"),
    ):
        train(data, plan(), work=tmp_path, engine=f"nvflare:{tmp_path / 's'}", timeout=0.3)


def test_a_job_that_is_not_there_is_said(data, tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "JOB_WAIT", 0.0)
    with pytest.raises(SiteError, match=r"no job listens at .*north.sock"):
        train(data, plan(), work=tmp_path, engine=f"flower:{tmp_path / 's'}")
