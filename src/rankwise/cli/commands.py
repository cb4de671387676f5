"""The list of commands. Adding one = one file with one function, and one line here."""

from __future__ import annotations

from tyro.extras import SubcommandApp


def app() -> SubcommandApp:
    """All commands, in the order ``rankwise --help`` shows them."""
    from rankwise.cli.advise import advise
    from rankwise.cli.audit import audit
    from rankwise.cli.bound import bound
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

    commands = SubcommandApp()
    for command in (
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
        advise,
        models,
        doctor,
    ):
        commands.command(command)
    return commands
