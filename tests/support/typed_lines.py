"""A command line as it is typed, in this process."""

import contextlib
import io
import sys

from fedcli.commands.app import app


class Terminal(io.StringIO):
    """A stream that somebody looks at, or types into."""

    def isatty(self):
        return True


def fedcli(*words, stdin=""):
    """Exit code, stdout and stderr of one command, run in this process."""
    out = io.StringIO()
    err = io.StringIO()
    code = 0
    saved = sys.stdin
    sys.stdin = io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            app([str(word) for word in words], prog_name="fedcli")
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdin = saved
    return code, out.getvalue(), err.getvalue()


def path_of(result):
    code, out, err = result
    assert code == 0, err
    assert out.count("\n") == 1, out
    return out.strip()
