"""The list of commands. Adding one = one file with one function, and one line here."""

from __future__ import annotations

from tyro.extras import SubcommandApp


def app() -> SubcommandApp:
    """All commands, in the order ``rankwise --help`` shows them."""
    from rankwise.cli.bound import bound
    from rankwise.cli.doctor import doctor

    commands = SubcommandApp()
    commands.command(bound)
    commands.command(doctor)
    return commands
