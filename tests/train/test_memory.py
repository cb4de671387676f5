import platform
import subprocess
import sys

import pytest

COUNT_PAGE_FAULTS = """
import resource, sys, torch
from rankwise.train.memory import keep_freed_memory
torch.set_num_threads(1)
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def step(): torch.ones(20_000_000).add(1)
for _ in range(6): step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(25): step()  # a heap that grows once more, by a buffer or two, is not a heap that forgets
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_large_buffers_are_reused_instead_of_faulted_in_again():
    faults = {
        mode: int(
            subprocess.run(
                [sys.executable, "-c", COUNT_PAGE_FAULTS, mode], capture_output=True, text=True, check=True
            ).stdout
        )
        for mode in ("keep", "default")
    }
    assert faults["keep"] < faults["default"] / 10
