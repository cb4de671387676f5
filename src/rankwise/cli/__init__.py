"""The command line: ``rankwise COMMAND``, one file a command, nothing but parsing and printing here.

Exit codes: 0 done, 1 some runs failed, 2 the user's mistake, 3 corrupt store, 130 interrupted.
Command modules import heavy rooms inside their function, so that ``rankwise --help`` stays instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rankwise import __version__
from rankwise.errors import RankwiseError


def main(argv: Sequence[str] | None = None) -> int:
    """Parse ``argv`` (default: the process's arguments), run the command, return the exit code."""
    from rankwise.cli.commands import run

    given = sys.argv[1:] if argv is None else list(argv)
    if given == ["--version"]:
        print(f"rankwise {__version__}")
        return 0
    try:
        run(given)
        sys.stdout.flush()
    except RankwiseError as error:
        print(f"rankwise: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("rankwise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has what it wants; python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:  # not about a file that the user named: a bug, or a broken machine
            raise
        print(f"rankwise: {error.filename!s:.200}: {error.strerror}", file=sys.stderr)
        return 2
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2 if leaving.code else 0
    return 0
