"""Rank of attention at random weights, against everything one can turn: sizes, depth, inputs, temperature, latents.

    rankwise reproduce random-weights --preset laptop        (smoke: 5 s; laptop: half a minute on one core)

Six panels, ranks as shares of the number of tokens: the hardmax rank, and of the softmax matrix the effective rank and
the number of singular values above 1e-2 and 1e-3 of the largest. To expect:

- Model dimension and heads: only head_dim = dim / heads matters. The hardmax rank follows ``expected_hardmax_rank``, a
  little lower where Gaussian tokens are not quite orthogonal.
- Depth: the tokens of a random transformer align (averaging and ReLU add a direction that all share), and the hardmax
  rank falls, most with post-norm.
- Inputs: orthonormal and Gaussian tokens are alike. Tokens of pairwise cosine 1/2 stop early at any head dimension.
- Temperature: softmax ranks depend on the definition and on beta; they come down to the hardmax rank only near hardmax.
- DeepSeek-V3's latent attention (score dimension 192, causal) behaves like an ordinary head with head_dim 192.

These are laws of random weights. Trained weights are free of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from rankwise.audit import ScoreRanks, random_scores
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve
from rankwise.recipes.points import Point, Row, lines_of, select
from rankwise.report import COLOURS, GUIDE, MARKERS, Panel, Picture, PlotAxis, legend_entry, smooth
from rankwise.theory import expected_hardmax_rank

PANELS = {
    "model dimension": ("model dimension", "model dimension, 8 heads", None),
    "heads": ("heads", "heads", "lower left"),
    "layer": ("depth", "layer", "upper right"),
    "inputs": ("inputs", "head dimension", "upper left"),
    "temperature": ("temperature, head_dim 64", r"logit scale $\beta$", None),
    "latent": ("latent attention, causal", "tokens", "upper left"),
}
"""Title, horizontal axis, and place of the legend; panels without one have the lines of "heads"."""
_MEASURES = {
    "hardmax": "hardmax rank",
    "effective": "softmax, effective rank",
    "above_1e2": r"softmax, $\sigma > 10^{-2}\sigma_1$",
    "above_1e3": r"softmax, $\sigma > 10^{-3}\sigma_1$",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the panels, which are named as in ``PANELS``."""

    tokens: int = 256
    """In all panels but "latent"."""
    draws: int = 4
    """Draws of the inputs per point; "latent" has one."""
    heads_each: int = 4
    """Heads per draw; "layer" has 4, "latent" has ``latent_heads``."""
    dims: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    """The model dimensions of "model dimension", with 8 heads each."""
    dim: int = 512
    """The model dimension of "heads", "inputs" and "temperature"."""
    heads: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    """The numbers of heads of "heads", each of dimension ``dim / heads``."""
    layers: int = 12
    """The depth of "layer"."""
    layer_dim: int = 256
    """The model dimension of "layer"."""
    head_dims: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256)
    """The head dimensions of "inputs"."""
    betas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
    """The factors on the logits of "temperature"."""
    latent_tokens: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """The numbers of tokens of "latent"."""
    latent_heads: int = 8
    """Heads of the latent attention."""


def _cells(settings: Settings, panel: str) -> Iterator[tuple[str, float, ScoreRanks, float | None]]:
    """Line, place on the horizontal axis, ranks, and the hardmax rank by quadrature, of every point of a panel."""
    tokens, dim, draws = settings.tokens, settings.dim, settings.draws

    def plain(dim: int, head_dim: int, law: str = "gaussian", beta: float = 1.0) -> ScoreRanks:
        seeded, heads = torch.Generator().manual_seed(1000 * dim + head_dim), settings.heads_each
        of: dict[str, Any] = {"draws": draws, "heads": heads, "generator": seeded, "beta": beta}
        return random_scores.plain_ranks(law, tokens, dim, head_dim, **of)

    def expected(head_dim: int) -> float | None:
        return expected_hardmax_rank(tokens, head_dim) / tokens if head_dim >= 4 else None

    if panel == "model dimension":
        yield from (("Gaussian tokens", d, plain(d, d // 8), expected(d // 8)) for d in settings.dims)
    elif panel == "heads":
        yield from ((f"dim {dim}", h, plain(dim, dim // h), expected(dim // h)) for h in settings.heads)
    elif panel == "layer":
        places: tuple[Literal["pre", "post"], ...] = ("pre", "post")
        for place in places:
            generator, depth = torch.Generator().manual_seed(5), settings.layers
            sizes = (tokens, settings.layer_dim, 4, depth)
            drawn = [random_scores.layer_weights(*sizes, place, generator) for _ in range(draws)]
            for layer, weights in enumerate(zip(*drawn, strict=True), start=1):
                yield f"{place}-norm", layer, random_scores.ranks_of_weights(torch.cat(weights)), None
    elif panel == "inputs":
        for law in random_scores.INPUTS:
            for size in settings.head_dims:
                yield law, size, plain(dim, size, law), expected(size) if law == "orthonormal" else None
    elif panel == "temperature":
        yield from (("head_dim 64", beta, plain(dim, 64, beta=beta), None) for beta in settings.betas)
    else:
        for n in settings.latent_tokens:
            generator, heads = torch.Generator().manual_seed(n), settings.latent_heads
            latent = random_scores.ranks_of_weights(random_scores.latent_weights(n, heads, generator))
            yield "DeepSeek-V3's layer", n, latent, expected_hardmax_rank(n, 192, "causal") / n
            of: dict[str, Any] = {"draws": 1, "heads": heads, "generator": generator, "causal": True}
            yield "ordinary, head_dim 192", n, random_scores.plain_ranks("gaussian", n, 7168, 192, **of), None


class _RandomWeights(ComputedFigure[Settings]):
    """Two rows of three panels on one vertical axis; ``expected`` is the hardmax rank by quadrature."""

    name = "random-weights"
    columns = ("panel", "series", "x", "hardmax", "hardmax_se", "expected", *_MEASURES)

    def parts(self, settings: Settings) -> list[tuple[str]]:
        return [(name,) for name in PANELS]

    def rows(self, settings: Settings, panel: str) -> Iterator[Row]:
        for series, x, ranks, expected in _cells(settings, panel):
            yield {"panel": panel, "series": series, "x": x, "expected": expected, **asdict(ranks)}

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        panels = [_panel(settings, name, select(points, panel=name)) for name in PANELS]
        title = "Rank of attention at random weights"
        return Picture(title=title, panels=[panels[:3], panels[3:]], size=(3.5, 3.3))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        return [
            "Ranks are shares of the number of tokens, means over random heads.",
            "The hardmax rank has a barrier.",
            "The softmax ranks depend on definition and temperature; no threshold among them is special.",
        ]


def _panel(settings: Settings, name: str, points: Sequence[Point]) -> Panel:
    """One line per definition of rank, or one per series: its hardmax rank, and thin its effective rank."""
    (title, horizontal, legend), series = PANELS[name], []
    if name in ("model dimension", "heads", "temperature"):
        series += [curve(label, points, x="x", y=column) for column, label in _MEASURES.items()]
    else:
        for (label, line), colour, marker in zip(lines_of(points, "series").items(), COLOURS, MARKERS, strict=False):
            look: dict[str, Any] = {"color": colour, "marker": marker}
            series.append(curve(label, line, x="x", y="hardmax", **look))
            series.append(curve("", line, x="x", y="effective", linewidth=0.8, markersize=2.5, **look))
        series.append(legend_entry("thin: softmax, effective rank", **smooth(GUIDE, "-", 0.8)))
    expected = curve("hardmax, quadrature", points, x="x", y="expected", **smooth(GUIDE, ":", 1.4))
    scales: dict[str, Literal["linear", "log"]] = {"temperature": "log", "layer": "linear"}
    ticks = () if name == "temperature" else sorted({point["x"] for point in points})
    return Panel(
        title=title if name == "latent" else f"{title}, {settings.tokens} tokens",
        x=PlotAxis(label=horizontal, scale=scales.get(name, "log2"), ticks=ticks),
        y=PlotAxis(label="rank / tokens", low=0, high=1.05),
        series=[*series, expected] if expected.x else series,
        levels={"0.5": 0.5} if name == "latent" else {"0.632": 0.6321},
        level_side="left" if name in ("model dimension", "inputs") else "right",
        legend=legend,
    )


FIGURE = _RandomWeights(
    smoke=Settings(
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
    laptop=Settings(),
)
