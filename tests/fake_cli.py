"""``rankwise`` whose workers run ``fake_runs`` in place of the training: ``python fake_cli.py sweep FILE ...``."""

import functools
import sys

from rankwise.cli import main
from rankwise.sweep import session

session.run_here = functools.partial(session.run_here, entry="fake_runs:entry")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
