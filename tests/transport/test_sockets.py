"""Messages through a socket with a name."""

import socket

import pytest

from fedcli.errors import UsageError
from fedcli.transport import sockets
from fedcli.transport.frames import encoded


def test_a_path_that_is_no_socket_or_too_long_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is there and no socket"), sockets.listening(tmp_path / "file"):
        pass
    with pytest.raises(UsageError, match="too long for a socket"), sockets.listening(tmp_path / ("x" * 120)):
        pass


def test_a_site_goes_on_after_nonsense(tmp_path):
    class Echo:
        def answer(self, scalars, arrays):
            return scalars, arrays

    for sent in (b"nonsense" * 4, b"", b"".join(bytes(piece) for piece in encoded(({"a": 1}, {})))):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(sent)
            ours.shutdown(socket.SHUT_WR)
            sockets.talk(Echo(), theirs)
            theirs.shutdown(socket.SHUT_WR)
            assert ours.recv(1000)[:4] == (b"FCLI" if sent.startswith(b"FCLI") else b"")
