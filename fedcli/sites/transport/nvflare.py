"""NVFlare: at the server a controller that passes questions on, at a site a process.

The process takes the questions to the site's own.

No code travels: a job is two JSON files that name the Controller here and NVFlare's own
ClientAPIExecutor, see export.py. The process attaches to the latter (execution mode "attach"):
NVFlare neither starts nor stops it.
"""

import json
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import FedcliError
from ...shapes import read_json
from .frames import Message
from .relay import Question, Relay, answered, paths_in

INSTALLED = find_spec("nvflare") is not None
Base: Any = object
if INSTALLED:
    import nvflare.client as flare
    from nvflare.apis.controller_spec import Task
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.impl.controller import Controller as NvflareController
    from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
    from nvflare.app_common.utils.fl_model_utils import FLModelUtils
    from nvflare.client.api_context import APIContext

    Base = NvflareController

TASK = "train"  # the one task of the job; what is asked stands in the message
SCALARS = "fedcli"  # in the meta data of a model: our scalars as one JSON text
PROFILE = {
    "schema_version": int,
    "execution_mode": str,
    "attach_id": str,
    "site_name": str,
    "rendezvous_dir": str,
}
LOST = "start the site's process again, then go on with --resume"


def check() -> None:
    """Raises FedcliError where NVFlare is not installed."""
    if not INSTALLED:
        raise FedcliError("NVFlare is not installed here", "pip install 'fedcli[nvflare]'")


def model_of(message: Message) -> Any:
    """A message as NVFlare carries it."""
    scalars, arrays = message
    meta = {SCALARS: json.dumps(scalars)}
    return FLModel(params=dict(arrays), params_type=ParamsType.FULL, meta=meta)


def message_of(model: Any) -> Message:
    """The message in what NVFlare carried."""
    return json.loads(model.meta[SCALARS]), dict(model.params or {})


class Controller(Base):
    """The server's side of a job; its arguments are those of the job's JSON.

    folder: of the sockets that a coordinator connects to.
    clients: the sites, by their names in NVFlare.
    idle: seconds without a coordinator after which the job ends.
    timeout: seconds for one answer, 0 for any time.
    """

    def __init__(
        self,
        folder: str,
        clients: list[str],
        idle: float = 600,
        timeout: int = 0,
    ):
        check()
        super().__init__(task_check_period=0.1)
        self.folder = Path(folder)
        self.clients = clients
        self.idle = idle
        self.timeout = timeout

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Pass questions on until nobody asks any more."""
        try:
            with Relay(paths_in(self.folder, self.clients), self.idle) as relay:
                self.log_info(fl_ctx, f"listening in {self.folder} for {', '.join(self.clients)}")
                while not abort_signal.triggered and not relay.over:
                    for question in relay.questions(0.1):
                        self._ask(question, fl_ctx)
        except FedcliError as error:
            self.system_panic(error.sentence, fl_ctx)

    def _ask(self, question: Question, fl_ctx: Any) -> None:
        """Send a question to its site; its answer comes on a thread of NVFlare."""

        def received(client_task: Any, fl_ctx: Any) -> None:
            result = client_task.result
            client_task.result = None
            code = result.get_return_code()
            if code == ReturnCode.OK:
                question.answer_of(_shared_message, result)
            else:
                sentence = f"NVFlare reports {code}: its process ended, or is not attached"
                question.fail(sentence, LOST)

        def done(task: Any, fl_ctx: Any) -> None:
            status = task.completion_status.value
            question.fail(f"NVFlare ended the task without an answer ({status})", LOST)

        payload = FLModelUtils.to_shareable(model_of(question.message))
        task = Task(
            TASK,
            payload,
            timeout=self.timeout,
            result_received_cb=received,
            task_done_cb=done,
        )
        self.broadcast(task, fl_ctx, targets=[question.client], min_responses=1)

    def start_controller(self, fl_ctx: Any) -> None:
        """Nothing is loaded before the first question."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing is kept after the last one."""

    def process_result_of_unknown_task(
        self,
        client: Any,
        task_name: str,
        client_task_id: str,
        result: Any,
        fl_ctx: Any,
    ):
        """An answer whose question is gone is dropped."""


def _shared_message(result: Any) -> Message:
    """The message in a site's answer as the server gets it."""
    return message_of(FLModelUtils.from_shareable(result))


class Attached:
    """Keeps a process attached to NVFlare's client, which asks whoever listens at a socket.

    A process for each job, as NVFlare attaches one only once. A context manager: it owns the
    process.
    """

    def __init__(self, profile: Path, socket: Path):
        """profile: the JSON file that says where NVFlare's client publishes its jobs.

        Raises FedcliError.
        """
        check()
        read_json(
            profile,
            PROFILE,
            "give the profile.json that `fedcli site job nvflare` wrote, see docs/consortium.md",
        )
        self.command = [sys.executable, "-m", __name__, str(profile), str(socket)]
        # exit code of a process that could not attach, after which there is no other
        self.failed = 0
        self.process: subprocess.Popen | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(self.command, stdin=subprocess.PIPE)

    def _keep(self) -> None:
        while not self._ended.is_set() and not self.failed:
            self.process = process = self._start()
            if self._ended.is_set():  # meanwhile
                process.terminate()
            code = process.wait()
            if process.stdin:
                process.stdin.close()
            if code > 0 and not self._ended.is_set():
                self.failed = code

    def __enter__(self) -> "Attached":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self.process:
            self.process.terminate()
        self._thread.join()
        if self.failed:
            raise FedcliError(
                f"the process that attaches to NVFlare ended with exit code {self.failed}",
                "its own words are above",
            )


def attach(profile: Path, socket: Path) -> None:
    """Wait for a job, and pass its questions to the process at the socket until the job ends."""
    with APIContext(config_file=str(profile)) as context:
        site = context.api.get_site_name()
        print(
            f"{site}: attached to a job of NVFlare",
            file=sys.stderr,
            flush=True,
        )
        try:
            while flare.is_running(ctx=context):
                model = flare.receive(ctx=context)
                if model is None:
                    break
                flare.send(model_of(answered(site, socket, message_of(model))), ctx=context)
        except RuntimeError as error:  # of a job that was stopped while the site was at work
            print(
                f"{site}: the job of NVFlare ended: {error}"[:300],
                file=sys.stderr,
                flush=True,
            )


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # until the process that started this one is gone
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    attach(Path(sys.argv[1]), Path(sys.argv[2]))
