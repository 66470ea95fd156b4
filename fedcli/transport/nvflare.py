"""NVFlare: at the server a controller that passes questions on, at a site a process that takes them to the site's own.

No code travels: a job is two JSON files that name the Controller here and NVFlare's own ClientAPIExecutor, see
export.py. The process attaches to the latter (execution mode "attach"): NVFlare neither starts nor stops it.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .. import console, shapes
from ..errors import FedcliError
from ..files import read_text
from .frames import Message
from .relay import Question, Relay, answered

try:
    import nvflare.client as flare
    from nvflare.apis.controller_spec import Task
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.impl.controller import Controller as Base
    from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
    from nvflare.app_common.utils.fl_model_utils import FLModelUtils
    from nvflare.client.api_context import APIContext
except ImportError:  # the module can still be read; check() says what is missing
    flare, Base = None, object

TASK = "train"  # the one task of the job; what is asked stands in the message
SCALARS = "fedcli"  # in the meta data of a model: our scalars as one JSON text
PROFILE = {"schema_version": int, "execution_mode": str, "attach_id": str, "site_name": str, "rendezvous_dir": str}
LOST = "start the site's process again, then go on with --resume"


def check() -> None:
    """Raises FedcliError where NVFlare is not installed."""
    if flare is None:
        raise FedcliError("NVFlare is not installed here", "pip install 'fedcli[nvflare]'")


def model_of(message: Message) -> "FLModel":
    """A message as NVFlare carries it."""
    scalars, arrays = message
    return FLModel(params=dict(arrays), params_type=ParamsType.FULL, meta={SCALARS: json.dumps(scalars)})


def message_of(model: "FLModel") -> Message:
    """The message in what NVFlare carried."""
    return json.loads(model.meta[SCALARS]), dict(model.params or {})


class Controller(Base):
    """The server's side of a job; its arguments are those of the job's JSON.

    folder: of the sockets that a coordinator connects to. clients: the sites, by their names in NVFlare.
    idle: seconds without a coordinator after which the job ends. timeout: seconds for one answer, 0 for any time.
    """

    def __init__(self, folder: str, clients: list[str], idle: float = 600, timeout: int = 0):
        check()
        super().__init__(task_check_period=0.1)
        self.folder, self.clients, self.idle, self.timeout = Path(folder), clients, idle, timeout

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Pass questions on until nobody asks any more."""
        try:
            with Relay(self.folder, self.clients, self.idle) as relay:
                self.log_info(fl_ctx, f"listening in {self.folder} for {', '.join(self.clients)}")
                while not abort_signal.triggered and not relay.over:
                    for question in relay.questions(0.1):
                        self._ask(question, fl_ctx)
        except FedcliError as error:
            self.system_panic(error.sentence, fl_ctx)

    def _ask(self, question: Question, fl_ctx: Any) -> None:
        """Send a question to its site; its answer comes on a thread of NVFlare."""

        def received(client_task: Any, fl_ctx: Any) -> None:
            result, client_task.result = client_task.result, None
            code = result.get_return_code()
            if code != ReturnCode.OK:
                question.fail(f"NVFlare reports {code}: its process ended, or is not attached", LOST)
                return
            question.answer(message_of(FLModelUtils.from_shareable(result)))

        def done(task: Any, fl_ctx: Any) -> None:
            question.fail(f"NVFlare ended the task without an answer ({task.completion_status.value})", LOST)

        task = Task(
            TASK, FLModelUtils.to_shareable(model_of(question.message)), timeout=self.timeout,
            result_received_cb=received, task_done_cb=done,
        )  # fmt: skip
        self.broadcast(task, fl_ctx, targets=[question.client], min_responses=1)

    def start_controller(self, fl_ctx: Any) -> None:
        """Nothing is loaded before the first question."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing is kept after the last one."""

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Any, fl_ctx: Any
    ):
        """An answer whose question is gone is dropped."""


def serve(profile: Path, socket: Path) -> None:
    """Keep a process attached to NVFlare's client of this hospital, which asks whoever listens at the socket.

    A process for each job, as NVFlare attaches one only once; it ends with this one. Raises FedcliError.

    profile: the JSON file that says where NVFlare's client publishes its jobs.
    """
    check()
    shapes.check(_read(profile), PROFILE, profile, "see docs/consortium.md, or `fedcli export nvflare`")
    while True:
        command = [sys.executable, "-m", __name__, str(profile), str(socket)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as attached:
            code = attached.wait()
        if code:
            raise FedcliError(f"the process that is attached to NVFlare ended with {code}", "its own words are above")


def _read(profile: Path) -> Any:
    try:
        return json.loads(read_text(profile, "give the profile.json that `fedcli export nvflare` wrote"))
    except ValueError as error:
        raise FedcliError(f"{profile} is no JSON: {error}"[:300]) from None


def attach(profile: Path, socket: Path) -> None:
    """Wait for a job, and pass its questions to the process that listens at the socket until the job ends."""
    with APIContext(config_file=str(profile)) as context:
        console.say("attached to a job of NVFlare")
        try:
            while flare.is_running(ctx=context):
                model = flare.receive(ctx=context)
                if model is None:
                    break
                flare.send(model_of(answered(context.api.get_site_name(), socket, message_of(model))), ctx=context)
        except RuntimeError as error:  # of a job that was stopped while the site was at work
            console.warn(f"a job of NVFlare ended: {error}"[:300])


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # until the process that started this one is gone
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    attach(Path(sys.argv[1]), Path(sys.argv[2]))
