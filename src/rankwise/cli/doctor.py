"""``rankwise doctor``: what this installation has and can do."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rankwise import __version__
from rankwise.cli.output import console, print_json

_EXTRAS = {
    "report": ("matplotlib", "jinja2"),
    "audit": ("transformers", "huggingface_hub"),
    "gguf": ("transformers", "gguf", "accelerate"),
    "tasks": ("sklearn",),
    "ray": ("ray",),
}


def doctor(*, json: bool = False) -> None:
    """Versions, devices, threads, compiler, disk and extras: the first thing to send with a bug report.

    Example: rankwise doctor --json

    Args:
        json: Print one JSON object instead of a table.
    """
    facts = _facts()
    if json:
        print_json(facts)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("what", "here", title="rankwise doctor")
    for name, value in facts.items():
        table.add_row(name, Text(str(value)))
    console().print(table)


def _facts() -> dict[str, Any]:
    import torch

    return {
        "rankwise": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: _version(name) for name in ("torch", "numpy", "scipy", "safetensors", "tyro", "rich")},
        "cores": f"{os.cpu_count()}, of which this process may use {_usable_cores()}",
        "torch threads": torch.get_num_threads(),
        "devices": ", ".join(_devices()),
        "compiler (for torch.compile)": shutil.which("g++") or shutil.which("clang++") or "none found",
        "free disk here": f"{shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB",
        "free disk for temporary files": f"{shutil.disk_usage(tempfile.gettempdir()).free / 1e9:.1f} GB",
        **{f"extra {extra}": _extra(extra, modules) for extra, modules in _EXTRAS.items()},
    }


def _usable_cores() -> int:
    """Fewer than the machine has in a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _devices() -> list[str]:
    import torch

    gpus = [f"cuda:{at} {torch.cuda.get_device_name(at)}" for at in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _extra(extra: str, modules: tuple[str, ...]) -> str:
    missing = [name for name in modules if find_spec(name) is None]
    return "installed" if not missing else f"missing {', '.join(missing)}: pip install 'rankwise[{extra}]'"
