"""The command line: ``rankwise COMMAND``, one file a command, nothing but parsing and printing here.

Exit codes: 0 done, 1 some runs failed, 2 the user's mistake, 3 corrupt store, 130 interrupted.
Command modules import heavy packages inside their function, so that ``rankwise --help`` stays instant.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from rankwise import __version__
from rankwise.errors import RankwiseError

_LONGEST_LINE = 1000
_DISK_REFUSES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse ``argv`` (default: the process's arguments), run the command, return the exit code."""
    _replace_closed_streams()
    _print_any_name()
    code = _exit_code(sys.argv[1:] if argv is None else list(argv))
    if "ray" in sys.modules:
        _leave_a_silent_ray(code)
    return code


def _exit_code(given: Sequence[str]) -> int:
    """Run the command; every error that is not a bug as its message and exit code."""
    try:
        code = _run(given)
        sys.stdout.flush()
        return code
    except RankwiseError as error:
        print(f"rankwise: {_readable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("rankwise: interrupted", file=sys.stderr)
        return 130
    except (MemoryError, RecursionError) as error:
        what = "memory" if isinstance(error, MemoryError) else "nesting"
        print(f"rankwise: expected input of a size that this machine can hold, got too much {what}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        _discard_stdout()  # the reader (`| head`) has what it wants
        return 0
    except OSError as error:
        if error.filename is not None:
            print(f"rankwise: {error.filename!s:.200}: {error.strerror}", file=sys.stderr)
        elif error.errno in _DISK_REFUSES:  # writing to an open file, such as stdout, does not name it
            _discard_stdout()
            advice = "make room or write elsewhere, then give the same command again"
            print(f"rankwise: expected a disk that can be written, got: {error.strerror}; {advice}", file=sys.stderr)
        else:  # a bug, or a broken machine
            raise
        return 2


def _run(arguments: Sequence[str]) -> int:
    """Run the command; the exit code that it leaves with."""
    from rankwise.cli.commands import run

    if arguments == ["--version"]:
        print(f"rankwise {__version__}")
        return 0
    try:
        run(arguments)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2 if leaving.code else 0
    return 0


def _readable(message: str) -> str:
    """The lines of a message, of which a file may have given the words: printable, and none too long to be read."""
    half = _LONGEST_LINE // 2
    lines = message.split("\n")
    short = (line if len(line) <= _LONGEST_LINE else f"{line[:half]} ... {line[-half:]}" for line in lines)
    return "\n".join("".join(one if one.isprintable() else "\ufffd" for one in line) for line in short)


def _leave_a_silent_ray(code: int) -> None:
    """End the process here if the head of its Ray cluster hangs: python's own end would wait for it."""
    from rankwise.sweep import ray_was_abandoned

    if ray_was_abandoned():
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


def _replace_closed_streams() -> None:
    """Replace standard streams that were closed (``>&-``), where python has None, by ones that discard output."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _print_any_name() -> None:
    """Names of files need not be UTF-8, and a terminal's encoding need not have every letter."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Let what stdout could not take go nowhere: python would complain again when it flushes at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
