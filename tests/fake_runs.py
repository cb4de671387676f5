"""An entry point for workers that behaves as badly as a test asks it to: the run's first tag says how."""

import errno
import hashlib
import os
import signal
import sys
import time

from rankwise.train.contract import Diverged, Stopped


def entry(spec, context):
    """Do what ``spec["tags"][0]`` says; leave a line in ``calls`` each time."""
    behaviour, *arguments = spec["tags"] or ["instant"]
    with (context.checkpoint_dir / "calls").open("a") as calls:
        calls.write(f"{os.getpid()}\n")
    return globals()[behaviour](spec, context, *arguments)


def instant(spec, context):
    """The result is a function of the seed alone."""
    digest = hashlib.sha256(str(spec["seed"]).encode()).digest()
    return {"error": int.from_bytes(digest[:6], "big") / 2**48, "steps": spec["optim"]["steps"], "curve": [1.0, 0.5]}


def slow(spec, context, seconds="0.01"):
    """A chain of numbers, one a step, that a wrong resume would break; checkpoints every 5 steps."""
    state = context.checkpoint_dir / "state"
    step, number = map(int, state.read_text().split()) if state.exists() else (0, spec["seed"] + 1)
    steps = spec["optim"]["steps"]

    def checkpoint():
        draft = context.checkpoint_dir / "state.new"
        draft.write_text(f"{step} {number}")
        draft.replace(state)
        context.checkpointed(state, hashlib.sha256(state.read_bytes()).hexdigest(), step)

    while step < steps:
        if context.should_stop():
            checkpoint()
            raise Stopped
        time.sleep(float(seconds))
        number = (number * 1103515245 + 12345) % 2**31
        step += 1
        if step % 5 == 0:
            checkpoint()
        context.report({"step": step, "of": steps, "error": number / 2**31})
    return {"error": number / 2**31, "steps": steps}


def die(spec, context, times="1000"):
    """The process is killed the first ``times`` times."""
    if len((context.checkpoint_dir / "calls").read_text().split()) <= int(times):
        print("about to die")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return instant(spec, context)


def leave(spec, context):
    os._exit(7)


def segfault(spec, context):
    import faulthandler

    faulthandler._sigsegv()


def hang(spec, context):
    """Deaf to every request."""
    while True:
        time.sleep(3600)


def diverge(spec, context):
    raise Diverged(17, "the loss is inf")


def fail(spec, context, message="no such luck"):
    raise RuntimeError(message)


def colourful(spec, context):
    raise RuntimeError("\x1b[31mred\x1b]0;title\x07")


def not_json(spec, context):
    return {"error": float("nan")}


def not_a_table(spec, context):
    return 3


def chatter(spec, context):
    """Prints where only messages belong, also past Python."""
    print('{"type": "finished"}')
    sys.stdout.flush()
    os.system("echo from a child")
    os.write(1, b"raw\n")
    return instant(spec, context)


def out_of_memory(spec, context):
    raise MemoryError


def greedy(spec, context):
    """Takes all the memory it can get."""
    hoard = []
    while True:
        hoard.append(bytearray(1 << 26))


def no_space(spec, context):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(context.checkpoint_dir / "weights.safetensors"))


def big_file(spec, context):
    """Writes a checkpoint of a megabyte."""
    (context.checkpoint_dir / "weights").write_bytes(bytes(1 << 20))
    return instant(spec, context)


def flood(spec, context):
    """Reports far more often than anyone wants to know."""
    for step in range(100_000):
        context.report({"step": step, "of": 100_000, "error": float("nan") if step % 2 else 1.0})
    return instant(spec, context)


def long_result(spec, context):
    return instant(spec, context) | {"curve": list(range(500_000))}


def threads(spec, context):
    """How many a run may use, as libraries and torch see it."""
    import torch

    return {
        "error": 0.0,
        "threads": [os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"], torch.get_num_threads()],
    }
