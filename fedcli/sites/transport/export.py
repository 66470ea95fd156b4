"""The files that NVFlare or Flower is given: which sites there are, and where the coordinator listens.

Written without either package, in the form that nvflare 2.9 and flwr 1.41 read. Neither names a method: what is trained
comes with each message, and the policy of a site decides on it.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError
from .sockets import short

CONTROLLER = "fedcli.sites.transport.nvflare.Controller"
EXECUTOR = "nvflare.app_common.executors.client_api_executor.ClientAPIExecutor"
ATTACH = "fedcli"  # the name under which job and site find each other
NVFLARE_NAME = r"[A-Za-z][A-Za-z0-9_-]*"  # of a site; NVFlare joins names with dots
LOST_AFTER = 60.0  # seconds without a heartbeat of a site's process; a question then waits for it to attach again


@dataclass(frozen=True)
class Job:
    """Facts that a job is told.

    Attributes:
        clients: the sites, by name.
        folder: of the coordinator's sockets, at the server.
        idle: seconds without a coordinator after which the job ends.
        attach: the folder in which NVFlare's client and the site's process of a hospital meet.
    """

    clients: Sequence[str]
    folder: Path
    idle: int = 600
    attach: Path = Path("/var/lib/fedcli/attach")

    def check(self) -> None:
        """Raises UsageError for what no job can be told."""
        for client in self.clients:
            short(self.folder / f"{client}.sock")
        if not self.folder.is_absolute() or not self.attach.is_absolute():
            raise UsageError("--sockets and --attach name folders of other machines", "give absolute paths")
        if self.idle < 1:
            raise UsageError(f"--idle {self.idle} is out of range", "give seconds, at least 1")


def nvflare(job: Job) -> dict[str, str]:
    """The files for NVFlare, by path: the job, and for each site what its hospital puts in place. Raises UsageError."""
    job.check()
    if odd := [client for client in job.clients if not re.fullmatch(NVFLARE_NAME, client)]:
        raise UsageError(
            f"NVFlare takes no site called {odd[0]!r}",
            "letters, digits, - and _: describe the site with another --name",
        )
    server = {
        "format_version": 2,
        "workflows": [
            {
                "id": "fedcli", "path": CONTROLLER,
                "args": {"folder": str(job.folder), "clients": list(job.clients), "idle": job.idle},
            }
        ],
        "components": [], "task_data_filters": [], "task_result_filters": [],
    }  # fmt: skip
    executor = {
        "execution_mode": "attach", "attach_id": ATTACH, "attach_timeout": None, "allow_reconnect": True,
        "task_wait_timeout": 600.0, "heartbeat_timeout": LOST_AFTER,
        "params_exchange_format": "numpy", "server_expected_format": "numpy", "params_transfer_type": "FULL",
    }  # fmt: skip
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["train"], "executor": {"path": EXECUTOR, "args": executor}}],
        "components": [], "task_data_filters": [], "task_result_filters": [],
    }  # fmt: skip
    meta = {
        "name": "fedcli", "resource_spec": {}, "min_clients": len(job.clients), "mandatory_clients": list(job.clients),
        "deploy_map": {"app": ["@ALL"]},
    }  # fmt: skip
    files = {
        "job/meta.json": _json(meta),
        "job/app/config/config_fed_server.json": _json(server),
        "job/app/config/config_fed_client.json": _json(client),
        "allow-list.json": _json({"server": [CONTROLLER], "sites": [EXECUTOR]}),
    }
    for name in job.clients:
        files |= _of_site(name, str(job.attach))
    return files


def _of_site(name: str, folder: str) -> dict[str, str]:
    """Files that the hospital of a site puts into its kit's folder "local", and what its own process is given."""
    attach = {"scheme": "shared-file", "resources": {"root_dir": folder, "connection_security": "clear"}}
    profile = {
        "schema_version": 1, "execution_mode": "attach", "attach_id": ATTACH, "site_name": name,
        "rendezvous_dir": folder, "job_wait_timeout": None,
    }  # fmt: skip
    return {
        f"sites/{name}/comm_config.json": _json({"client_api_attach": attach}),
        f"sites/{name}/profile.json": _json(profile),
    }


PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "fedcli-app"
version = "1.0.0"
license = { file = "LICENSE" }
dependencies = ["flwr>=1.41,<1.43"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fedcli"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "fedcli_app.app:server"
clientapp = "fedcli_app.app:client"

[tool.flwr.app.config]
"""
APP = """\
from fedcli.sites.transport import flower

client = flower.client()
server = flower.server()
"""
LICENSE = "These files only name fedcli's own transport; they are under its licence.\n"


def flower(job: Job) -> dict[str, str]:
    """The files of an app for Flower, by path. Raises UsageError."""
    job.check()
    config = {"folder": str(job.folder), "clients": ",".join(job.clients), "idle": job.idle}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items())  # TOML has JSON's strings
    return {
        "app/pyproject.toml": PYPROJECT + lines,
        "app/LICENSE": LICENSE,
        "app/fedcli_app/__init__.py": "",
        "app/fedcli_app/app.py": APP,
    }


ALLOW = {  # what has to be allowed by hand, for people
    "nvflare": [
        f"at the server, add {CONTROLLER} to class_allow_list of local/resources.json",
        f"at every site, add {EXECUTOR} there, and put its comm_config.json into local",
    ],
    "flower": ["start the SuperLink and the SuperNodes where fedcli is installed: the app holds no code of its own"],
}
ENGINES: dict[str, Callable[[Job], dict[str, str]]] = {"nvflare": nvflare, "flower": flower}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"
