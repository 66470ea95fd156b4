"""Messages through a socket with a name."""

import socket

import pytest

from fedcli.errors import FedcliError, UsageError
from fedcli.sites.transport import sockets
from fedcli.sites.transport.frames import encoded


def test_a_path_that_is_no_socket_or_too_long_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(UsageError, match="is there and no socket"),
        sockets.listening(tmp_path / "file"),
    ):
        pass
    with (
        pytest.raises(UsageError, match="too long for a socket"),
        sockets.listening(tmp_path / ("x" * 120)),
    ):
        pass


@pytest.mark.skipif(not sockets.OPEN_FILES.is_dir(), reason="of Linux")
def test_a_folder_may_be_deep(tmp_path, monkeypatch):
    path = tmp_path / ("x" * 90) / "north.sock"
    with sockets.listening(path):
        assert list(path.parent.iterdir()) == [path]
        sockets.connected(path).close()
        with pytest.raises(FedcliError, match="another process listens"), sockets.listening(path):
            pass
    with pytest.raises(FileNotFoundError):
        sockets.connected(path)
    monkeypatch.setattr(sockets, "OPEN_FILES", tmp_path / "absent")
    with pytest.raises(UsageError, match="too long for a socket"), sockets.listening(path):
        pass


def test_a_socket_that_can_be_seen_is_its_owners_and_can_be_connected_to(tmp_path, monkeypatch):
    path = tmp_path / "north.sock"

    class Listener(socket.socket):
        def listen(self):
            assert not path.exists()
            super().listen()

    monkeypatch.setattr(sockets.socket, "socket", Listener)
    with sockets.listening(path):
        assert list(tmp_path.iterdir()) == [path]
        assert path.stat().st_mode & 0o777 == 0o600
        sockets.connected(path).close()
    assert not list(tmp_path.iterdir())


def test_a_socket_that_cannot_be_listened_at_leaves_nothing(tmp_path, monkeypatch):
    class Refused(socket.socket):
        def listen(self):
            raise OSError("refused")

    monkeypatch.setattr(sockets.socket, "socket", Refused)
    with pytest.raises(OSError, match="refused"), sockets.listening(tmp_path / "north.sock"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_site_goes_on_after_nonsense(tmp_path):
    class Echo:
        def answer(self, scalars, arrays):
            return scalars, arrays

    cases = (b"nonsense" * 4, b"", b"".join(bytes(piece) for piece in encoded(({"a": 1}, {}))))
    for sent in cases:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(sent)
            ours.shutdown(socket.SHUT_WR)
            sockets.talk(Echo().answer, theirs)
            theirs.shutdown(socket.SHUT_WR)
            assert ours.recv(1000)[:4] == (b"FCLI" if sent.startswith(b"FCLI") else b"")
