"""The partition of training images among clients: the schemes, and the stage that runs one."""

from . import clients_file, fedism, fedmrl, random_deals, sites  # noqa: F401 - importing registers
from .build import make_partition
from .scheme import SCHEMES, Scheme, client_names, listing, register, resolve

__all__ = ["SCHEMES", "Scheme", "client_names", "listing", "make_partition", "register", "resolve"]
