"""The list of commands. Adding one = one file with one function, and one line here."""

from __future__ import annotations

from tyro.extras import SubcommandApp


def app() -> SubcommandApp:
    """All commands, in the order ``rankwise --help`` shows them."""
    from rankwise.cli.doctor import doctor
    from rankwise.cli.saturate import saturate

    commands = SubcommandApp()
    commands.command(saturate)
    commands.command(doctor)
    return commands
