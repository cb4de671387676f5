"""The list of commands. Adding one = one file with one function, and one line here."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import tyro
from tyro.extras import SubcommandApp

from rankwise.cli.shown_names import with_shown_names
from rankwise.errors import InvalidInputError, nearest_name

DESCRIPTION = """How much rank does an attention head need, and how many heads?

rankwise COMMAND --help says more, with an example; rankwise doctor what is installed; rankwise --version which one."""


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and call the command they name."""
    if os.environ.get("NO_COLOR"):  # tyro does not look
        tyro._experimental_options["ansi_codes"] = False
    arguments = arguments or ["--help"]
    whole = not arguments[0].startswith("-")
    names = [command.__name__ for command in all_commands()]
    if whole and arguments[0] not in names:
        hint = nearest_name(arguments[0], names)
        raise InvalidInputError(
            f"expected a command, got {arguments[0]!r:.60}{hint}; there are {', '.join(names)} (rankwise --help)"
        )
    commands = SubcommandApp()
    for command in all_commands():
        first = inspect.cleandoc(command.__doc__ or "").split("\n\n")[0]
        named = whole and command.__name__ == arguments[0]
        commands.command(help=None if whole else first)(with_shown_names(command) if named else command)
    commands.cli(prog="rankwise", description=DESCRIPTION, args=arguments, config=(tyro.conf.FlagCreatePairsOff,))


def all_commands() -> tuple[Callable[..., Any], ...]:
    """All commands, in the order ``rankwise --help`` shows them."""
    from rankwise.cli.advise import advise
    from rankwise.cli.audit import audit
    from rankwise.cli.bound import bound
    from rankwise.cli.choose import choose
    from rankwise.cli.demo import demo
    from rankwise.cli.doctor import doctor
    from rankwise.cli.models import models
    from rankwise.cli.need import need
    from rankwise.cli.reduce import reduce
    from rankwise.cli.report import report
    from rankwise.cli.reproduce import reproduce
    from rankwise.cli.results import results
    from rankwise.cli.saturate import saturate
    from rankwise.cli.status import status
    from rankwise.cli.sweep import sweep

    return (
        demo,
        reproduce,
        sweep,
        status,
        results,
        report,
        bound,
        saturate,
        need,
        audit,
        reduce,
        choose,
        advise,
        models,
        doctor,
    )
