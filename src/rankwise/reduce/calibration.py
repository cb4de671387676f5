"""Samples of the vectors that are to be cut, and the gradients of the loss by them, from a pass over texts.

The loss is one whose gradients have the curvature of what the cost measures as their second moment: for language
models the log-likelihood of labels, once those of the text and once labels that the model itself draws (the Fisher
information of its predictions; validation text could not tell which is better); for encoders the embedding times a
random vector (the Gauss-Newton matrix of the squared distance of embeddings).

Of a latent's vector every token is kept; of heads, what is summed over whole texts (see ``head_samples``).

Legend: T tokens, K losses, n coordinates of the vector of a site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from rankwise.models import RunningModel
from rankwise.progress import Progress, silent
from rankwise.reduce.cost import embed, hidden_tokens
from rankwise.reduce.head_samples import HeadSamples, head_sums, joined_sums, query_sum
from rankwise.reduce.pieces import MaskedPieces, run
from rankwise.reduce.sites import Site

_PROBES = 4
"""Random directions per text at which an embedding is differentiated: each is a backward pass over a short text."""


@dataclass(frozen=True)
class Samples:
    """The vector of one site at T tokens; in half precision, since only second moments are taken of it."""

    x: Float[Tensor, "T n"]
    g: Float[Tensor, "K T n"] | None
    """Gradients of K losses, in units of ``g_size``; None of heads, and where nobody asked for them."""
    g_size: float
    queries: Float[Tensor, "G R R"] | None = None
    """Of heads: second moment of the queries that ask each key head, in the unit of scores."""
    heads: HeadSamples | None = None
    """Of heads, where gradients were asked for."""


def collect(
    running: RunningModel,
    sites: Sequence[Site],
    pieces: MaskedPieces,
    *,
    gradients: bool,
    folder: Path | None = None,
    progress: Progress = silent,
) -> list[Samples]:
    """Samples of every site's vector, in the order of ``sites``.

    Passes wait on the disk: beside the gradients of the last one, memory would have to hold them all.

    - ``folder``: keeps what is done, so that an interrupted collection continues; None: a folder that goes again.
    """
    passes = list(pieces.passes())
    with nullcontext(folder) if folder is not None else TemporaryDirectory() as place, ExitStack() as opened:
        files = [Path(place) / f"pass-{number}.safetensors" for number in range(len(passes))]
        for number, (part, file) in enumerate(zip(passes, files, strict=True)):
            progress("calibrate", number, len(passes))
            if not file.is_file():
                draft = file.with_suffix(".new")
                found = _collect_pass(running, sites, part, number, gradients)
                save_file({name: value.contiguous() for name, value in found.items()}, draft)
                del found
                draft.replace(file)
        progress("calibrate", len(passes), len(passes))
        parts = [opened.enter_context(safe_open(file, framework="pt")) for file in files]
        return [_joined(parts, at, gradients) for at in range(len(sites))]


def _collect_pass(
    running: RunningModel, sites: Sequence[Site], pieces: MaskedPieces, number: int, gradients: bool
) -> dict[str, Tensor]:
    real = pieces.mask.flatten()
    with _tapped(running, sites) as (taps, queries), torch.set_grad_enabled(gradients):
        output, directions = _differentiated(running, pieces, number)
        vectors = [part for site in range(len(sites)) for part in taps[site]]
        found = {
            f"x{at}": torch.cat([part.detach().flatten(0, -2)[real] for part in taps[at]], -1).half()
            for at in range(len(sites))
        }
        for at, asking in queries.items():
            found[f"q{at}"] = query_sum(sites[at], asking.detach(), pieces.mask)
        if not gradients:
            return found
        slopes: list[list[Tensor]] = [[] for _ in sites]
        for last, direction in directions:
            grads = iter(torch.autograd.grad(output, vectors, direction, retain_graph=not last))
            for at in range(len(sites)):
                slopes[at].append(torch.cat([next(grads) for _ in taps[at]], -1))
    for at, site in enumerate(sites):
        together = torch.stack(slopes[at])
        size = together.square().mean().sqrt().clamp_min(1e-30)
        together, found[f"s{at}"] = together / size, size
        if site.kind == "heads":
            x = torch.cat([part.detach() for part in taps[at]], -1)
            sums = head_sums(site, x, together, pieces.mask)
            found |= {f"{name}{at}": value for name, value in sums.items()}
        else:
            found[f"g{at}"] = together.flatten(1, -2)[:, real].half()
    return found


def _differentiated(
    running: RunningModel, pieces: MaskedPieces, number: int
) -> tuple[Tensor, Iterator[tuple[bool, Tensor]]]:
    """An output, and along what it is differentiated, with whether that is the last; of logits, the slopes of a loss.

    The slope of ``log softmax`` at a label is the label minus the probabilities: no table is made of the loss itself.
    """
    generator = torch.Generator().manual_seed(number)
    if running.objective == "embedding":
        vectors = embed(running, pieces)
        draws = [torch.randn(vectors.shape, generator=generator) for _ in range(_PROBES)]
        return vectors, ((at == _PROBES - 1, draw) for at, draw in enumerate(draws))
    if running.objective == "causal":
        logits, counted = run(running, pieces), pieces.mask.roll(-1, 1)
        counted[:, -1] = False
        wanted = pieces.tokens.roll(-1, 1)
    else:
        shown, counted = hidden_tokens(running, pieces, number * len(pieces))
        logits, wanted = run(running, pieces, shown), pieces.tokens
    chances = torch.softmax(logits.detach(), -1)
    drawn = torch.multinomial(chances.flatten(0, 1), 1, generator=generator).view(wanted.shape)
    rest = chances.neg_().mul_(counted[..., None])
    return logits, ((at == 1, _raised(rest, label, counted)) for at, label in enumerate((wanted, drawn)))


def _raised(rest: Float[Tensor, "T N W"], label: Int64[Tensor, "T N"], counted: Bool[Tensor, "T N"]) -> Tensor:
    """``rest`` with 1 added at every label that counts."""
    return rest.scatter_add(-1, label[..., None], counted[..., None].to(rest.dtype))


@contextmanager
def _tapped(running: RunningModel, sites: Sequence[Site]) -> Iterator[tuple[list[list[Tensor]], dict[int, Tensor]]]:
    """The parts of each site's vector as the model makes them, and of heads the queries.

    Parts are the outputs of k and v, or the input of MLA's second map.
    """
    taps: list[list[Tensor]] = [[] for _ in sites]
    queries: dict[int, Tensor] = {}
    hooks = []

    def enter(_: object, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or out.requires_grad:
            return out
        return out.requires_grad_().clone()  # no leaf: some models change it in place

    frozen = [(weight, weight.requires_grad) for weight in running.model.parameters()]
    for weight, _ in frozen:
        weight.requires_grad_(False)
    for module in running.model.modules():
        if isinstance(module, nn.Embedding):
            hooks.append(module.register_forward_hook(enter))
    for at, site in enumerate(sites):
        if site.kind == "heads":

            def ask(_: object, given: object, out: Tensor, site: Site = site, at: int = at) -> None:
                queries[at] = out[..., torch.from_numpy(site.q.index.ravel())]

            hooks.append(running.model.get_submodule(site.q.module).register_forward_hook(ask))
        for rows in (site.k,) if site.kind == "mla" else (site.k, site.v):
            columns = torch.from_numpy(rows.index.ravel())

            def tap(
                _: object,
                given: tuple[Tensor, ...],
                out: Tensor,
                site: Site = site,
                at: int = at,
                columns: Tensor = columns,
            ) -> Tensor | None:
                if site.kind == "mla":
                    taps[at].append(given[0])
                    return None
                if out.shape[-1] == len(columns) and bool((columns.diff() == 1).all()):
                    taps[at].append(out)
                    return None
                part = out[..., columns]
                taps[at].append(part)
                changed = out.clone()  # so that the gradient flows through the part that is tapped
                changed[..., columns] = part
                return changed

            hooks.append(running.model.get_submodule(rows.module).register_forward_hook(tap))
    try:
        yield taps, queries
    finally:
        for hook in hooks:
            hook.remove()
        for weight, before in frozen:
            weight.requires_grad_(before)


def _joined(parts: Sequence[Any], at: int, gradients: bool) -> Samples:
    """The samples of one site, read from all passes."""
    names = set(parts[0].keys())
    x = torch.cat([part.get_tensor(f"x{at}") for part in parts])
    queries = None
    if f"q{at}" in names:
        queries = torch.stack([part.get_tensor(f"q{at}") for part in parts]).sum(0) / len(x)
    if not gradients:
        return Samples(x, None, 1.0, queries)
    sizes = [float(part.get_tensor(f"s{at}")) for part in parts]
    if f"slopes{at}" in names:
        return Samples(x, None, max(sizes), queries, joined_sums(parts, at, [size / max(sizes) for size in sizes]))
    g = [part.get_tensor(f"g{at}") * (size / max(sizes)) for part, size in zip(parts, sizes, strict=True)]
    return Samples(x, torch.cat(g, 1), max(sizes), queries)
