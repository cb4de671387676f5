"""Runs and sweeps for tests: small complete ones, and hypothesis strategies over all of them."""

from hypothesis import strategies as st

from rankwise.spec import Axis, LrMultipliers, ModelSpec, NeighborSpec, OptimSpec, RunSpec, SweepSpec


def small_run(**fields):
    """A complete run; keyword arguments replace whole fields."""
    whole = {
        "task": NeighborSpec(name="nearest", dim=8, points=4),
        "model": ModelSpec(dim=8, heads=2, rank=4),
        "optim": OptimSpec(lr=0.01, steps=20, batch=16),
    }
    return RunSpec(**whole | fields)


def seeds_sweep(count, **fields):
    """``count`` runs that differ in their seed."""
    return SweepSpec(name="seeds", base=small_run(**fields), axes=(Axis.of({"seed": range(count)}),))


def optional(strategy):
    return st.none() | strategy


# Every string a spec can hold.
names = st.text(st.characters(blacklist_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")), max_size=20)
positive = st.floats(1e-12, 1e12)
decays = st.floats(0, 1, exclude_max=True)
sizes = st.integers(1, 512)


@st.composite
def tasks(draw, dim):
    name = draw(st.sampled_from(["nearest", "farthest", "biased"]))
    if name == "biased":
        biases = draw(st.lists(st.floats(-10, 10), min_size=1, max_size=4))
        coefficients = draw(st.lists(st.floats(-10, 10), min_size=len(biases), max_size=len(biases)))
        return NeighborSpec(
            name=name, dim=dim, points=2, distribution="orthogonal", biases=biases, coefficients=coefficients
        )
    shapes = ["uniform", "power_law"] + (["orthogonal"] if name == "nearest" else [])
    distribution = draw(st.sampled_from(shapes))
    return NeighborSpec(
        name=name,
        dim=dim,
        points=draw(st.integers(2, dim if distribution == "orthogonal" else 300)),
        distribution=distribution,
        queries=draw(optional(sizes)) if name == "nearest" else None,
        alpha=draw(st.floats(0.01, 9)) if distribution == "power_law" else 0,
    )


@st.composite
def models(draw, dim):
    groups = draw(st.integers(1, 4))
    form = draw(st.sampled_from(["low_rank", "block_low_rank", "monarch"]))
    return ModelSpec(
        dim=dim,
        layers=draw(st.integers(1, 9)),
        heads=groups * draw(st.integers(1, 12)),  # more could exceed the largest model a run may have
        rank=draw(sizes),
        value_rank=draw(optional(sizes)),
        kv_heads=draw(st.sampled_from([None, groups])),
        average=draw(st.sampled_from([1, groups])),
        bias=draw(st.booleans()),
        feedforward=draw(st.integers(0, 4096)),
        norm=draw(st.sampled_from(["rms", "unit", "none"])),
        residual=draw(st.sampled_from(["plain", "learned", "none"])),
        init=draw(st.sampled_from(["standard", "identity", "paper"])),
        score_form=form,
        blocks=None if form == "low_rank" else draw(st.sampled_from([1, dim])),
    )


@st.composite
def optims(draw):
    epoch = draw(sizes)
    batch = draw(sizes)
    epochs = draw(st.integers(1, 1000))
    return OptimSpec(
        optimizer=draw(st.sampled_from(["adamw", "muon"])),
        lr=draw(st.floats(0, 10) | st.integers(0, 10)),
        betas=(draw(decays), draw(decays)),
        eps=draw(positive),
        weight_decay=draw(st.floats(0, 1)),
        lr_multipliers=LrMultipliers(query_key=draw(st.floats(0, 100))),
        clip=draw(optional(positive)),
        steps=epoch * epochs,
        batch=batch,
        micro_batch=draw(st.sampled_from([None, 1, batch])),
        schedule=draw(st.sampled_from(["cosine", "scales", "paper"])),
        warmup=epoch * draw(st.integers(0, epochs)),
        epoch_steps=epoch,
        patience=draw(optional(sizes)),
    )


@st.composite
def runs(draw):
    dim = draw(st.integers(2, 128))
    return RunSpec(
        task=draw(tasks(dim)),
        model=draw(models(dim)),
        optim=draw(optims()),
        seed=draw(st.integers(0, 2**63 - 1)),
        protocol=draw(st.sampled_from(["custom", "paper", "capacity"])),
        dtype=draw(st.sampled_from(["float32", "float64", "bfloat16"])),
        device=draw(st.sampled_from(["cpu", "cuda", "auto"])),
        time_limit=draw(optional(positive)),
        tags=draw(st.lists(names, max_size=3)),
    )


@st.composite
def sweeps(draw):
    name = draw(names.filter(bool))
    if draw(st.booleans()):
        return SweepSpec(name=name, runs=draw(st.lists(runs(), min_size=1, max_size=3)))
    length = draw(st.integers(1, 3))
    axes = [
        Axis.of({"seed": draw(st.lists(st.integers(0, 99), min_size=1, max_size=4))}),
        Axis.of(
            {
                "optim.lr_multipliers.norm": draw(st.lists(positive, min_size=length, max_size=length)),
                "optim.betas": draw(st.lists(st.tuples(decays, decays), min_size=length, max_size=length)),
                "model.rank": draw(st.lists(sizes, min_size=length, max_size=length)),
                "tags": draw(st.lists(st.lists(names, max_size=2), min_size=length, max_size=length)),
            }
        ),
    ]
    order = draw(st.sampled_from([None, "listed"]))
    return SweepSpec(name=name, base=draw(runs()), axes=draw(st.permutations(axes)), order=order)
