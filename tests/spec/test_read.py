"""Files that cannot be meant: the key path, what was expected, what came, the nearest name."""

import json
import math
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rankwise.errors import SpecError
from rankwise.spec import Axis, RunSpec, SweepSpec, from_plain, parse_json, parse_toml, plain, read_spec, to_toml
from rankwise.spec.fields import kinds
from spec_examples import runs, small_run

RUN = plain(small_run())


def changed(key, value):
    """A run as plain tables with the value at a key path replaced."""
    table = json.loads(json.dumps(RUN))
    *parents, leaf = key.split(".")
    inner = table
    for parent in parents:
        inner = inner[parent]
    inner[leaf] = value
    return table


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.rnak", 4, "model.rnak: unknown key (did you mean 'rank'?)"),
        ("model.xyzzy", 4, "model.xyzzy: unknown key (valid: dim, layers, heads, rank,"),
        ("optim.lr_multipliers.nrom", 1, "optim.lr_multipliers.nrom: unknown key (did you mean 'norm'?)"),
        ("model.head_init", "farthest", "model.head_init: unknown key"),
        ("model.residual", True, "model.residual: expected one of 'plain', 'learned', 'none', got true"),
        ("optim.ema", 0.9, "optim.ema: unknown key"),
        ("optim.schedule", "linear", "optim.schedule: expected one of 'cosine', 'scales', 'paper', got 'linear'"),
        ("protocol", "recall", "protocol: expected one of 'custom', 'paper', 'capacity', got 'recall'"),
        ("sede", 4, "sede: unknown key (did you mean 'seed'?)"),
        ("model.rank", 0, "model.rank: expected at least 1, got 0"),
        ("model.rank", True, "model.rank: expected a whole number, got true"),
        ("model.rank", 4.0, "model.rank: expected a whole number, got 4.0"),
        ("model.rank", "4", "model.rank: expected a whole number, got '4'"),
        ("model.rank", 10**400, "model.rank: expected a whole number of at most 64 bits, got a number of 1329 bits"),
        ("model.heads", 10**9, "model.heads: expected a model of at most 1e+10 parameters, got 1."),
        ("model.bias", 1, "model.bias: expected true or false, got 1"),
        ("model.norm", "rmss", "model.norm: expected one of 'rms', 'unit', 'none', got 'rmss' (did you mean 'rms'?)"),
        ("model", 3, "model: expected a table, got 3"),
        ("model", [RUN["model"]], "model: expected a table, got [{"),
        ("model.dim", 9, "model.dim: expected task.dim = 8, got 9"),
        ("optim.lr", math.nan, "optim.lr: expected a finite number, got nan"),
        ("optim.lr", math.inf, "optim.lr: expected a finite number, got inf"),
        ("optim.lr", 10**400, "optim.lr: expected a finite number, got a number of 1329 bits"),
        ("optim.lr", False, "optim.lr: expected a finite number, got false"),
        ("optim.lr", -1, "optim.lr: expected a finite number of at least 0, got -1.0"),
        ("optim.betas", [0.9], "optim.betas: expected a list of 2 values, got 1"),
        ("optim.betas", 0.9, "optim.betas: expected a list, got 0.9"),
        ("optim.betas", [0.9, "x"], "optim.betas[1]: expected a finite number, got 'x'"),
        ("optim.betas", [0.9, 1], "optim.betas[1]: expected a number from 0 to below 1, got 1"),
        ("optim.batch", 10**9, "optim.batch: expected at most 1e+10 numbers a batch, got 4.00e+10"),
        ("optim.micro_batch", 3, "optim.micro_batch: expected a divisor of batch = 16, got 3"),
        ("optim.warmup", 21, "optim.warmup: expected 0 to steps = 20 steps, got 21"),
        ("optim.schedule", "paper", "optim.steps: expected whole epochs of 100 steps"),
        ("optim.schedule", "cosin", "got 'cosin' (did you mean 'cosine'?)"),
        ("task.name", "neerest", "(did you mean 'nearest'?)"),
        ("task.name", "biased", "task.points: expected 2 with one query for 'biased', got 4 with 1"),
        ("task.name", "farthest", "task.queries: expected none for 'farthest'"),
        ("task.points", 1, "task.points: expected at least 2, got 1"),
        ("task.alpha", 1, "task.alpha: expected a positive number exactly when distribution = 'power_law'"),
        ("task.biases", [1.0], "task.biases: expected none for 'nearest', got 1"),
        ("task.rotation", 0, "task.rotation: expected none for 'nearest', got 0"),
        ("task.queries", 0, "task.queries: expected at least 1, got 0"),
        ("seed", -1, "seed: expected at least 0, got -1"),
        ("tags", ["\x1b[31mred"], "tags[0]: expected at most 200 printable characters, got '\\x1b[31mred'"),
        ("tags", ["x" * 201], "tags[0]: expected at most 200 printable characters"),
        ("tags", ["\ud800"], "tags[0]: expected at most 200 printable characters"),
        ("time_limit", 0, "time_limit: expected a finite number above 0, got 0"),
    ],
)
def test_the_message_starts_with_the_key_path(key, value, message):
    with pytest.raises(SpecError) as caught:
        from_plain(RunSpec, changed(key, value))
    assert message in str(caught.value)
    assert str(caught.value).startswith(key.split(".")[0])


def test_a_missing_key_says_what_it_should_be():
    table = changed("seed", 1)
    del table["model"]["rank"]
    with pytest.raises(SpecError, match=r"^model\.rank: missing, expected a whole number$"):
        from_plain(RunSpec, table)
    del table["optim"]
    with pytest.raises(SpecError, match=r"^optim: missing, expected a table$"):
        from_plain(RunSpec, table | {"model": RUN["model"]})


def leaf_keys(cls, path=""):
    for field in fields(cls):
        kind = kinds(cls)[field.name]
        here = f"{path}{field.name}"
        yield from leaf_keys(kind, f"{here}.") if is_dataclass(kind) else [here]


KEYS = sorted(leaf_keys(RunSpec))


@given(st.sampled_from(KEYS), st.integers(0, 30), st.sampled_from("abcxyz_"))
def test_a_slip_of_the_pen_in_a_key_finds_the_key(key, place, letter):
    """One letter inserted into a key of five letters or more: the message names the key that was meant."""
    path, _, name = key.rpartition(".")
    assume(len(name) >= 5)
    place %= len(name)
    slip = name[:place] + letter + name[place:]
    here = f"{path}.{slip}" if path else slip
    assume(here not in KEYS)
    with pytest.raises(SpecError) as caught:
        from_plain(RunSpec, changed(here, 1))
    siblings = {other.rpartition(".")[2] for other in KEYS if other.rpartition(".")[0] == path}
    assert str(caught.value).startswith(f"{here}: unknown key (did you mean ")
    suggested = str(caught.value).split("'")[1]
    assert suggested == name or suggested in siblings


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["task", "model", "optim", *KEYS]), plain_values)
def test_any_value_anywhere_is_a_run_or_a_spec_error(key, value):
    complaint = "none"
    try:
        run = from_plain(RunSpec, changed(key, value))
    except SpecError as error:
        complaint = str(error)
    else:
        assert from_plain(RunSpec, plain(run)) == run
    assert complaint.startswith(("none", "task", "model", "optim", key))


@given(plain_values)
def test_any_file_is_a_sweep_or_a_spec_error(value):
    with pytest.raises(SpecError):
        from_plain(SweepSpec, value)


@given(st.text(max_size=60))
def test_any_text_is_a_sweep_or_a_spec_error(text):
    for parse in (parse_toml, parse_json):
        with pytest.raises(SpecError):
            parse(SweepSpec, text)


@settings(max_examples=40)
@given(runs(), st.integers(0, 10**6), st.characters(blacklist_categories=("Cs",)))
def test_a_changed_letter_is_a_run_or_a_spec_error(run, place, letter):
    text = to_toml(run)
    place %= len(text)
    try:
        parse_toml(RunSpec, text[:place] + letter + text[place + 1 :])
    except SpecError:
        return


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 1\nseed = 2", "seed: duplicate key (line 2)"),
        ("[model]\nrank = 1\nheads = 2\n\nrank = 3\n\n[task]\n", "model.rank: duplicate key (line 5)"),
        ("[model]\nrank = 1\n[model]\nheads = 1", "model: duplicate key (line 3)"),
        ("seed = ", "the file: expected TOML: Invalid value"),
    ],
)
def test_toml_that_does_not_parse(text, message):
    with pytest.raises(SpecError) as caught:
        parse_toml(RunSpec, text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"model": {"rank": 1, "rank": 2}}', "model.rank: duplicate key"),
        ('{"seed": 1, "seed": 1}', "seed: duplicate key"),
        ('{"seed": NaN}', "the file: expected finite numbers, got NaN"),
        ('{"seed": 1,}', "line 1, column "),
        ("[]", "the file: expected a table, got []"),
        ("[" * 100_000, "the file: expected JSON of sensible size"),
        ("9" * 5000, "the file: expected JSON of sensible size"),
    ],
)
def test_json_that_does_not_parse(text, message):
    with pytest.raises(SpecError) as caught:
        parse_json(RunSpec, text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000,
        "a = " + "9" * 5000,
        "a." * 900_000 + "a = 1",
        "'a,'  .\t" * 200_000 + "a = 1",
        '[ "=".' + "a." * 900_000 + "a ]",
        "[" * 10**5,
    ],
    ids=["nested", "digits", "dotted", "quoted", "header", "brackets"],
)
def test_toml_of_no_sensible_size(text):
    with pytest.raises(SpecError):
        parse_toml(RunSpec, text)


class TestFiles:
    def test_of_ten_megabytes_are_refused_unread(self, tmp_path):
        path = tmp_path / "big.toml"
        path.write_bytes(b"#" * 10_000_000)
        with pytest.raises(SpecError, match=r"big\.toml: expected a spec of at most 2 MB"):
            read_spec(RunSpec, path)

    def test_that_are_not_there_or_not_text(self, tmp_path):
        with pytest.raises(SpecError, match=r"none\.toml: expected a spec, got no such file"):
            read_spec(RunSpec, tmp_path / "none.toml")
        with pytest.raises(SpecError, match="not a regular file"):
            read_spec(RunSpec, tmp_path)
        (tmp_path / "a.toml").write_bytes(b"seed = \xff")
        with pytest.raises(SpecError, match="expected UTF-8 text, got other bytes at position 7"):
            read_spec(RunSpec, tmp_path / "a.toml")

    def test_name_themselves(self, tmp_path):
        (tmp_path / "a.json").write_text('{"sed": 1}')
        with pytest.raises(SpecError, match=r"^sed: unknown key \(did you mean 'seed'\?\)  \[in .*a\.json\]$"):
            read_spec(RunSpec, tmp_path / "a.json")

    def test_with_windows_line_ends_and_a_byte_order_mark_read(self, tmp_path):
        path = tmp_path / "a.toml"
        path.write_bytes(b"\xef\xbb\xbf" + to_toml(small_run()).replace("\n", "\r\n").encode())
        assert read_spec(RunSpec, path) == small_run()


def test_a_field_of_an_older_version_is_refused_by_name_in_files_too():
    toml = to_toml(small_run()).replace("[model]", '[model]\nhead_init = "farthest"')
    for parse, text in ((parse_toml, toml), (parse_json, json.dumps(changed("model.head_init", "farthest")))):
        with pytest.raises(SpecError, match=r"^model\.head_init: unknown key"):
            parse(RunSpec, text)


def test_axes_in_python_and_in_files_are_the_same():
    text = "name = 's'\n" + to_toml(small_run()).replace("[", "[base.").replace("[base.\n", "[\n")
    text = text.replace("[base.]", "[]").replace("seed = 0\nprotocol", "[base]\nseed = 0\nprotocol")
    text += "\n[[axes]]\nmodel.rank = [1, 2]\nmodel.heads = [4, 2]\n[[axes]]\n'seed' = [5, 6, 7]\n"
    expected = SweepSpec(
        name="s",
        base=small_run(),
        axes=(Axis.of({"model.rank": [1, 2], "model.heads": [4, 2]}), Axis.of({"seed": [5, 6, 7]})),
    )
    assert parse_toml(SweepSpec, text) == expected
