"""Looking at processes from outside, through /proc."""

import time
from pathlib import Path


def _stat(pid):
    """State and parent of a process; None if there is no such process."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return state, int(parent)


def alive(pid):
    """Whether a process exists and is more than an entry that nobody has collected."""
    found = _stat(pid)
    return found is not None and found[0] not in "ZX"


def parent_of(pid):
    return _stat(pid)[1]


def family(pid):
    """A process and all that descend from it."""
    children = {}
    for process in Path("/proc").glob("[0-9]*"):
        found = _stat(process.name)
        if found is not None:
            children.setdefault(found[1], []).append(int(process.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def wait_until_gone(pids, seconds=10.0):
    until = time.monotonic() + seconds
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < until, f"still alive: {left}"
        time.sleep(0.01)


def listening(pids):
    """The local addresses on which these processes listen, in the kernel's hexadecimal notation."""
    sockets = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(handle.readlink().name)
            except OSError:
                continue
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                addresses.add(local.rpartition(":")[0])
    return addresses
