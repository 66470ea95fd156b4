"""Clients on other machines: a process for each hospital, and the engine that reaches them."""

from ..federation.engines import REMOTE, Remote
from .sockets import open_sockets

REMOTE["socket"] = Remote(open_sockets, "DIR", "the folder of the sites' sockets, each DIR/CLIENT.sock")
