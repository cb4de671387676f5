"""The files that pages take for granted: a model, vectors, texts, a sweep. Small, and made in a second."""

import json
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from rankwise.spec import to_toml
from report_stores import theorem_runs, write_store
from saved_models import saved_byte_model
from spec_examples import seeds_sweep

ROOT = Path(__file__).parents[2]
DIM = 8  # of the model, the keys and the queries


def reader_files(directory: Path) -> Path:
    """``directory`` with all of them, under the names that the pages use."""
    random = np.random.default_rng(0)
    for name, rows in (("keys", 300), ("queries", 200)):
        np.save(
            directory / f"{name}.npy", random.standard_normal((rows, DIM)).astype(np.float32) / np.arange(1, DIM + 1)
        )
    save_file(
        {"embeddings": torch.randn(200, DIM, generator=torch.Generator().manual_seed(0))},
        directory / "vectors.safetensors",
    )
    text = "How much rank does an attention head need, and how many heads? "
    (directory / "FILE").write_text(text * 40)
    model = saved_byte_model(directory / "DIR", DIM)
    shutil.copytree(model, directory / "all-MiniLM-L6-v2")
    saved_byte_model(directory / "TUNED", DIM, seed=1)
    config = json.loads((model / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "grid.toml").write_text(to_toml(seeds_sweep(2)))
    weights = {
        f"blocks.{layer}.w{name}": torch.randn(32, 32, generator=torch.Generator().manual_seed(layer))
        for layer in range(2)
        for name in "qkvo"
    }
    save_file(weights, directory / "weights.safetensors")
    write_store(directory / "runs", theorem_runs())
    if (ROOT / "examples").is_dir():
        (directory / "examples").symlink_to(ROOT / "examples")
    return directory
