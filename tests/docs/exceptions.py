"""Commands of the pages that a test does not run as they stand. All of them are here, each with its reason.

Every entry must match a command, or ``test_commands`` fails: the list cannot outlive the pages.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class RunOtherwise:
    """What is put behind the command when it is run in ``make test`` and in ``make test-slow``; None: it is not run."""

    pattern: str
    quick: tuple[str, ...] | None
    full: tuple[str, ...] | None
    reason: str


AS_IT_STANDS = ()
DRY = ("--dry-run",)
EXCEPTIONS = tuple(
    RunOtherwise(*entry)
    for entry in (
        # Not run here.
        (r"make (demo|test)\b.*", None, None, "minutes, in an environment of its own"),
        (r"make docs", None, None, "test_site.py builds the site with the same arguments"),
        (r"make docs-pictures", None, None, "follows the tutorial, as test_commands does"),
        (r"python3 -m venv .*", None, None, "makes an environment"),
        (r"(\.venv/bin/)?pip install .*", None, None, "installs, from the network"),
        (r"\. \.venv/bin/activate", None, None, "a shell's own"),
        (r"(\.venv/bin/)?rankwise demo", None, None, "minutes; tests/cli/test_demo.py runs it in small"),
        (r"python -m build", None, None, "tests/packaging/test_wheel.py builds with the same command"),
        (r"pytest tests/packaging", None, None, "these are tests themselves"),
        (r"git (tag|push) .*", None, None, "publishes"),
        (r"python -m twine upload .*", None, None, "publishes"),
        # Planned, not trained.
        (r"rankwise reproduce (figure1|theorem|language|repeated)( --out results)?( +#.*)?", DRY, DRY, "minutes"),
        (r"rankwise reproduce figure1 --preset full --engine ray .*", DRY, DRY, "a cluster, and days"),
        (r"rankwise sweep grid.toml --engine ray.*", DRY, DRY, "a cluster; tests/sweep/engines/test_ray.py has one"),
        # In full when there is time.
        (r"rankwise reproduce (figure1|theorem) --preset smoke", DRY, AS_IT_STANDS, "trains for 20 s or more"),
        (r"rankwise choose .*--preset smoke .*", DRY, AS_IT_STANDS, "trains for 20 s"),
        (r"rankwise advise .*--choose choice.json", None, AS_IT_STANDS, "reads what choose trained"),
        (r"rankwise need .*", ("--steps", "4"), AS_IT_STANDS, "trains forms for 10 s"),
        (r"rankwise sweep ranks.toml --store my-runs", DRY, AS_IT_STANDS, "trains for 10 s"),
        (r"rankwise (results|report) .*my-runs.*", None, AS_IT_STANDS, "reads what that sweep trained"),
        (r"python examples/nanogpt_swap.py", ("--steps", "2"), AS_IT_STANDS, "trains for a minute"),
    )
)


def exception_of(command: str) -> RunOtherwise | None:
    """The first entry that matches the whole command."""
    return next((entry for entry in EXCEPTIONS if re.fullmatch(entry.pattern, command)), None)
