"""``make bench``: every benchmark in turn."""

from benchmarks import layer

if __name__ == "__main__":
    layer.main()
