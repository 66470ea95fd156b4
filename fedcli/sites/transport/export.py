"""The files for NVFlare or Flower: which sites there are, and where the coordinator listens.

Written without either package, in the form that nvflare 2.9 and flwr 1.41 read, from those in
jobs/. Neither names a method: what is trained comes with each message, and the policy of a site
decides on it. In NVFlare's, attach_id is the name under which job and site find each other, and
heartbeat_timeout is in seconds without a sign of a site's process, after which a question waits for
it to attach again.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from .sockets import short

FILES = Path(__file__).parent / "jobs"
CONTROLLER = "fedcli.sites.transport.nvflare.Controller"
EXECUTOR = "nvflare.app_common.executors.client_api_executor.ClientAPIExecutor"
APP = (
    "from fedcli.sites.transport import flower\n\n"
    "client = flower.client()\nserver = flower.server()\n"
)
NVFLARE_NAME = r"[A-Za-z][A-Za-z0-9_-]*"  # of a site; NVFlare joins names with dots


@dataclass(frozen=True)
class Job:
    """Facts that a job is told."""

    clients: Sequence[str]  # the sites, by name
    folder: Path  # of the coordinator's sockets, at the server
    idle: int = 600  # seconds without a coordinator after which the job ends
    # the folder in which NVFlare's client and the site's process of a hospital meet
    attach: Path = Path("/var/lib/fedcli/attach")

    def check(self) -> None:
        """Raises UsageError for what no job can be told."""
        for client in self.clients:
            short(self.folder / f"{client}.sock")
        if not self.folder.is_absolute() or not self.attach.is_absolute():
            raise UsageError(
                "--sockets and --attach name folders of other machines", "give absolute paths"
            )
        if self.idle < 1:
            raise UsageError(f"--idle {self.idle} is out of range", "give seconds, at least 1")


def nvflare(job: Job) -> dict[str, str]:
    """The files for NVFlare, by path: the job, and for each site what its hospital puts in place.

    Of a site, comm_config.json goes into the folder "local" of its kit, and its own process gets
    profile.json. Raises UsageError.
    """
    job.check()
    for client in job.clients:
        if not re.fullmatch(NVFLARE_NAME, client):
            hint = "letters, digits, - and _: describe the site with another --name"
            raise UsageError(f"NVFlare takes no site called {client!r}", hint)
    facts = {
        "$clients": list(job.clients),
        "$count": len(job.clients),
        "$folder": str(job.folder),
        "$idle": job.idle,
        "$attach": str(job.attach),
        "$controller": CONTROLLER,
        "$executor": EXECUTOR,
    }
    files = {}
    for path, content in json.loads(_template("nvflare.json")).items():
        sites = job.clients if "$site" in path else [""]
        for site in sites:
            text = json.dumps(content)
            for name, value in {**facts, "$site": site}.items():
                text = text.replace(f'"{name}"', json.dumps(value))
            target = path.replace("$site", site)
            files[target] = json.dumps(json.loads(text), indent=1) + "\n"
    return files


def flower(job: Job) -> dict[str, str]:
    """The files of an app for Flower, by path. Raises UsageError."""
    job.check()
    config = {
        "folder": str(job.folder),
        "clients": ",".join(job.clients),
        "idle": job.idle,
    }
    project = _template("pyproject.toml")
    for key, value in config.items():
        project += f"{key} = {json.dumps(value)}\n"  # TOML has JSON's strings
    return {
        "app/pyproject.toml": project,
        "app/LICENSE": "These files only name fedcli's own transport; they are under its "
        "licence.\n",
        "app/fedcli_app/__init__.py": "",
        "app/fedcli_app/app.py": APP,
    }


def _template(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


ALLOW = {  # what has to be allowed by hand, for people
    "nvflare": [
        f"at the server, add {CONTROLLER} to class_allow_list of local/resources.json",
        f"at every site, add {EXECUTOR} there, and put its comm_config.json into local",
    ],
    "flower": [
        "start the SuperLink and the SuperNodes where fedcli is installed: the app holds no code "
        "of its own"
    ],
}
ENGINES: dict[str, Callable[[Job], dict[str, str]]] = {"nvflare": nvflare, "flower": flower}
