"""Gradients that are computed without a table of the loss are those of the loss."""

import pytest
import torch
from torch.nn.functional import kl_div, log_softmax

from rankwise.reduce.calibration import collect
from rankwise.reduce.healing import Divergence
from rankwise.reduce.pieces import MaskedPieces, run
from rankwise.reduce.sites import attention_sites
from reduce_models import causal_model
from saved_models import tokens


@pytest.mark.parametrize("padded", [False, True])
def test_calibration_has_the_gradients_of_the_loss_of_the_labels(padded):
    running, real = causal_model("llama"), torch.ones(3, 12, dtype=torch.bool)
    real[1, 7:] = not padded
    pieces = MaskedPieces(tokens(3, 12), ("a",), real)
    sites = attention_sites(running).sites
    found = collect(running, sites, pieces, gradients=True)
    values = running.model.get_submodule(sites[1].v.module)
    values.bias = torch.nn.Parameter(torch.zeros(3, 12, len(values.weight)))  # one for each token
    logits, counted = run(running, pieces)[:, :-1], real[:, 1:]
    told = log_softmax(logits[counted], -1).gather(-1, pieces.tokens[:, 1:][counted][:, None])
    told.sum().backward()
    ours = found[1].g[0].float() * found[1].g_size
    wanted = values.bias.grad.flatten(0, 1)[real.flatten()]
    torch.testing.assert_close(ours[:, -wanted.shape[1] :], wanted, rtol=0.01, atol=0.002 * float(wanted.abs().max()))


def test_the_divergence_and_its_gradient():
    generator = torch.Generator().manual_seed(0)
    ours, theirs = (torch.randn(37, 50, generator=generator, requires_grad=True) for _ in range(2))
    found = Divergence.apply(ours, theirs.detach())
    (slope,) = torch.autograd.grad(3 * found, ours)
    wanted = kl_div(log_softmax(ours, -1), log_softmax(theirs.detach(), -1), log_target=True, reduction="sum") / 37
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(slope, torch.autograd.grad(3 * wanted, ours)[0])
