"""An audit as a person reads it: the number that matters, a row per layer, the heads to look at, what was left out."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from rankwise.audit import NEAR, AuditReport, HeadReport, JointSpectrum, LayerReport, not_identifiable
from rankwise.cli.output import console, print_line

_NAMED = 3
_ROOMY = 120  # columns of a terminal
_TOKENS_PER_NUMBER = 4
"""Of fewer, a spectrum of samples is visibly narrower than that of what they are drawn from."""


def print_report(report: AuditReport) -> None:
    """Everything on stdout; names from files never act as markup."""
    out = console()
    if not report.layers:  # a model of no known layout that was only run
        for item in report.not_audited:
            print_line(f"{report.model}: {item.what} not audited: {item.reason}")
        return
    for line in headline(report):
        print_line(line, bold=True)
    roomy = out.width >= _ROOMY
    out.print(_layers_table(report, roomy))
    print_line(_COLUMNS if roomy else f"{_COLUMNS} A wider terminal shows masks, ranges over heads and OV too.")
    for line in _details(report):
        print_line(line)


def headline(report: AuditReport) -> Iterator[str]:
    """What was measured, against what chance gives."""
    heads = [(layer, head) for layer in report.layers for head in layer.head_reports]
    share = statistics.median(head.qk.effective / layer.qk_baseline.effective.mean for layer, head in heads)
    below = sum(head.qk.effective < layer.qk_baseline.effective.low for layer, head in heads)
    pairs = sum(layer.pairs for layer in report.layers)
    redundant = {form: _redundant(report, form) for form in ("QK", "OV")}
    yield (
        f"{report.model}: the median head's QK form has {share:.0%} of the effective rank of random weights; "
        f"{below} of {len(heads)} heads lie below chance."
    )
    yield f"Of {pairs:,} pairs of heads in a layer, {redundant['QK']} overlap in QK and {redundant['OV']} in OV."


def _redundant(report: AuditReport, form: str) -> int:
    return sum(pair.redundant and pair.form == form for layer in report.layers for pair in layer.overlaps)


_COLUMNS = (
    "QK: the form of scores, OV: that of outputs. Effective rank: exp of the entropy of the singular values, mean over "
    "heads; random: that of independent Gaussian weights of the same shapes behind the same norms. 90 % energy: "
    "directions that hold 90 % of the squared singular values. Below chance: heads below where all heads of a random "
    "model would lie. Overlapping: pairs of heads with more than half of their main subspaces in common."
)


def _layers_table(report: AuditReport, roomy: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    rows = [dict(_cells(layer, roomy)) for layer in report.layers]
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("layer", "mask") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.values()))
    return table


def _cells(layer: LayerReport, roomy: bool) -> Iterator[tuple[str, str]]:
    """Names of columns and what stands there."""
    heads = layer.head_reports
    yield "layer", layer.name
    yield "heads", str(layer.heads) if layer.kv_heads == layer.heads else f"{layer.heads}/{layer.kv_heads}"
    yield "rank", str(layer.rank) if layer.rank == layer.value_rank else f"{layer.rank}, {layer.value_rank}"
    if roomy:
        yield "mask", layer.mask if layer.window is None else f"{layer.mask} {layer.window}"
    yield _effective("QK", [head.qk.effective for head in heads], roomy)
    yield "QK\nrandom", f"{layer.qk_baseline.effective.mean:.1f}"
    yield "QK 90 %\nenergy", f"{statistics.mean(head.qk.energy_90 for head in heads):.1f}"
    yield "below\nchance", str(sum(head.qk.effective < layer.qk_baseline.effective.low for head in heads))
    if roomy:
        yield _effective("OV", [head.ov.effective for head in heads if head.ov is not None], roomy)
        yield "OV\nrandom", "-" if layer.ov_baseline is None else f"{layer.ov_baseline.effective.mean:.1f}"
    counts = (sum(pair.redundant and pair.form == form for pair in layer.overlaps) for form in ("QK", "OV"))
    yield "overlapping\nQK, OV", ", ".join(map(str, counts))


def _effective(form: str, values: list[float], roomy: bool) -> tuple[str, str]:
    name = f"{form} effective\nmean (least - most)" if roomy else f"{form}\neffective"
    if not values:
        return name, "-"
    mean = f"{statistics.mean(values):.1f}"
    return name, f"{mean} ({min(values):.1f} - {max(values):.1f})" if roomy else mean


def _details(report: AuditReport) -> Iterator[str]:
    ordered = sorted(
        ((layer, head) for layer in report.layers for head in layer.head_reports),
        key=lambda pair: pair[1].qk.effective / pair[0].qk_baseline.effective.mean,
    )
    named = min(_NAMED, len(ordered) // 2) or 1
    yield ""
    yield "Least QK rank: " + "; ".join(_head(layer, head) for layer, head in ordered[:named]) + "."
    yield "Most QK rank:  " + "; ".join(_head(layer, head) for layer, head in reversed(ordered[-named:])) + "."
    yield from _closest(report)
    yield from _distances(report)
    yield from _gains(report)
    yield from _biases(report)
    yield from _groups(report)
    yield from _near_equal(report)
    yield from _joint(report)
    folded = sorted({item for layer in report.layers for item in layer.folded_in})
    yield "Folded in: " + ("; ".join(folded) if folded else "nothing") + "."
    stored = ", ".join(f"{count} {dtype}" for dtype, count in report.storage.items())
    yield f"Tensors read: {stored} ({report.file_format}, {report.architecture})."
    if report.placement is not None:
        yield f"Placement of the heads: {report.placement}."
    quantised = [dtype for dtype in report.storage if dtype not in ("F64", "F32", "F16", "BF16")]
    if quantised:
        yield f"Quantised as {', '.join(quantised)}: small singular values carry its noise, so ranks read high."
    for note in dict.fromkeys((*report.notes, *(note for layer in report.layers for note in layer.notes))):
        yield f"Note: {note}."
    for item in report.not_audited:
        yield f"Not audited: {item.what}: {item.reason}."


def _head(layer: LayerReport, head: HeadReport) -> str:
    return (
        f"{layer.name} head {head.head} {head.qk.effective:.1f} of {layer.rank} "
        f"(random {layer.qk_baseline.effective.mean:.1f}; 90 % energy in {head.qk.energy_90})"
    )


def _closest(report: AuditReport) -> Iterator[str]:
    for form, sides in (("QK", ("query", "key")), ("OV", ("written", "read"))):
        pairs = [(layer, pair) for layer in report.layers for pair in layer.overlaps if pair.form == form]
        if not pairs:
            continue
        layer, pair = max(pairs, key=lambda item: (item[1].redundant, min(item[1].left, item[1].right)))
        yield (
            f"Closest in {form}: {layer.name} heads {pair.heads[0]} and {pair.heads[1]}: {sides[0]} side "
            f"{pair.left:.2f} (chance {pair.left_random:.2f}), {sides[1]} side {pair.right:.2f} "
            f"(chance {pair.right_random:.2f}) of 1; overlapping when both exceed .50 and chance."
        )


def _distances(report: AuditReport) -> Iterator[str]:
    """A line for each set of distances: layers with a window and those without are never mixed in a mean."""
    sets: dict[tuple[int, ...], list[HeadReport]] = {}
    for layer in report.layers:
        for head in layer.head_reports:
            if head.at_distance:
                sets.setdefault(tuple(at.distance for at in head.at_distance), []).append(head)
    for distances, heads in sets.items():
        columns = [[head.qk.effective for head in heads]]
        columns += [[head.at_distance[place].effective for head in heads] for place in range(len(distances))]
        pairs = zip((0, *distances), columns, strict=True)
        means = ", ".join(f"{distance}: {statistics.mean(values):.1f}" for distance, values in pairs)
        which = "" if len(sets) == 1 else f" ({len(heads)} heads that see up to {max(distances)} tokens back)"
        yield f"Rotary positions: mean effective QK rank by distance of the key{which} - {means}."


def _gains(report: AuditReport) -> Iterator[str]:
    """What the norms' gains alone do to random weights, where it is more than a tenth."""
    pairs = [
        (layer.qk_baseline.effective.mean, layer.qk_without_gains.effective.mean)
        for layer in report.layers
        if layer.qk_without_gains is not None
    ]
    if pairs and any(with_gains < 0.9 * without for with_gains, without in pairs):
        with_gains, without = (statistics.mean(column) for column in zip(*pairs, strict=True))
        yield (
            f"Gains of norms: random weights behind them have a mean effective QK rank of {with_gains:.1f}, "
            f"{without:.1f} without; heads are compared with the former."
        )


def _biases(report: AuditReport) -> Iterator[str]:
    pairs = [
        (head.qk.effective, head.qk_with_bias.effective)
        for layer in report.layers
        for head in layer.head_reports
        if head.qk_with_bias is not None
    ]
    if pairs:
        without, with_bias = (statistics.mean(column) for column in zip(*pairs, strict=True))
        yield f"Biases: mean effective QK rank {without:.1f} without them (above), {with_bias:.1f} with."


def _groups(report: AuditReport) -> Iterator[str]:
    groups = [group.qk.effective for layer in report.layers for group in layer.groups]
    if groups:
        yield (
            f"Shared keys: all query heads of a key head together use {statistics.mean(groups):.1f} of its rank "
            f"(effective, mean; least {min(groups):.1f})."
        )


def _near_equal(report: AuditReport) -> Iterator[str]:
    """How many directions have no meaning one by one, and why."""
    counts = [
        (not_identifiable(head.qk_near_equal, head.qk.energy_90), head.qk.energy_90)
        for layer in report.layers
        for head in layer.head_reports
        if head.qk.energy_90
    ]
    alike = sum(count for count, _ in counts)
    if alike:
        yield (
            f"Not identifiable: {alike / sum(most for _, most in counts):.0%} of the directions that hold 90 % of QK "
            f"have a singular value within {NEAR:.0%} of a neighbour's. A change of the weights by that much turns "
            f"them into each other: read their span, not the directions."
        )


def _joint(report: AuditReport) -> Iterator[str]:
    """Whether one latent could hold keys and values, by weights and on texts."""
    found = [layer.joint for layer in report.layers if layer.joint is not None]
    if found:
        yield (
            f"Keys and values as one vector: 99 % of its energy lies in {joint_share(found)} of its numbers by weights "
            f"(random weights {statistics.mean((one.random_99 or 0) / one.numbers for one in found):.0%})."
        )
    seen = [layer.joint for layer in report.attention.layers if layer.joint is not None] if report.attention else []
    if seen:
        yield (
            f"On {min(one.tokens or 0 for one in seen):,} tokens of text 99 % of it lies in {joint_share(seen)}; what "
            f"a latent of that size costs is measured by rankwise reduce."
        )
        if any((one.tokens or 0) < _TOKENS_PER_NUMBER * one.numbers for one in seen):
            yield f"That reads low, with fewer than {_TOKENS_PER_NUMBER} tokens per number: give more text (--pieces)."


def joint_share(found: Sequence[JointSpectrum]) -> str:
    """The part of the numbers that a latent for 99 % of the energy has, over layers."""
    shares = [one.energy_99 / one.numbers for one in found]
    return f"{statistics.mean(shares):.0%} ({min(shares):.0%} to {max(shares):.0%} by layer)"
