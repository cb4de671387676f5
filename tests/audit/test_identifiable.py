"""Near-equal singular values: planted spectra, and what a small change does to their directions."""

import numpy as np
import pytest
import torch

from rankwise.audit.audit import audit_weights
from rankwise.audit.identifiable import NEAR, near_equal, not_identifiable
from rankwise.audit.report import read_report
from tiny_heads import heads_of
from tiny_models import tiny_model

PLANTED = {
    "all apart": ([8, 4, 2, 1], ()),
    "a pair": ([8, 4, 3.99, 1], ((2, 3),)),
    "two runs": ([5, 5, 3, 2, 1.99, 1.985], ((1, 2), (4, 6))),
    "all alike": ([1, 1, 1], ((1, 3),)),
    "zeros are none": ([2, 1, 0, 0], ()),
    "just apart": ([1, 1 - 1.01 * NEAR], ()),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_runs_are_found(name):
    values, runs = PLANTED[name]
    assert near_equal(torch.tensor([values], dtype=torch.float64)) == [runs]


def test_how_many_of_the_first_directions_are_in_runs():
    assert not_identifiable(((1, 2), (4, 6)), 6) == 5
    assert not_identifiable(((1, 2), (4, 6)), 4) == 3
    assert not_identifiable((), 4) == 0


def test_a_change_of_the_size_of_the_gap_turns_near_equal_directions_and_no_others():
    """The rule itself: with a gap of 1 % a change of 1 % turns one into the other, with one of 50 % it does not."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(40, 3)))[0] for _ in range(2))
    values = np.array([2.0, 1.0, 1 - 0.5 * NEAR])
    change = np.outer(left[:, 1], right[:, 2]) + np.outer(left[:, 2], right[:, 1])
    turned = np.linalg.svd(left @ np.diag(values) @ right.T + NEAR * change)[0]
    angles = np.degrees(np.arccos(np.abs((left * turned[:, :3]).sum(0)).clip(max=1)))
    assert angles[0] < 1
    assert angles[1] > 30
    assert near_equal(torch.from_numpy(values)[None]) == [((2, 3),)]


def test_the_report_says_which(tmp_path):
    """Queries and keys of one head with singular values 8, 4, 4, 2, 1, 0, 0, 0."""
    model = tiny_model("llama", hidden_size=96)
    with torch.no_grad():
        for block in model.layers:
            block.input_layernorm.weight.fill_(1)
    first, _ = heads_of("llama", model)
    rng = torch.Generator().manual_seed(0)
    bases = [torch.linalg.qr(torch.randn(96, 8, generator=rng)).Q.mT for _ in range(2)]
    first.q[0][:] = torch.tensor([8, 4, 4, 2, 1, 0, 0, 0])[:, None] * bases[0]
    first.k[0][:] = bases[1]
    report = audit_weights(model)
    head = report.layers[0].head_reports[0]
    assert head.qk_singular_values == pytest.approx((8, 4, 4, 2, 1, 0, 0, 0), abs=1e-5)
    assert head.qk_near_equal == ((2, 3),)
    report.write(tmp_path / "a.json")
    assert read_report(tmp_path / "a.json").layers[0].head_reports[0].qk_near_equal == ((2, 3),)
