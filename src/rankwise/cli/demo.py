"""``rankwise demo``: what heads of each kind reach on nearest-neighbour search, measured now."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from rankwise.cli.output import console, print_json
from rankwise.errors import require_int


def demo(*, dim: int = 16, samples: int = 100_000, seed: int = 0, json: bool = False) -> None:
    """Nearest-neighbour search between two points: trivial predictors, one full-rank head, many rank-1 heads.

    Every number is measured on fresh examples while you watch; nothing is stored.

    Args:
        dim: Dimension of the points.
        samples: Examples each predictor is measured on.
        seed: Where the randomness starts.
        json: Print one JSON object instead of a table.
    """
    require_int("dim", dim, minimum=2)
    require_int("samples", samples, minimum=1000)
    rows = _measure(dim, samples, seed)
    if json:
        predictors = [dataclasses.asdict(row) for row in rows]
        print_json({"dim": dim, "points": 2, "samples": samples, "seed": seed, "predictors": predictors})
        return
    from rich.table import Table

    table = Table("predictor", "layers", "heads", "rank", "squared error", title=f"Nearest of two points, dim {dim}")
    for row in rows:
        sizes = ["" if size is None else str(size) for size in (row.layers, row.heads, row.rank)]
        table.add_row(row.predictor, *sizes, f"{row.error:.4f} ± {row.standard_error:.4f}")
    console().print(table)
    console().print(
        "One full-rank head is exact. Averaging rank-1 heads is not, however many; two rank-1 layers that first vote\n"
        "and then look up come close, because there are only two points. Squared error a query; predicting 0 costs 1."
    )


@dataclass(frozen=True)
class _Row:
    predictor: str
    layers: int | None
    heads: int | None
    rank: int | None
    error: float
    standard_error: float


def _measure(dim: int, samples: int, seed: int) -> list[_Row]:
    import torch
    from rich.console import Console
    from rich.progress import track

    from rankwise.nn import constructions
    from rankwise.tasks import NearestNeighbor

    generator = torch.Generator().manual_seed(seed)
    task = NearestNeighbor(dim, 2, distribution="orthogonal")
    half = dim // 2
    modules = {
        ("one full-rank head, hardmax", 1, 1, dim): constructions.exact_nearest(dim),
        ("one full-rank head, softmax with beta = 100", 1, 1, dim): constructions.exact_nearest(dim, beta=100.0),
        ("half-rank heads, averaged", 1, 64, half): constructions.random_subspaces(dim, half, 64, generator),
        ("rank-1 heads, averaged", 1, 1024, 1): constructions.random_subspaces(dim, 1, 1024, generator),
        ("majority vote of rank-1 heads", 2, 1025, 1): constructions.majority_vote(dim, 1025, generator),
        ("soft vote of rank-1 heads", 2, dim, 1): constructions.soft_vote(dim, 0.1),
    }
    trivial = task.baselines(generator, samples)
    names = (("zero", trivial.zero), ("mean of the points", trivial.mean), ("best linear", trivial.linear))
    rows = [_Row(name, None, None, None, estimate.mean, estimate.standard_error) for name, estimate in names]
    chunk, progress = 2_000, Console(stderr=True)
    for sizes, module in track(modules.items(), description="measuring", console=progress, transient=True):
        errors = []
        for start in range(0, samples, chunk):
            batch = task.sample(min(chunk, samples - start), generator)
            with torch.no_grad():
                errors.append(task.error(module(batch.queries, batch.points), batch))
        error = torch.cat(errors)
        rows.append(_Row(*sizes, error.mean().item(), error.std().item() / len(error) ** 0.5))
    return rows
