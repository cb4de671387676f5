"""``make bench``: every benchmark in turn, or those named: ``python -m benchmarks layer training``."""

import sys
from importlib import import_module

ALL = ("layer", "structured", "generation", "training", "watching", "features", "sweeps", "audit")

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        import_module(f"benchmarks.{name}").main()
