"""The command line. Until its modules are imported, which takes part of a second, Ctrl-C ends it
with a sentence.
"""

import os
import signal

from .system.interrupts import INTERRUPTED


def main() -> None:
    """Run the command of sys.argv."""
    # else whoever started us ignores it
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, _end)
    from .commands.app import main as run

    if handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _end(*_: object) -> None:
    os.write(2, b"interrupted before anything was begun; run the same command again\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
