"""What a layer's cut costs, against what is known of the layer without a cut: the picture of results/predict.md.

    python -m benchmarks.predictor_figure results/predict-minilm.json results/predict-smollm2.json -o results/predict

Reads what ``benchmarks.predictors`` wrote. A column per model, at its middle rank; a row per number that is known. One
point per layer, with one standard error of the cost on either side; the outermost have the number of their layer.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rankwise.report import COLOURS, Panel, Picture, PlotAxis, Series, dots, house_style, save_figure

KNOWN = {
    "energy rank, 90 %, OV": "energy rank, 90 %, of the OV form (weights)",
    "attention row": "need of the attention row (texts)",
}
MODELS = {
    "predict-minilm": ("MiniLM, 6 layers", "1 - mean cosine", (0.003, 0.01, 0.03, 0.1)),
    "predict-smollm2": ("SmolLM2-135M, 30 layers", "nats per token", ()),
}


def panel(stem: str, measured: dict[str, Any], known: str) -> Panel:
    """Cost against one known number, a point per layer."""
    title, unit, powers = MODELS[stem]
    ranks = sorted(measured["costs"], key=int)
    rank = ranks[len(ranks) // 2]
    costs = measured["costs"][rank]
    found = measured["correlations"][known][rank]
    x, y = measured["known"][known], costs["cost"]
    points = Series(
        label="layer",
        x=x,
        y=y,
        spread=costs["standard_error"],
        notes=[str(layer) if layer in {*_ends(x), *_ends(y)} else "" for layer in range(len(y))],
        style=dots(COLOURS[0], markersize=4),
    )
    return Panel(
        title=f"{title}: correlation {found['spearman']:.2f}, p = {found['p']:.2f}",
        x=PlotAxis(label=KNOWN[known]),
        y=PlotAxis(label=f"cost of a cut to rank {rank}, {unit}", scale="log" if powers else "linear", ticks=powers),
        series=[points],
    )


def _ends(values: list[float]) -> list[int]:
    """The lowest two and the highest two; the others stand too close for a number beside each."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return order[:2] + order[-2:]


def main() -> None:
    """Read both files, draw."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("measured", type=Path, nargs="+", help="files of benchmarks.predictors")
    options.add_argument("-o", "--output", type=Path, required=True, help="name of the picture, without its ending")
    asked = options.parse_args()
    files = {file.stem: json.loads(file.read_text()) for file in asked.measured}
    rows = [[panel(stem, measured, known) for stem, measured in files.items()] for known in KNOWN]
    picture = Picture(
        title="Layers cut alone: what the cut costs, against what is known without it", panels=rows, share_y=False,
        size=(4.6, 3.2),
    )  # fmt: skip
    with house_style():
        for path in save_figure(picture.draw(), asked.output):
            print(path)


if __name__ == "__main__":
    main()
