"""AdamW and Muon over parameters grouped by their role in the model.

Legend: H heads, R rank, D dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from rankwise.errors import InvalidInputError
from rankwise.spec import LrMultipliers, OptimSpec

# The quintic of Jordan et al. (2024): five rounds bring every singular value above about 1e-3 of the largest
# between .7 and 1.2, which is near enough to 1 and much cheaper than exact.
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5

_ROLES = {
    "q_weight": "query_key",
    "k_weight": "query_key",
    "block_weight": "query_key",
    "q_bias": "query_key",
    "k_bias": "query_key",
    "v_weight": "output_value",
    "o_weight": "output_value",
    "v_bias": "output_value",
    "o_bias": "output_value",
    "log_beta": "temperature",
    "feedforward": "feedforward",
    "attention_norm": "norm",
    "feedforward_norm": "norm",
    "final_norm": "norm",
    "residual_weight": "norm",  # one scalar that scales the stream, like the gain of a norm
    "q_norm": "norm",
    "k_norm": "norm",
    "positions": "positions",
    # latent attention: the latent serves keys and values alike, and counts with the values
    "query_up": "query_key",
    "down": "output_value",
    "latent_up": "output_value",
    "out": "output_value",
    "query_norm": "norm",
    "latent_norm": "norm",
    # around the stack: a table is like positions
    "embedding": "positions",
    "read_in": "interface",
    "read_out": "interface",
    # generalised heads: whatever decides the weights, and whatever is made of them
    "keys": "query_key",
    "phi": "query_key",
    "value_scale": "output_value",
    "value_weight": "output_value",
}
_MATRIX_ROLES = ("query_key", "output_value", "feedforward", "interface")


def role_of(name: str) -> str:
    """Which field of ``LrMultipliers`` a parameter belongs to, by its name in the model."""
    for part in name.split("."):
        if part in _ROLES:
            return _ROLES[part]
    raise InvalidInputError(f"parameter {name!r}: expected one of a known role ({', '.join(sorted(_ROLES))})")


def build_optimizers(model: nn.Module, optim: OptimSpec) -> list[Optimizer]:
    """One AdamW, or Muon for the matrices and AdamW for the rest; one group a role, with ``lr_multiplier`` in it."""
    matrices: dict[str, list[nn.Parameter]] = {}
    others: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        by_muon = optim.optimizer == "muon" and _is_matrix(name, parameter)
        (matrices if by_muon else others).setdefault(role_of(name), []).append(parameter)
    built: list[Optimizer] = []
    if matrices:
        built.append(
            Muon(
                _groups(matrices, optim.lr_multipliers),
                lr=optim.lr,
                momentum=optim.momentum,
                weight_decay=optim.weight_decay,
            )
        )
    if others:
        built.append(
            AdamW(
                _groups(others, optim.lr_multipliers),
                lr=optim.lr,
                betas=optim.betas,
                eps=optim.eps,
                weight_decay=optim.weight_decay,
                fused=True,
            )
        )
    return built


def set_lr(optimizers: Iterable[Optimizer], lr: float) -> None:
    """``lr`` times its multiplier for every group."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = lr * group["lr_multiplier"]


class Muon(Optimizer):
    """Momentum whose direction is orthogonalised: ``W -= lr .2 sqrt(max(R, D)) orth(g + m (b - g))``.

    b is the running mean of the gradients g with decay m (Nesterov's form). The factor makes the mean square of an
    update .2, about AdamW's, so that both share one learning rate (Liu et al. 2025). A parameter is a matrix [R, D] or
    a stack of them [H, R, D], each orthogonalised apart: heads stored in one tensor are still heads.
    ``torch.optim.Muon`` does the same to single matrices, in bfloat16.
    """

    def __init__(
        self, params: Iterable[dict[str, Any]], *, lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            alike: dict[tuple[object, ...], list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    kind = (parameter.shape, parameter.dtype, parameter.device)
                    alike.setdefault(kind, []).append(parameter)
            for parameters in alike.values():
                self._update(parameters, group)
        return loss

    def _update(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Parameters of one shape, orthogonalised as one stack: small matrices cost calls, not operations."""
        directions = orthogonalized(torch.stack([self._direction(p, group["momentum"]) for p in parameters]))
        scale = group["lr"] * 0.2 * math.sqrt(max(parameters[0].shape[-2:]))
        for parameter, direction in zip(parameters, directions, strict=True):
            if group["weight_decay"]:
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(direction, alpha=-scale)

    def _direction(self, parameter: Tensor, momentum: float) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        assert parameter.grad is not None
        mean = state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(mean, momentum)


def orthogonalized(matrices: Float[Tensor, "*H R D"]) -> Float[Tensor, "*H R D"]:
    """Each matrix U S V^T with its singular values S pushed towards 1 (Newton-Schulz, all matrices of a stack at once).

    A matrix of zeros stays zero.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = (matrices.mT if tall else matrices).float()
    shape = x.shape
    x = x.reshape(-1, *shape[-2:])
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-20)
    a, b, c = _QUINTIC
    for _ in range(_ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    x = x.view(shape)
    return (x.mT if tall else x).to(matrices.dtype)


def _is_matrix(name: str, parameter: Tensor) -> bool:
    """Weights that map vectors to vectors; tables of biases, one row per head, are not."""
    return parameter.ndim >= 2 and not name.endswith("bias") and role_of(name) in _MATRIX_ROLES


def _groups(by_role: dict[str, list[nn.Parameter]], multipliers: LrMultipliers) -> Iterator[dict[str, Any]]:
    for role, parameters in by_role.items():
        yield {"params": parameters, "lr_multiplier": getattr(multipliers, role), "role": role}
