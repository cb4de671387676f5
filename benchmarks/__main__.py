"""``make bench``: every benchmark in turn."""

from benchmarks import layer, sweeps

if __name__ == "__main__":
    layer.main()
    sweeps.main()
