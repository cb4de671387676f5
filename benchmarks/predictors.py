"""Which cheap number predicts what a smaller layer costs: every attention layer of a model is cut alone.

    python -m benchmarks.predictors MODEL --audit audit.json --need need.json --calibrate A --text B --ranks 48 -o C

The cost is that of ``rankwise reduce`` with one layer cut to a rank and all others whole. Beside it stand the numbers
that ``audit`` and ``need`` already know of the layer, and the Spearman correlation of each with the cost over layers.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import permutation_test, spearmanr

from rankwise.audit import AuditReport, read_report
from rankwise.models import load_running, text_sequences
from rankwise.need import NeedReport, read_need
from rankwise.reduce.calibration import collect
from rankwise.reduce.cost import cost_of, measure_pieces
from rankwise.reduce.cutting import Directions, cut_model, cut_to, find_directions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.saved import use_fast_attention
from rankwise.reduce.sites import attention_sites

Columns = dict[str, list[float]]


def known_of_layers(audit: AuditReport, need: NeedReport) -> Columns:
    """What is known of every layer without a cut; means over its heads."""
    columns: Columns = {
        "attention row": [fmean(head.attention for head in one.heads) for one in need.measurements],
        "top 4 keys": [fmean(head.several for head in one.heads) for one in need.measurements],
        "top key": [fmean(head.top for head in one.heads) for one in need.measurements],
        "nearest-neighbour need of the inputs": [one.need for one in need.measurements],
        "participation ratio of the inputs": [one.participation_ratio.keys for one in need.measurements],
    }
    for form in ("qk", "ov"):
        ranks = [[getattr(head, form) for head in layer.head_reports] for layer in audit.layers]
        name = {"qk": "QK", "ov": "OV"}[form]
        columns[f"energy rank, 90 %, {name}"] = [fmean(one.energy_90 for one in heads) for heads in ranks]
        columns[f"effective rank, {name}"] = [fmean(one.effective for one in heads) for heads in ranks]
    return columns


def dropped(directions: Directions, rank: int) -> float:
    """What the spectrum of ``reduce`` says a cut costs: the sum of the eigenvalues that go."""
    return sum(float(one.spectrum[rank:].sum()) for one in directions.found)


def costs_of_layers(model: Path, asked: argparse.Namespace) -> dict[str, Columns]:
    """By rank: the cost of every layer cut alone, its standard error over pieces, and what the spectrum says of it."""
    running = load_running(model)
    use_fast_attention(running.model)

    def read(file: Path, count: int) -> MaskedPieces:
        every = text_sequences([file], running.tokenizer, length=asked.length)
        return MaskedPieces(every.tokens, every.sources).pick(
            [int((at + 0.5) * len(every.tokens) / count) for at in range(count)]
        )

    teaching, measuring = read(asked.calibrate, asked.calibration), read(asked.text, asked.pieces)
    sites = attention_sites(running).sites
    samples = collect(running, sites, teaching, gradients=True)
    measured: dict[str, Columns] = {}
    with torch.no_grad():
        directions = find_directions(running.model, sites, samples, "fisher")
        original = measure_pieces(running, measuring)
        for rank in asked.ranks:
            columns: Columns = {"cost": [], "standard_error": [], "dropped": []}
            for at, one in enumerate(directions):
                with cut_model(running.model, cut_to(running.model, [one], rank=rank)):
                    cost = cost_of(measure_pieces(running, measuring), original)
                columns["cost"].append(cost.cost)
                columns["standard_error"].append(cost.standard_error)
                columns["dropped"].append(dropped(one, rank))
                print(f"rank {rank}, layer {at}: {cost.cost:.5f} +- {cost.standard_error:.5f}", flush=True)
            measured[str(rank)] = columns
    return measured


def correlation(known: list[float], costs: list[float]) -> tuple[float, float]:
    """Spearman's rank correlation, and the share of permuted layers that correlate as much."""
    found = float(spearmanr(known, costs).statistic)
    test = permutation_test(
        (known,), lambda values: abs(spearmanr(values, costs).statistic), permutation_type="pairings",
        alternative="greater", n_resamples=9999, rng=0,
    )  # fmt: skip
    return found, float(test.pvalue)


def main() -> None:
    """Cut and measure, unless ``-o`` names a file that already holds the costs; correlate, print, write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model", type=Path)
    for name in ("--audit", "--need", "--calibrate", "--text"):
        options.add_argument(name, type=Path, required=True)
    options.add_argument("--ranks", type=int, nargs="+", required=True)
    options.add_argument("--length", type=int, default=512)
    options.add_argument("--calibration", type=int, default=8, help="pieces that teach directions")
    options.add_argument("--pieces", type=int, default=8, help="pieces that measure, spread evenly over --text")
    options.add_argument("-o", "--output", type=Path, required=True)
    asked = options.parse_args()
    if not asked.output.is_file():
        asked.output.write_text(json.dumps({"costs": costs_of_layers(asked.model, asked)}), encoding="utf-8")
    costs = json.loads(asked.output.read_text(encoding="utf-8"))["costs"]
    known = known_of_layers(read_report(asked.audit), read_need(asked.need))
    predictions = {name: dict.fromkeys(costs, values) for name, values in known.items()}
    predictions["eigenvalues that reduce drops"] = {rank: columns["dropped"] for rank, columns in costs.items()}
    found = {
        name: {rank: correlation(values, costs[rank]["cost"]) for rank, values in by_rank.items()}
        for name, by_rank in predictions.items()
    }
    table = Table("known of a layer", *(f"correlation at rank {rank} (p)" for rank in costs))
    for name, by_rank in sorted(found.items(), key=lambda item: -fmean(value for value, _ in item[1].values())):
        table.add_row(name, *(f"{value:.2f} ({p:.2g})" for value, p in by_rank.values()))
    Console().print(table)
    correlations = {
        name: {rank: {"spearman": value, "p": p} for rank, (value, p) in by_rank.items()}
        for name, by_rank in found.items()
    }
    document = {"costs": costs, "known": known, "correlations": correlations}
    asked.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
