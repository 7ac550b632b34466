"""``python -m stepprof_lab``, and the command ``stepprof``: one start for both."""

import sys


def run() -> int:
    """Import the command line and run it; a Ctrl-C while it is still being imported ends it as quietly as later."""
    try:
        from stepprof_lab.cli import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("stepprof: interrupted; nothing half-written was left\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
