"""Malformed specs: exit 2, key path, expected, got, nearest name; nothing written."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankwise.cli import main
from rankwise.spec import to_toml
from spec_examples import seeds_sweep

GOOD = to_toml(seeds_sweep(2))


def refused(directory, text, capsys, name="sweep.toml"):
    """Run the command on ``text``; its complaint."""
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    code = main(["sweep", str(path), "--store", str(directory / "store")])
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("rankwise: ")
    assert "Traceback" not in err
    assert len(err) < 2000
    assert not (directory / "store").exists()
    return err.removeprefix("rankwise: ")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("rank = 4", "rnak = 4", "base.model.rnak: unknown key (did you mean 'rank'?)"),
        ("rank = 4", "rank = 4\nrank = 5", "base.model.rank: duplicate key (line "),
        ("rank = 4", "rank = 0", "base.model.rank: expected at least 1, got 0"),
        ("rank = 4", "rank = -3", "base.model.rank: expected at least 1, got -3"),
        ("rank = 4", "rank = true", "base.model.rank: expected a whole number, got true"),
        ("heads = 2", "heads = 1000000000", "base.model.heads: expected a model of at most 1e+10 parameters"),
        ("lr = 0.01", "lr = nan", "base.optim.lr: expected a finite number, got nan"),
        ("lr = 0.01", "lr = -inf", "base.optim.lr: expected a finite number, got -inf"),
        ("lr = 0.01", 'lr = "fast"', "base.optim.lr: expected a finite number, got 'fast'"),
        ('name = "seeds"', "", "name: missing, expected a string"),
        ("[[axes]]", "[[axs]]", "axs: unknown key (did you mean 'axes'?)"),
        ("[[axes]]", "[axes]", "axes: expected a list, got a table"),
        ("seed = [", "sed = [", "axes[0].sed: unknown key (did you mean 'seed'?)"),
        ("[base.task]", "[base.task", "the file: expected TOML: "),
    ],
)
def test_malformed_specs(tmp_path, capsys, old, new, complaint):
    assert old in GOOD
    assert refused(tmp_path, GOOD.replace(old, new, 1), capsys).startswith(complaint)


def test_a_file_of_ten_megabytes(tmp_path, capsys):
    assert "expected a spec of at most 2 MB" in refused(tmp_path, "#" * 10_000_000, capsys)


def test_a_huge_grid(tmp_path, capsys):
    axes = "".join(f"\n[[axes]]\noptim.{key} = {list(range(1, 1001))}\n" for key in ("steps", "batch", "epoch_steps"))
    assert refused(tmp_path, GOOD + axes, capsys).startswith("axes: expected at most 1,000,000 runs, got 2,000,000,000")


def test_duplicate_keys_in_json(tmp_path, capsys):
    text = '{"name": "a", "base": {"seed": 1, "seed": 2}}'
    assert refused(tmp_path, text, capsys, "sweep.json").startswith("base.seed: duplicate key")


def test_a_grid_in_which_one_run_cannot_be(tmp_path, capsys):
    text = GOOD + "\n[[axes]]\nmodel.kv_heads = [1, 2, 5]\n"
    complaint = refused(tmp_path, text, capsys)
    assert complaint.startswith("model.kv_heads: expected a divisor of heads=2, got 5")
    assert "in the run with seed = 0, model.kv_heads = 5" in complaint


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path, capsys, content):
    refused(tmp_path, content, capsys)


LINES = GOOD.splitlines()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(LINES) - 1), st.sampled_from(["= 1", "x", "[", '"', "= = 2", "\0", "= {", "]]"]))
def test_a_broken_line(tmp_path, capsys, line, junk):
    """Junk behind a key, a value or a header is never a sweep."""
    broken = [*LINES[:line], f"nonsense {junk}", *LINES[line:]]
    refused(tmp_path, "\n".join(broken), capsys)
