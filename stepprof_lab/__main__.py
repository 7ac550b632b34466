"""``python -m stepprof_lab``: the same as the command ``stepprof``."""

import sys

from stepprof_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
