"""The explorer's one table: what Python computes for the same lengths."""

import json
from importlib.resources import files

import pytest

from rankwise.theory.saturation import saturation_dim

TABLE = json.loads(files("rankwise.report").joinpath("static", "saturation.json").read_text())


@pytest.mark.parametrize("length", [4, 64, 1024, 16384])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_table(mask, length):
    assert dict(TABLE[mask])[length] == saturation_dim(length, TABLE["deficit"], mask=mask, keys=TABLE["keys"]).value


@pytest.mark.parametrize(("length", "window"), [(64, 16), (1024, 512), (4096, 64)])
def test_window_table(length, window):
    found = dict(TABLE["window"][str(length)])
    assert found[window] == saturation_dim(length, TABLE["deficit"], mask="window", window=window).value


def test_every_power_of_two_is_there():
    lengths = [2**power for power in range(2, 21)]
    assert [n for n, _ in TABLE["full"]] == [n for n, _ in TABLE["causal"]] == lengths
    assert list(TABLE["window"]) == [str(n) for n in lengths]
