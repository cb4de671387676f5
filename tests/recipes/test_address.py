"""The figure ``address``: its networks against the iteration they were fitted as, its limit against brute force."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
import torch

from rankwise.nn.addresses import address_search, best_rank_right, turned_addresses
from rankwise.recipes.closed_form import address
from rankwise.tasks import FarthestNeighbor
from rankwise.train.address_fit import fit_search

SMOKE = address.FIGURE.presets["smoke"]


@pytest.fixture(scope="module")
def smoke():
    return address.FIGURE.compute(SMOKE)


def test_depth_finds_what_one_layer_of_the_rank_does_not(smoke):
    at = {(s["dim"], s["points"], s["layers"], s["rank"]): s for s in smoke}
    for rank in (2, 4):
        one, three = at[16, 8, 1, rank], at[16, 8, 3, rank]
        assert one["right"] + 10 * one["right_se"] < three["right"] < three["limit"] == one["limit"]
        assert three["error"] + 10 * three["error_se"] < one["error"] < 1
    # at a fourth of a rank per point, half the dimension changes less than a layer does
    assert (
        abs(at[16, 8, 3, 2]["right"] - at[32, 8, 3, 2]["right"]) < at[16, 8, 3, 2]["right"] - at[16, 8, 1, 2]["right"]
    )


def test_the_network_is_as_good_as_the_iteration_it_was_fitted_as(smoke):
    search = next(s for s in smoke if (s["dim"], s["layers"], s["rank"]) == (32, 3, 4))
    task = FarthestNeighbor(32, 8)
    batch = task.sample(2000, torch.Generator().manual_seed(1), dtype=torch.float64)
    z = turned_addresses(batch.points, 4, search["steps"])
    chosen = (z @ z.mT).argmin(-1)
    right = (chosen == (batch.points @ batch.points.mT).argmin(-1)).double().mean().item()
    assert abs(right - search["right"]) < 5 * search["right_se"]
    network = address_search(32, 4, search["steps"], search["beta"], gain=search["gain"], dtype=torch.float64)
    error = task.error(network(batch.points), batch).mean().item()
    assert abs(error - search["error"]) < 5 * search["error_se"]


def test_the_fitted_gain_is_the_best(smoke):
    search = smoke[-1]
    task = FarthestNeighbor(search["dim"], search["points"])
    batch = task.sample(2000, torch.Generator().manual_seed(2), dtype=torch.float64)

    def error(gain):
        model = address_search(
            search["dim"], search["rank"], search["steps"], search["beta"], gain=gain, dtype=torch.float64
        )
        return task.error(model(batch.points), batch).mean().item()

    assert error(search["gain"]) < min(error(0.8 * search["gain"]), error(1.2 * search["gain"]))


def test_fitting_leaves_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit_search(FarthestNeighbor(4, 3), 2, 2, 1, torch.Generator())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("rank", "exact"), [(8, True), (12, True), (7, False)])
def test_the_best_matrix_of_the_rank_of_all_points_is_their_gram_matrix(rank, exact):
    points = FarthestNeighbor(16, 8).sample(500, torch.Generator().manual_seed(rank)).points
    assert (best_rank_right(points, rank) == 1.0) == exact


def test_ranks_follow_the_points_and_stay_below_the_dimension():
    wide = replace(SMOKE, dims=(8,), counts=(16,), depths=(2,), shares=(0.01, 0.25, 1.0), iterations=1, sequences=8)
    assert [search["rank"] for search in address.FIGURE.compute(wide)] == [4]


def test_it_draws_and_says_what_is_seen(smoke, monkeypatch, tmp_path):
    monkeypatch.setattr(type(address.FIGURE), "compute", lambda self, settings, progress: smoke)
    found = address.FIGURE.write("smoke", "command", tmp_path)
    assert [path.suffix for path in found.files] == [".png", ".svg", ".csv", ".md"]
    assert found.files[0].read_bytes().startswith(b"\x89PNG")
    rows = csv.DictReader(found.files[2].read_text(encoding="utf-8").splitlines())
    assert [(int(row["rank"]), float(row["right"])) for row in rows] == [row[3:5] for row in found.rows]
    at = {row[:4]: row[4] for row in found.rows}
    depths, points, dims = found.reading
    assert depths.startswith("Rank 4 among 8 points in 16 dimensions")
    assert f": {at[16, 8, 1, 4]:.0%} with 1" in depths
    assert depths.endswith(f"The best matrix of that rank: {smoke[1]['limit']:.0%}.")
    low, high = sorted((at[16, 8, 3, 4], at[16, 4, 3, 2]))
    assert f"Three layers of rank N/2: {low:.0%} to {high:.0%}" in points
    low, high = sorted((at[16, 8, 3, 4], at[32, 8, 3, 4]))
    assert f"Three layers of rank 4: {low:.0%} to {high:.0%}" in dims
