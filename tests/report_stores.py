"""Stores for tests of the report: written by the store itself, without training anything."""

import json
import random
from dataclasses import replace

from rankwise.spec import ModelSpec, NeighborSpec, OptimSpec, RunSpec, plain
from rankwise.sweep.store import open_store

VERSIONS = {"rankwise": "0.1.0", "torch": "2.13.0"}
MACHINE = {"host": "name-of-the-host", "cpu": "<b>cpu</b>", "cores": 2}
HOSTILE = ("</script><script>document.title='owned'</script>", "<img src=x onerror=alert(1)>", "\x1b[31mred", "=cmd()")


def trade_off_runs(*, dim=8, seeds=2, layers=(1, 3), protocols=("capacity",)):
    """Figure 1 in small: three budgets, all ranks that divide dim."""
    task = NeighborSpec(name="farthest", dim=dim, points=4)
    return [
        RunSpec(
            task=task,
            model=ModelSpec(dim=dim, heads=budget // rank, rank=rank, layers=depth),
            optim=OptimSpec(lr=0.01, steps=200, batch=16),
            seed=seed,
            protocol=protocol,
        )
        for protocol in protocols
        for depth in layers
        for budget in (dim, 2 * dim, 4 * dim)
        for rank in (dim // 4, dim // 2, dim)
        for seed in range(seeds)
    ]


def theorem_runs(*, dim=8):
    """Bare softmax heads on two orthogonal points."""
    bare = ModelSpec(dim=dim, heads=1, rank=1, norm="none", residual="none", bias=False, value_rank=dim)
    task = NeighborSpec(name="nearest", dim=dim, points=2, distribution="orthogonal")
    optim = OptimSpec(lr=0.01, steps=100, batch=16)
    return [
        RunSpec(task=task, model=replace(bare, heads=heads, rank=rank), optim=optim, protocol="capacity")
        for heads in (1, 4, 16)
        for rank in (1, 4, dim)
    ]


def result_of(run, epochs=10):
    """A made-up result whose error falls with rank; the same for the same run."""
    noise = random.Random(run.id)
    error = (0.02 if run.model.rank == run.model.dim else 0.4 + 0.1 / run.model.rank) * noise.uniform(0.95, 1.05)
    steps = [(at + 1) * run.optim.steps // epochs for at in range(epochs)]
    curve = [error * (1 + 3 / (at + 1)) for at in range(epochs)]
    return {
        "error": error,
        "error_se": error / 50,
        "train_min": min(curve),
        "steps": run.optim.steps,
        "sequences": run.optim.steps * run.optim.batch,
        "parameters": run.model.parameters(),
        "stopped_early": False,
        "curve": {"steps": steps, "train": [1.1 * value for value in curve], "validation": curve},
        "versions": VERSIONS,
        "threads": 1,
        **({} if run.probe is None else {"attention": attention_of(run)}),
    }


def attention_of(run, tokens=16):
    """Made-up ranks: snapshot s, layer l, head h have hardmax rank 2 + s + l + h / 4 and half of it effective."""
    steps = [round(run.optim.steps * quarter / 4) for quarter in range(5)]
    hardmax = [
        [[2 + at + layer + head / 4 for head in range(run.model.heads)] for layer in range(run.model.layers)]
        for at in range(5)
    ]
    halved = [[[value / 2 for value in heads] for heads in layers] for layers in hardmax]
    return {"tokens": tokens, "steps": steps, "hardmax": hardmax, "effective": halved}


def write_store(directory, runs, *, failed=(), diverged=(), epochs=10, spec_of=plain):
    """A store in ``directory`` with all ``runs`` done, and others that failed (run, reason) or diverged."""
    with open_store(directory) as store, store.transaction():
        lost = [run for run, _ in (*failed, *diverged)]
        store.add([(run.id, json.dumps(spec_of(run))) for run in (*runs, *lost)])
        for run in (*runs, *lost):
            store.begin(run.id, VERSIONS, MACHINE)
        for run in runs:
            store.finish(run.id, result_of(run, epochs), 1.25)
        for status, ended in (("failed", failed), ("diverged", diverged)):
            for run, reason in ended:
                store.fail(run.id, status, reason, f"Traceback: {reason}", 0.5)
    return directory
