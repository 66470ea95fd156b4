"""NVFlare's side of the transport, without a server."""

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from wire_messages import MESSAGE, same

from fedcli.errors import FedcliError
from fedcli.sites.sockets import serve_nvflare
from fedcli.sites.transport import nvflare
from fedcli.sites.transport.relay import Question
from fedcli.system import interrupts

needs_nvflare = pytest.mark.skipif(
    not nvflare.INSTALLED, reason="the extra nvflare is not installed"
)


@needs_nvflare
def test_a_message_comes_through_nvflares_own_bytes():
    from nvflare.app_common.decomposers import common_decomposers
    from nvflare.fuel.utils import fobs

    common_decomposers.register()
    carried = nvflare.FLModelUtils.to_shareable(nvflare.model_of(MESSAGE))
    arrived = nvflare.FLModelUtils.from_shareable(fobs.loads(fobs.dumps(carried)))
    same(MESSAGE, nvflare.message_of(arrived))
    result = nvflare.message_of(nvflare.model_of(({"ask": "describe"}, {})))
    assert result == (
        {"ask": "describe"},
        {},
    )


@pytest.fixture
def question_sent(tmp_path):
    """The message of the controller for a question: its task, its site, and the question."""
    sent = []

    class Controller(nvflare.Controller):
        def broadcast(self, task, fl_ctx, targets, min_responses):
            sent.append((task, targets))

    question = Question("north", MESSAGE)
    Controller(str(tmp_path), ["north", "south"], timeout=30)._ask(question, None)
    ((task, targets),) = sent
    return task, targets, question


def replied(code, message=MESSAGE):
    result = nvflare.FLModelUtils.to_shareable(nvflare.model_of(message))
    result.set_return_code(code)
    return SimpleNamespace(result=result)


@needs_nvflare
def test_a_question_goes_to_its_site_and_the_answer_back(question_sent):
    task, targets, question = question_sent
    assert targets == ["north"]
    assert task.timeout == 30
    same(MESSAGE, nvflare.message_of(nvflare.FLModelUtils.from_shareable(task.data)))
    task.result_received_cb(replied("OK", ({"n": 4}, MESSAGE[1])), None)
    task.task_done_cb(SimpleNamespace(completion_status=SimpleNamespace(value="ok")), None)
    same(({"n": 4}, MESSAGE[1]), question.reply.result(0))


@needs_nvflare
def test_a_site_that_nvflare_cannot_ask_is_an_answer_too(question_sent):
    task, _, question = question_sent
    task.result_received_cb(replied("EXECUTION_EXCEPTION"), None)
    scalars, arrays = question.reply.result(0)
    assert scalars["client"] == "north"
    assert "EXECUTION_EXCEPTION" in scalars["error"]
    assert not arrays


@needs_nvflare
def test_a_task_that_nvflare_gives_up_is_an_answer_too(question_sent):
    task, _, question = question_sent
    task.task_done_cb(SimpleNamespace(completion_status=SimpleNamespace(value="timeout")), None)
    assert "timeout" in question.reply.result(0)[0]["error"]


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.setattr(nvflare, "INSTALLED", True)
    path = tmp_path / "profile.json"
    content = {name: 1 if kind is int else name for name, kind in nvflare.PROFILE.items()}
    path.write_text(json.dumps(content))
    return path


def test_a_process_is_started_for_each_job_and_ends_with_the_site(tmp_path, profile, monkeypatch):
    started = tmp_path / "started"
    begun = f"from pathlib import Path; import sys; p = Path({str(started)!r}); "
    script = begun + "p.open('a').write('x'); sys.stdin.read() if len(p.read_text()) > 2 else 0"
    monkeypatch.setattr(nvflare.Attached, "_start", lambda self: popen(script))
    with nvflare.Attached(profile, tmp_path / "site.sock") as attached:
        while not (started.exists() and len(started.read_text()) > 2):
            time.sleep(0.02)
    assert started.read_text() == "xxx"
    assert attached.process.poll() is not None


def popen(script):
    return subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)


def test_a_process_that_cannot_attach_ends_the_site_in_a_sentence(tmp_path, profile, monkeypatch):
    """Also where Ctrl-C is ignored; and it is no interruption, of which nothing else would be said."""
    monkeypatch.setattr(nvflare.Attached, "_start", lambda self: popen("raise SystemExit(3)"))
    with pytest.raises(FedcliError, match="ended with exit code 3"):
        serve_nvflare(SimpleNamespace(name="north", folder=tmp_path / "state"), profile)
    assert not interrupts.came()


@pytest.mark.parametrize(
    ("content", "sentence"), [("{", "is damaged"), ("{}", "schema_version is missing")]
)
def test_a_profile_that_is_none_is_refused(tmp_path, profile, content, sentence):
    profile.write_text(content)
    with pytest.raises(FedcliError, match=sentence):
        nvflare.Attached(profile, tmp_path / "site.sock")


def test_without_nvflare_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(nvflare, "INSTALLED", False)
    with pytest.raises(FedcliError, match="NVFlare is not installed"):
        nvflare.Attached(tmp_path / "profile.json", tmp_path / "site.sock")
