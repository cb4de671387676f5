"""``rankwise choose``: heads and ranks for a budget, by training small models on one's own text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rankwise.cli.output import console, print_json, require_figure_name, require_target
from rankwise.errors import InvalidInputError, require_int
from rankwise.sweep import Where

if TYPE_CHECKING:
    from rankwise.choose import BudgetSearch, Choice


def choose(
    *,
    text: Path | None = None,
    parameters: int | None = None,
    cache: int | None = None,
    preset: str = "laptop",
    seeds: int | None = None,
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o", "--out"])] = None,
    figure: Path | None = None,
    page: Path | None = None,
    open: bool = False,
    store: Path = Path("runs"),
    workers: int | None = None,
    retry: bool = False,
    dry_run: bool = False,
    json: bool = False,
    where: tyro.conf.OmitArgPrefixes[Where] = Where(),  # noqa: B008 (frozen)
) -> None:
    """How many heads of which rank, answered on your own text: small causal models trained at equal budget.

    Shapes over heads, rank, value rank and key heads that spend the same are trained a little; the best of every rank
    longer, then in full with several seeds. Loss against rank shows the best shape and how flat the optimum is. The
    same command again continues.

    Example: rankwise choose --text book.txt --parameters 32768 --dry-run, then without --dry-run

    Args:
        text: A text file, UTF-8, its last tenth held out; the Python standard library's source if not given.
        parameters: Attention weights that every small model has (laptop: 2 layers of width 64; 32768 is 4 d^2 each).
        cache: Bytes of keys and values per token that every small model keeps (laptop: 512 is 2 d numbers per layer).
            With --parameters too, both questions are answered.
        preset: smoke (seconds; for testing) or laptop (under an hour for one budget on two cores).
        seeds: Seeds of the last round, instead of the preset's.
        output: Also write the answer as JSON to this file, for advise and report.
        figure: Also draw loss against rank: this name with .png and .svg (extra report).
        page: The page to look at; its path is the last line (default: named after -o, else choose.html).
        open: Open the page in the browser.
        store: Directory that keeps results and checkpoints of what is trained.
        workers: How many runs at a time; one for every core if not given.
        retry: Also train again what failed, timed out or ran out of memory before.
        dry_run: Show the runs of all rounds, their parameters and the time at most; train and write nothing.
        json: Print one JSON object (format rankwise-choice/1) instead of text, and write no page.
        where: Where the runs are executed.
    """
    from rankwise import __version__
    from rankwise.choose import Choice, ShapeBudget, pick_preset, planned_runs, search_shapes
    from rankwise.cli.page import page_beside, say_page, write_page_of
    from rankwise.spec import SweepSpec, TextSpec
    from rankwise.tasks import read_corpus

    if workers is not None:
        require_int("--workers", workers, minimum=1)
    where.check()
    small = pick_preset(preset).with_seeds(None if seeds is None else require_int("--seeds", seeds, minimum=1))
    budgets = [ShapeBudget(kind="parameters", amount=parameters)] if parameters is not None else []
    budgets += [ShapeBudget(kind="cache", amount=cache)] if cache is not None else []
    if not budgets:
        raise InvalidInputError("expected a budget that all shapes spend: --parameters N, --cache BYTES, or both")
    place = page_beside(page, output, "choose.html")
    for option, file in (("-o", output), ("--figure", figure), ("--page", None if json else place)):
        if file is not None and not dry_run:
            require_target(option, file)
    if figure is not None:
        require_figure_name(figure)
    data = None if text is None else str(text)
    task = TextSpec(context=small.context, sha256=read_corpus(data).sha256, path=data)
    planned = [run for budget in budgets for run in planned_runs(budget, small, task)]
    if dry_run:
        from rankwise.cli.dry_run import show_plan
        from rankwise.sweep import plan_sweep

        name = f"choose ({preset}), at most: later rounds keep the best shapes, not the largest"
        show_plan(plan_sweep(SweepSpec(name=name, runs=tuple(planned))), store, workers=workers, json=json, retry=retry)
        return
    if figure is not None:
        from rankwise.report import require_drawing

        require_drawing()
    from rankwise.sweep import train_sweep

    searches = tuple(
        search_shapes(
            budget, small, task, lambda sweep: train_sweep(sweep, store, where=where, workers=workers, retry=retry)
        )
        for budget in budgets
    )
    choice = Choice(
        rankwise=__version__,
        preset=preset,
        text=task.data,
        sha256=task.sha256,
        dim=small.dim,
        layers=small.layers,
        context=small.context,
        searches=searches,
    )
    if output is not None:
        choice.write(output)
    if figure is not None:
        from rankwise.report import draw_choice, house_style, save_figure

        with house_style():
            drawn = draw_choice(choice)
        save_figure(drawn, figure.with_suffix(""))
    if json:
        print_json(choice.to_json())
        return
    _print(choice)
    if (written := write_page_of(place, choice=choice)) is not None:
        say_page(written, open=open)


def _print(choice: Choice) -> None:
    from rich.text import Text

    from rankwise.choose import NOT_PROVED

    out = console()
    out.print(Text(choice.headline(), style="bold"))
    out.print(
        Text(
            f"Small causal models on {choice.text}: {choice.layers} layers of width {choice.dim}, {choice.context} "
            f"bytes of context, preset {choice.preset}"
        )
    )
    for one in choice.searches:
        _print_search(one)
    out.print(Text(f"\nA measurement. It does not prove {NOT_PROVED}"))


def _print_search(one: BudgetSearch) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table("rank", "heads", "value rank", "key heads", "loss, bits per byte", "weights", "cache, bytes")
    table.title = Text(f"The best shape of every rank at {one.budget.words}")
    for shape in one.shapes:
        numbers = (shape.rank, shape.heads, shape.value_rank, shape.kv_heads)
        loss = f"{shape.loss:.4f} ± {shape.standard_error:.4f}" if len(shape.losses) > 1 else f"{shape.loss:.4f}"
        table.add_row(
            *(f"{number:,}" for number in numbers),
            loss,
            f"{shape.parameters:,}",
            f"{shape.cache_bytes:,}",
            style="bold" if shape == one.best else None,
        )
    out.print()
    out.print(table)
    seeds = len(one.best.losses)
    error = f"; ± is the standard error over {seeds} seeds" if seeds > 1 else ""
    out.print(Text(f"{one.flatness} Weights are those of attention, cache is per token{error}."))
