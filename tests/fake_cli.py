"""``rankwise`` with another entry point: ``python fake_cli.py fake_runs:entry sweep FILE ...``."""

import functools
import sys

from rankwise.cli import main
from rankwise.sweep import session

session.run_here = functools.partial(session.run_here, entry=sys.argv[1])

if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
