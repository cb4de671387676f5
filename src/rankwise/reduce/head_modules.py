"""Heads of an encoder with fewer coordinates each: the modules that replace its query, key, value and output
projections.

A key k of a head becomes ``down k`` of r numbers, and its query ``up^T q``: the score is that of the rebuilt key, up
to a constant per query that the softmax ignores. A value becomes ``down v``, and ``up`` goes into the output
projection; the constant part of the rebuilt value goes into its bias, since attention weights sum to 1. Every head
has its own r. The attention between these modules is the model's own and still sees heads of the old size, with
zeros in what is dropped.

Legend: N tokens, D inputs or outputs, s coordinates kept in all heads, w coordinates of all heads before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import linear

from rankwise.reduce.bottleneck import Bottleneck
from rankwise.reduce.linear_modules import bias_of, weight_of
from rankwise.reduce.sites import ProjectionRows, Site


class ScatteredLinear(nn.Module):
    """A projection to the kept coordinates, put where they stand among the old ones; zeros elsewhere."""

    def __init__(
        self, weight: Float[Tensor, "s D"], bias: Float[Tensor, " s"], places: Int64[Tensor, " s"], width: int
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(bias, requires_grad=False)
        self.width = width
        self.places: Tensor
        self.register_buffer("places", places, persistent=False)

    def forward(self, hidden: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B N w"]:
        made = linear(hidden, self.weight, self.bias)
        return made.new_zeros(*made.shape[:-1], self.width).index_copy(-1, self.places, made)


class GatheredLinear(nn.Module):
    """An output projection that reads the kept coordinates alone."""

    def __init__(self, weight: Float[Tensor, "D s"], bias: Float[Tensor, " D"], places: Int64[Tensor, " s"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(bias, requires_grad=False)
        self.places: Tensor
        self.register_buffer("places", places, persistent=False)

    def forward(self, mixed: Float[Tensor, "*B N w"]) -> Float[Tensor, "*B N D"]:
        return linear(mixed[..., self.places], self.weight, self.bias)


@dataclass(frozen=True)
class HeadPlan:
    """One block's cut heads: how many coordinates each key head keeps, and the weights that make them."""

    site: Site
    key_ranks: tuple[int, ...] | None
    """None where keys stay as they are."""
    value_ranks: tuple[int, ...]
    tensors: Mapping[str, tuple[Float[Tensor, "rows columns"], Float[Tensor, " rows"]]]
    """Weight and bias of ``q`` and ``k`` (where keys are cut), ``v`` and ``o``."""


def head_plan(
    model: nn.Module,
    site: Site,
    keys: Sequence[Bottleneck] | None,
    key_ranks: Sequence[int] | None,
    values: Sequence[Bottleneck],
    value_ranks: Sequence[int],
) -> HeadPlan:
    """The cut of every key head to its ranks."""
    q, k, v = (_heads(model, rows) for rows in (site.q, site.k, site.v))
    o_module = model.get_submodule(site.o.module)
    o = weight_of(o_module).double()[:, torch.from_numpy(site.o.index)]
    group = len(site.q.index) // len(site.k.index)
    tensors = {}
    if keys is not None and key_ranks is not None:
        tensors["q"] = _stacked(
            [
                [part[head] for part in q] + [keys[head // group].up[:, : key_ranks[head // group]].mT]
                for head in range(len(site.q.index))
            ]
        )
        tensors["k"] = _stacked(
            [[part[g] for part in k] + [keys[g].down[: key_ranks[g]]] for g in range(len(site.k.index))]
        )
    tensors["v"] = _stacked(
        [[part[g] for part in v] + [values[g].down[: value_ranks[g]]] for g in range(len(site.v.index))]
    )
    bias = bias_of(o_module).double()
    columns = []
    for head in range(o.shape[1]):
        g = head // group
        columns.append(o[:, head] @ values[g].up[:, : value_ranks[g]])
        bias = bias + o[:, head] @ values[g].shift(value_ranks[g])
    tensors["o"] = (torch.cat(columns, 1).float(), bias.float())
    return HeadPlan(site, None if key_ranks is None else tuple(key_ranks), tuple(value_ranks), tensors)


def empty_head_plan(
    model: nn.Module, site: Site, key_ranks: Sequence[int] | None, value_ranks: Sequence[int]
) -> HeadPlan:
    """The shapes of a cut, to be filled from a file."""
    inputs = {name: weight_of(model.get_submodule(getattr(site, name).module)) for name in "qkvo"}
    group = len(site.q.index) // len(site.k.index)
    tensors = {}
    if key_ranks is not None:
        for name, size in (("q", group * sum(key_ranks)), ("k", sum(key_ranks))):
            tensors[name] = (torch.zeros(size, inputs[name].shape[1]), torch.zeros(size))
    tensors["v"] = (torch.zeros(sum(value_ranks), inputs["v"].shape[1]), torch.zeros(sum(value_ranks)))
    dim = len(inputs["o"])
    tensors["o"] = (torch.zeros(dim, group * sum(value_ranks)), torch.zeros(dim))
    return HeadPlan(site, None if key_ranks is None else tuple(key_ranks), tuple(value_ranks), tensors)


def head_modules(model: nn.Module, plan: HeadPlan) -> Mapping[str, nn.Module]:
    """The modules of ``plan`` under the paths of those they replace."""
    site = plan.site
    group = len(site.q.index) // len(site.k.index)
    ranks = {"v": plan.value_ranks, "o": _each(plan.value_ranks, group)}
    if plan.key_ranks is not None:
        ranks |= {"q": _each(plan.key_ranks, group), "k": plan.key_ranks}
    modules: dict[str, nn.Module] = {}
    for name, kept in ranks.items():
        rows: ProjectionRows = getattr(site, name)
        weight, bias = plan.tensors[name]
        places = torch.cat([torch.from_numpy(row[:rank]) for row, rank in zip(rows.index, kept, strict=True)])
        if name == "o":
            modules[rows.module] = GatheredLinear(weight, bias, places)
        else:
            width = len(weight_of(model.get_submodule(rows.module)))
            modules[rows.module] = ScatteredLinear(weight, bias, places, width)
    return modules


def _each(ranks: Sequence[int], group: int) -> tuple[int, ...]:
    return tuple(rank for rank in ranks for _ in range(group))


def _heads(model: nn.Module, rows: ProjectionRows) -> tuple[Float[Tensor, "H R D"], Float[Tensor, "H R"]]:
    module, index = model.get_submodule(rows.module), torch.from_numpy(rows.index)
    return weight_of(module).double()[index], bias_of(module).double()[index]


def _stacked(parts: Sequence[Sequence[Tensor]]) -> tuple[Float[Tensor, "s D"], Float[Tensor, " s"]]:
    """``(map W, map b)`` of every head, below each other."""
    weight = torch.cat([change @ weight for weight, _, change in parts])
    bias = torch.cat([change @ bias for _, bias, change in parts])
    return weight.float(), bias.float()
