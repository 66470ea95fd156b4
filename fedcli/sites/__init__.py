"""Clients on other machines: a process for each hospital, and the engine that reaches them."""

from ..federation.engines import REMOTE, Remote
from .sockets import open_job, open_sockets
from .summed import WARNING, open_summed

REMOTE["socket"] = Remote(open_sockets, "DIR", "the folder of the sites' sockets, each DIR/CLIENT.sock")
JOB = "the folder of the job's sockets, --sockets of `fedcli export`"
REMOTE["nvflare"] = Remote(open_job, "DIR", JOB)
REMOTE["flower"] = Remote(open_job, "DIR", JOB)
REMOTE["flower-secagg"] = Remote(open_summed, "DIR", JOB, WARNING)
