"""The points of Figure 1, and what they say: full against half rank, depth, the authors' values, their protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import REPEATING, depth_name
from rankwise.recipes.paper_figures import PublishedCurve, published_figure
from rankwise.recipes.rows import ResultRow, mean_over_seeds
from rankwise.report.headline import two_digits_down
from rankwise.train.protocols import Cell, paper, wide

EXPONENTS = (1.0, 1.5, 2.0)
"""The budgets of the figure: H = d^c / r heads for these c."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of the figure: the mean over seeds of a cell's error, and the authors' value where they have one.

    ``authors_accuracy`` is how well that can be read, as a share of it. ``error`` is on held-out examples. ``training``
    is the authors' statistic, the lowest epoch of the training error; with a protocol whose epochs all have the same
    sequences it is lower by what was learned by heart.
    """

    protocol: str
    dim: int
    layers: int
    exponent: float
    heads: int
    rank: int
    error: float
    spread: float
    seeds: int
    parameters: int
    sequences: int
    training: float
    authors: float | None = None
    authors_accuracy: float = 0.0

    @property
    def memory(self) -> float:
        """How much lower the error is on sequences that were trained on."""
        return self.error - self.training

    @property
    def beside(self) -> float:
        """What the authors' value is compared with: their statistic where it was measured, else the held-out error."""
        return self.training if self.protocol in REPEATING else self.error

    @property
    def collapsed(self) -> bool:
        """Whether the answer is 0, whose error is 1."""
        return abs(self.error - 1) < 1e-3


def points_of(rows: Sequence[ResultRow]) -> list[Point]:
    """The cells of the figure, seeds averaged, in the order protocol, layers, budget, rank.

    What was trained on several numbers of sequences counts with the largest.
    """

    def cell(row: ResultRow) -> tuple[str, int, int, int]:
        return row.protocol, row.layers, row.heads * row.rank, row.rank

    longest = {(cell(row), row.seed): row for row in sorted(rows, key=lambda row: row.sequences)}
    rows = [row for row in rows if longest[cell(row), row.seed] is row]
    training = mean_over_seeds(rows, cell, lambda row: row.train_min)
    points = []
    for key, mean in mean_over_seeds(rows, cell).items():
        protocol, layers, total_rank, rank = key
        dim = mean.row.dim
        exponent = min(EXPONENTS, key=lambda c: abs(dim**c - total_rank))
        curve = published_curve(layers, exponent) if (dim, mean.row.points) == (64, 16) else None
        points.append(
            Point(
                protocol=protocol,
                dim=dim,
                layers=layers,
                exponent=exponent,
                heads=mean.row.heads,
                rank=rank,
                error=mean.error,
                spread=mean.spread,
                seeds=mean.seeds,
                parameters=mean.row.parameters,
                sequences=mean.row.sequences,
                training=training[key].error,
                authors=None if curve is None else curve.at(rank),
                authors_accuracy=0.0 if curve is None else curve.accuracy(rank),
            )
        )
    return points


def published_curve(layers: int, exponent: float) -> PublishedCurve | None:
    """The authors' errors at one depth and budget (d = 64, N = 16), None where they have no such curve."""
    return published_figure("figure1").curve(layers=layers, exponent=exponent)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """How many times worse half rank is than full rank, at one depth and budget."""

    layers: int
    exponent: float
    full: float
    half: float

    @property
    def ratio(self) -> float:
        return self.half / self.full


def gaps(points: Sequence[Point]) -> list[Gap]:
    """Full rank against half rank wherever both were trained."""
    full_rank = points[0].dim
    found = {(point.layers, point.exponent, point.rank): point.error for point in points}
    return [
        Gap(layers=layers, exponent=exponent, full=error, half=found[layers, exponent, full_rank // 2])
        for (layers, exponent, rank), error in found.items()
        if rank == full_rank and (layers, exponent, full_rank // 2) in found
    ]


def reading(points: Sequence[Point]) -> list[str]:
    """What the numbers of one protocol say, computed from them."""
    by_depth = gaps_by_depth(points)
    lines = full_against_half(by_depth) + depth_narrows(by_depth)
    lines += collapses(points) + by_heart(points) + beside_the_authors(points)
    return lines + lengths(points) + sizes(points)


def gaps_by_depth(points: Sequence[Point]) -> dict[int, list[Gap]]:
    """The gaps of every depth that has some."""
    by_depth: dict[int, list[Gap]] = {}
    for gap in gaps(points):
        by_depth.setdefault(gap.layers, []).append(gap)
    return by_depth


def full_against_half(by_depth: dict[int, list[Gap]]) -> list[str]:
    """A line for every depth."""
    lines = []
    for layers, found in sorted(by_depth.items()):
        least, best_half = min(found, key=lambda gap: gap.ratio), min(found, key=lambda gap: gap.half)
        worst_full = max(gap.full for gap in found)
        if len(found) == 1:
            lines.append(
                f"{depth_name(layers)}, d^{1 + least.exponent:g} parameters: full rank reaches {least.full:.3g}; half "
                f"rank errs {two_digits_down(least.ratio)} times as much, {least.half:.2g}."
            )
        else:
            lines.append(
                f"{depth_name(layers)}: full rank reaches {worst_full:.3g} or less at every budget; half rank errs at "
                f"least {two_digits_down(least.ratio)} times as much, and its best budget "
                f"(d^{1 + best_half.exponent:g}) stays at {best_half.half:.2g}."
            )
    return lines


def depth_narrows(by_depth: dict[int, list[Gap]]) -> list[str]:
    """What half rank gains by depth, where a budget was trained at both."""
    deepest = max(by_depth, default=1)
    shallow = {gap.exponent: gap for gap in by_depth.get(1, [])}
    deep = [gap for gap in by_depth.get(deepest, []) if gap.exponent in shallow]
    if deepest == 1 or not deep:
        return []
    best = min(deep, key=lambda gap: gap.half)
    before = shallow[best.exponent].half
    verb = "narrows" if best.half < before else "does not narrow"
    return [
        f"Depth {verb} it: at the {'best' if len(deep) > 1 else 'only'} budget of both (d^{1 + best.exponent:g}) "
        f"half rank goes from {before:.2g} to {best.half:.2g} with {deepest} layers."
    ]


def collapses(points: Sequence[Point]) -> list[str]:
    """Where training ended at an answer of 0."""
    found = [point for point in points if point.collapsed]
    depths = sorted({point.layers for point in found})
    where = [
        f"{depth_name(layers)}, rank {', '.join(str(p.rank) for p in found if p.layers == layers)}" for layers in depths
    ]
    return [f"Collapsed to an answer of 0, error 1.000: {'; '.join(where)}."] if found else []


def lengths(points: Sequence[Point]) -> list[str]:
    """What was trained less than the rest."""
    most = max(point.sequences for point in points)
    curves: dict[tuple[int, float, int], list[str]] = {}
    for point in points:
        if point.sequences < most:
            curves.setdefault((point.layers, point.exponent, point.sequences), []).append(str(point.rank))
    shorter = [
        f"{depth_name(layers)}, d^{1 + exponent:g}, rank {', '.join(ranks)} ({sequences:,})"
        for (layers, exponent, sequences), ranks in curves.items()
    ]
    return [f"Trained on fewer than {most:,} sequences: {'; '.join(shorter)}."] if shorter else []


def sizes(points: Sequence[Point]) -> list[str]:
    """How many parameters our layers have beside the authors' of the same heads, where those have a value."""
    shares = [point.parameters / _papers_parameters(point) for point in points if point.authors is not None]
    if not shares or points[0].protocol == "paper":
        return []
    least, most = min(shares), max(shares)
    return [f"Parameters: {least:.2g} to {most:.2g} times those of the paper's layers with the same heads."]


def _papers_parameters(point: Point) -> int:
    return paper(_cell(point)).model.parameters()


def _cell(point: Point) -> Cell:
    return Cell(dim=point.dim, points=2, layers=point.layers, heads=point.heads, rank=point.rank)


def above_linear_scores(points: Sequence[Point], level: float) -> list[str]:
    """Where heads with whole values err more than linear scores do, which such heads of any rank can have."""
    curves: dict[tuple[int, float], list[str]] = {}
    for point in points:
        if point.protocol == "wide" and point.error > level and _whole_values(point):
            curves.setdefault((point.layers, point.exponent), []).append(str(point.rank))
    found = [
        f"{depth_name(layers)}, H = d^{exponent:g}/r, rank {', '.join(ranks)}"
        for (layers, exponent), ranks in sorted(curves.items())
    ]
    if not found:
        return []
    return [
        f"wide: linear scores, which heads of any rank have if their values are whole, reach {level:.3g} with x_i "
        f"beside them; above that, where rank is not the limit: {'; '.join(found)}."
    ]


def _whole_values(point: Point) -> bool:
    return wide(_cell(point)).model.value_rank == point.dim


def by_heart(points: Sequence[Point]) -> list[str]:
    """What a protocol knows of the sequences that it sees in every epoch, and of no others."""
    repeated = [point for point in points if point.protocol in REPEATING and not point.collapsed]
    if not repeated:
        return []
    most = max(repeated, key=lambda point: point.memory)
    return [
        f"Its epochs repeat the same sequences: on those the error is lower than on held-out ones by up to "
        f"{most.memory:.2g} (rank {most.rank}, {depth_name(most.layers)}: {most.training:.3g} "
        f"against {most.error:.3g})."
    ]


def beside_the_authors(points: Sequence[Point]) -> list[str]:
    """How the errors of one protocol stand to the authors' values, which are training errors read off a picture."""
    beside = [(point, point.authors) for point in points if point.authors is not None]
    if not beside:
        return []
    apart = [(p, authors) for p, authors in beside if abs(p.beside - authors) > p.authors_accuracy * authors]
    above = [(point, authors) for point, authors in apart if point.beside > authors]
    which = "training errors" if beside[0][0].protocol in REPEATING else "held-out errors"
    line = (
        f"Beside the authors' training errors, {len(beside)} {which}: {len(apart) - len(above)} below, "
        f"{len(beside) - len(apart)} equal as far as the authors' can be read off their figure (1 %, "
        f"3 % where hidden), {len(above)} above"
    )
    if above:
        worst, value = max(above, key=lambda pair: pair[0].beside / pair[1])
        line += (
            f"; the farthest above is rank {worst.rank} with {depth_name(worst.layers)} and "
            f"d^{1 + worst.exponent:g} parameters: {worst.beside:.3g} against {value:.3g}"
        )
    return [line + "."]


def between_protocols(points: Sequence[Point]) -> list[str]:
    """How our protocols stand to the authors' and to each other in the cells that both have."""
    by_protocol: dict[str, dict[tuple[int, float, int], Point]] = {}
    for point in points:
        by_protocol.setdefault(point.protocol, {})[point.layers, point.exponent, point.rank] = point
    lines = []
    for better, other in (("capacity", "paper"), ("wide", "paper"), ("wide", "capacity")):
        ours, theirs = by_protocol.get(better, {}), by_protocol.get(other, {})
        cells = [cell for cell in theirs if cell in ours]
        if cells:
            below = sum(ours[cell].error < theirs[cell].error for cell in cells)
            lines.append(
                f"{better} errs less than {other} on held-out examples in {below} of the {len(cells)} cells that both "
                f"have."
            )
    return lines
