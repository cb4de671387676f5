"""Keys and values of a decoder through one latent: the modules that replace a model's projections.

A layer's x = [k; v], before norms and rotary positions, becomes ``x ~ up (down h) + bias`` with the latent ``c =
down h`` of k numbers. The rest of the model is untouched: it still gets keys and values from modules of the same
names.

Legend: B batch, N tokens, D dim, k size of the latent, m outputs of a projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from rankwise.reduce.bottleneck import Bottleneck
from rankwise.reduce.linear_modules import bias_of, weight_of
from rankwise.reduce.sites import Site


class Latent(nn.Module):
    """``c = down h``, shared by the projections of a layer.

    ``newest`` is set while a ``LatentCache`` is being filled: the cache keeps it instead of keys and values.
    """

    def __init__(self, down: Float[Tensor, "k D"]) -> None:
        super().__init__()
        self.down = nn.Parameter(down, requires_grad=False)
        self.recording = False
        self.newest: Tensor | None = None
        self.rotation: tuple[Tensor, Tensor] | None = None

    def forward(self, hidden: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B N k"]:
        latent = linear(hidden, self.down)
        if self.recording:
            self.newest = latent
        return latent


class LatentProjection(nn.Module):
    """A projection whose outputs, or some of them, come from a latent: ``up c + bias``.

    - ``kept``: weight and bias of the outputs that do not (the queries of a fused module); None where all do.
    - ``order``: where each output stands in ``[kept, from the latent]``; None for that order itself.
    """

    def __init__(
        self,
        latent: Latent,
        up: Float[Tensor, "m k"],
        bias: Float[Tensor, " m"],
        kept: tuple[Float[Tensor, "p D"], Float[Tensor, " p"]] | None = None,
        order: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.latent = latent
        self.up = nn.Parameter(up, requires_grad=False)
        self.bias = nn.Parameter(bias, requires_grad=False)
        self.kept_weight = None if kept is None else nn.Parameter(kept[0], requires_grad=False)
        self.kept_bias = None if kept is None else nn.Parameter(kept[1], requires_grad=False)
        self.order: Tensor | None
        self.register_buffer("order", order, persistent=False)

    def forward(self, hidden: Float[Tensor, "*B N D"]) -> Float[Tensor, "*B N m"]:
        made = linear(self.latent(hidden), self.up, self.bias)
        if self.kept_weight is None:
            return made
        together = torch.cat([linear(hidden, self.kept_weight, self.kept_bias), made], -1)
        return together if self.order is None else together[..., self.order]


@dataclass(frozen=True)
class LatentPlan:
    """One layer's latent: which modules it replaces, and its tensors."""

    site: Site
    rank: int
    down: Float[Tensor, "k D"]
    up: Float[Tensor, "n k"]
    """To x in the order keys, values; of MLA: to the outputs of its second map."""
    bias: Float[Tensor, " n"]


def latent_plan(model: nn.Module, site: Site, found: Bottleneck, rank: int) -> LatentPlan:
    """The latent of ``rank`` coordinates that ``found`` gives the layer ``site``."""
    down, up, shift = found.down[:rank], found.up[:, :rank], found.shift(rank)
    if site.kind == "mla":
        module = model.get_submodule(site.k.module)
        weight = weight_of(module).double()
        return LatentPlan(site, rank, down.float(), (weight @ up).float(), (weight @ shift + bias_of(module)).float())
    weight, bias = joint_map(model, site)
    return LatentPlan(site, rank, (down @ weight).float(), up.float(), (up @ (down @ bias) + shift).float())


def joint_map(model: nn.Module, site: Site) -> tuple[Float[Tensor, "n D"], Float[Tensor, " n"]]:
    """Weight and bias of x = [k; v]; of MLA, whose x is the input of its second map, the identity."""
    if site.kind == "mla":
        assert site.latent_size is not None
        return torch.eye(site.latent_size, dtype=torch.float64), torch.zeros(site.latent_size, dtype=torch.float64)
    parts = [(model.get_submodule(rows.module), torch.from_numpy(rows.index.ravel())) for rows in (site.k, site.v)]
    weight = torch.cat([weight_of(module)[rows] for module, rows in parts]).double()
    return weight, torch.cat([bias_of(module)[rows] for module, rows in parts]).double()


def latent_modules(model: nn.Module, plan: LatentPlan) -> Mapping[str, nn.Module]:
    """The modules of ``plan`` under the paths of those they replace."""
    latent, site = Latent(plan.down.clone()), plan.site
    if site.kind == "mla":
        return {site.k.module: LatentProjection(latent, plan.up.clone(), plan.bias.clone())}
    keys = site.k.index.size
    if site.k.module != site.v.module:
        return {
            site.k.module: LatentProjection(latent, plan.up[:keys].clone(), plan.bias[:keys].clone()),
            site.v.module: LatentProjection(latent, plan.up[keys:].clone(), plan.bias[keys:].clone()),
        }
    fused = model.get_submodule(site.k.module)
    weight, bias = weight_of(fused), bias_of(fused)
    made = torch.cat([torch.from_numpy(rows.index.ravel()) for rows in (site.k, site.v)])
    kept = torch.ones(len(weight), dtype=torch.bool)
    kept[made] = False
    order = torch.cat([kept.nonzero()[:, 0], made]).argsort()
    untouched = weight[kept].clone(), bias[kept].clone()
    return {site.k.module: LatentProjection(latent, plan.up.clone(), plan.bias.clone(), untouched, order)}


def empty_latent_plan(model: nn.Module, site: Site, rank: int) -> LatentPlan:
    """The shapes of a latent of ``rank`` coordinates, to be filled from a file."""
    module = weight_of(model.get_submodule(site.k.module))
    size = len(module) if site.kind == "mla" else site.k.index.size + site.v.index.size
    return LatentPlan(site, rank, torch.zeros(rank, module.shape[1]), torch.zeros(size, rank), torch.zeros(size))
