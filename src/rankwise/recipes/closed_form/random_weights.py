"""Rank of attention at random weights, against everything one can turn: sizes, depth, inputs, temperature, latents.

    rankwise reproduce random-weights --preset laptop        (smoke: 5 s; laptop: half a minute on one core)

Six panels, ranks as shares of the number of tokens; the hardmax rank, and of the softmax matrix the effective rank and
the number of singular values above 1e-2 and 1e-3 of the largest. To expect, at 256 tokens:

- model dimension (8 heads) and heads (dimension 512): only head_dim = dim / heads matters, and the hardmax rank follows
  ``expected_hardmax_rank``, a little lower where Gaussian tokens are not quite orthogonal (256 in 512 dimensions);
- depth: the tokens of a random transformer align (averaging and ReLU add a direction that all share), so the hardmax
  rank falls from .55 in the first layer to .12 in the twelfth with pre-norm, to .01 with post-norm;
- inputs: orthonormal and Gaussian tokens are alike (.61 and .58 at head_dim 256); tokens of pairwise cosine 1/2 stop at
  .2, whatever the head dimension;
- temperature: softmax ranks depend on the definition and on beta, from .05 to .99 for one head whose hardmax rank is
  .56, and come down to that only near hardmax (beta >= 300); no threshold is special;
- DeepSeek-V3's latent attention (score dimension 192, causal) behaves like an ordinary head with head_dim 192: .475 and
  .485 at 1024 tokens, .479 by quadrature.

These are laws of random weights. Trained weights are free of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rankwise.recipes.registry import Reproduced, Say, pick_preset, write_numbers
from rankwise.report.figures import (
    COLOURS,
    GUIDE,
    MARKERS,
    house_style,
    label_level,
    new_figure,
    require_drawing,
    save_figure,
)
from rankwise.theory.saturation import expected_hardmax_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rankwise.recipes.closed_form.random_scores import Ranks

PANELS = {
    "model dimension": "model dimension, 8 heads",
    "heads": "heads",
    "layer": "layer",
    "inputs": "head dimension",
    "temperature": r"logit scale $\beta$",
    "latent": "tokens",
}
MEASURES = {
    "hardmax": "hardmax rank",
    "effective": "softmax, effective rank",
    "above_1e2": r"softmax, $\sigma > 10^{-2}\sigma_1$",
    "above_1e3": r"softmax, $\sigma > 10^{-3}\sigma_1$",
}


_LEGENDS = {"heads": "lower left", "layer": "upper right", "inputs": "upper left", "latent": "upper left"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of all panels; every point is a mean over ``draws`` draws of the inputs with ``heads_each`` heads each."""

    tokens: int
    draws: int
    heads_each: int
    dims: tuple[int, ...]
    dim: int
    heads: tuple[int, ...]
    layers: int
    layer_dim: int
    head_dims: tuple[int, ...]
    betas: tuple[float, ...]
    latent_tokens: tuple[int, ...]
    latent_heads: int


PRESETS = {
    "smoke": Settings(
        tokens=64,
        draws=2,
        heads_each=2,
        dims=(64, 256, 512),
        dim=128,
        heads=(1, 8, 64),
        layers=4,
        layer_dim=64,
        head_dims=(4, 16, 64),
        betas=(0.3, 1.0, 10.0, 100.0, 1000.0),
        latent_tokens=(32, 64),
        latent_heads=2,
    ),
    "laptop": Settings(
        tokens=256,
        draws=4,
        heads_each=4,
        dims=(64, 128, 256, 512, 1024, 2048),
        dim=512,
        heads=(1, 2, 4, 8, 16, 32, 64, 128),
        layers=12,
        layer_dim=256,
        head_dims=(4, 8, 16, 32, 64, 128, 256),
        betas=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0),
        latent_tokens=(64, 128, 256, 512, 1024),
        latent_heads=8,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measurement: which panel and line, where on its axis, and the ranks; ``expected`` is the quadrature's."""

    panel: str
    series: str
    x: float
    hardmax: float
    hardmax_se: float
    effective: float
    above_1e2: float
    above_1e3: float
    expected: float | None = None


@dataclass(frozen=True, kw_only=True)
class RandomWeights:
    """All points of the figure; ``tokens`` holds for all panels but the last."""

    tokens: int
    points: list[Point]


def compute(settings: Settings, say: Say = lambda line: None) -> RandomWeights:
    """The numbers of the figure."""
    points = []
    for part in (_sizes, _depths, _inputs, _temperatures, _latents):
        for point in part(settings):
            say(f"{point.panel}: {point.series}, {point.x:g}: hardmax rank {point.hardmax:.3f} of the tokens")
            points.append(point)
    return RandomWeights(tokens=settings.tokens, points=points)


def _point(panel: str, series: str, x: float, ranks: Ranks, expected: float | None = None) -> Point:
    return Point(panel=panel, series=series, x=x, expected=expected, **asdict(ranks))


def _plain(settings: Settings, dim: int, head_dim: int, law: str, beta: float = 1.0) -> Ranks:
    """Ordinary heads with the full mask."""
    import torch

    from rankwise.recipes.closed_form.random_scores import plain_scores, random_inputs, ranks_of_scores

    generator = torch.Generator().manual_seed(1000 * dim + head_dim)
    scores = [
        plain_scores(random_inputs(law, settings.tokens, dim, generator), head_dim, settings.heads_each, generator)
        for _ in range(settings.draws)
    ]
    return ranks_of_scores(beta * torch.cat(scores))


def _sizes(settings: Settings) -> Iterator[Point]:
    def expected(head_dim: int) -> float | None:
        return expected_hardmax_rank(settings.tokens, head_dim) / settings.tokens if head_dim >= 4 else None

    for dim in settings.dims:
        ranks = _plain(settings, dim, dim // 8, "gaussian")
        yield _point("model dimension", "Gaussian tokens", dim, ranks, expected(dim // 8))
    for heads in settings.heads:
        size = settings.dim // heads
        yield _point(
            "heads", f"dim {settings.dim}", heads, _plain(settings, settings.dim, size, "gaussian"), expected(size)
        )


def _depths(settings: Settings) -> Iterator[Point]:
    import torch

    from rankwise.recipes.closed_form.random_scores import layer_weights, ranks_of_weights

    dim, heads = settings.layer_dim, 4
    places: tuple[Literal["pre", "post"], ...] = ("pre", "post")
    for place in places:
        generator = torch.Generator().manual_seed(5)
        drawn = [
            layer_weights(settings.tokens, dim, heads, settings.layers, place, generator) for _ in range(settings.draws)
        ]
        for layer, weights in enumerate(zip(*drawn, strict=True), start=1):
            yield _point("layer", f"{place}-norm", layer, ranks_of_weights(torch.cat(weights)))


def _inputs(settings: Settings) -> Iterator[Point]:
    from rankwise.recipes.closed_form.random_scores import INPUTS

    for law in INPUTS:
        for size in settings.head_dims:
            expected = expected_hardmax_rank(settings.tokens, size) / settings.tokens if law == "orthonormal" else None
            yield _point("inputs", law, size, _plain(settings, settings.dim, size, law), expected)


def _temperatures(settings: Settings) -> Iterator[Point]:
    for beta in settings.betas:
        yield _point("temperature", "head_dim 64", beta, _plain(settings, settings.dim, 64, "gaussian", beta))


def _latents(settings: Settings) -> Iterator[Point]:
    import torch

    from rankwise.recipes.closed_form.random_scores import (
        latent_weights,
        plain_scores,
        random_inputs,
        ranks_of_scores,
        ranks_of_weights,
    )

    heads = settings.latent_heads
    for tokens in settings.latent_tokens:
        generator = torch.Generator().manual_seed(tokens)
        weights = latent_weights(tokens, heads, generator)
        expected = expected_hardmax_rank(tokens, 192, "causal") / tokens
        yield _point("latent", "DeepSeek-V3's layer", tokens, ranks_of_weights(weights), expected)
        inputs = random_inputs("gaussian", tokens, 7168, generator)
        hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = plain_scores(inputs, 192, heads, generator).masked_fill(hidden, -torch.inf)
        yield _point("latent", "ordinary, head_dim 192", tokens, ranks_of_scores(scores))


def draw(data: RandomWeights, stem: Path) -> tuple[Path, Path]:
    """Two rows of three panels on one vertical axis."""
    with house_style():
        figure = new_figure(10.4, 6.6)
        grid = figure.subplots(2, 3, sharey=True)
        for axes, (panel, horizontal) in zip(grid.flat, PANELS.items(), strict=True):
            points = [point for point in data.points if point.panel == panel]
            if panel in ("model dimension", "heads", "temperature"):
                _draw_measures(axes, points)
            else:
                _draw_series(axes, points)
            level, place = (0.5, "0.5") if panel == "latent" else (0.6321, "0.632")
            label_level(axes, level, place, at=0.01 if panel in ("model dimension", "inputs") else 0.99)
            axes.set(xlabel=horizontal, title=_title(panel, data), ylim=(0, 1.05))
            if panel != "layer":
                axes.set_xscale("log", base=10 if panel == "temperature" else 2)
            if panel != "temperature":
                places = sorted({int(point.x) for point in points})
                axes.set_xticks(places, [str(place) for place in places])
                axes.minorticks_off()
            if panel in _LEGENDS:  # the panels beside "heads" have its lines
                axes.legend(loc=_LEGENDS[panel], fontsize=7)
        for axes in grid[:, 0]:
            axes.set_ylabel("rank / tokens")
        figure.suptitle("Rank of attention at random weights", fontsize=11)
    return save_figure(figure, stem)


def _title(panel: str, data: RandomWeights) -> str:
    titles = {"latent": "latent attention, causal", "layer": "depth", "temperature": "temperature, head_dim 64"}
    return titles.get(panel, panel) + ("" if panel == "latent" else f", {data.tokens} tokens")


def _draw_measures(axes: Axes, points: list[Point]) -> None:
    """One line a definition of rank."""
    for index, (measure, name) in enumerate(MEASURES.items()):
        heights = [getattr(point, measure) for point in points]
        axes.plot([point.x for point in points], heights, color=COLOURS[index], marker=MARKERS[index], label=name)
    _draw_expected(axes, points)


def _draw_series(axes: Axes, points: list[Point]) -> None:
    """One line a series: its hardmax rank with bars of two standard errors, and thin its effective rank."""
    for index, series in enumerate(dict.fromkeys(point.series for point in points)):
        line = [point for point in points if point.series == series]
        places = [point.x for point in line]
        style: dict[str, Any] = {"color": COLOURS[index], "marker": MARKERS[index]}
        bars = [2 * point.hardmax_se for point in line]
        axes.errorbar(places, [point.hardmax for point in line], yerr=bars, capsize=2, label=series, **style)
        style |= {"linewidth": 0.8, "markersize": 2.5}
        axes.plot(places, [point.effective for point in line], **style)
    _draw_expected(axes, points)
    axes.plot([], [], color=GUIDE, linewidth=0.8, label="thin: softmax, effective rank")


def _draw_expected(axes: Axes, points: list[Point]) -> None:
    known = [(point.x, point.expected) for point in points if point.expected is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=GUIDE, linestyle=":", linewidth=1.4, label="hardmax, quadrature")


def reproduce(preset: str, out: Path, say: Say) -> Reproduced:
    """Compute, write numbers and pictures, and tabulate every point."""
    require_drawing()
    data = compute(pick_preset(PRESETS, preset), say)
    files = (*draw(data, out / "random-weights"), write_numbers(data, out / "random-weights"))
    return Reproduced(
        columns=("panel", "series", "at", "hardmax", "2 s.e.", "expected", "effective", "above 1e-2", "above 1e-3"),
        rows=tuple(
            (p.panel, p.series, p.x, p.hardmax, 2 * p.hardmax_se, p.expected, p.effective, p.above_1e2, p.above_1e3)
            for p in data.points
        ),
        reading="Ranks are shares of the number of tokens, means over random heads. The hardmax rank has a barrier; "
        "the softmax ranks depend on definition and temperature, and no threshold among them is special.",
        files=files,
    )
