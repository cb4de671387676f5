"""Documents of an audit, a need, a reduction and a choice for tests of the report, small and made up."""

from dataclasses import replace

from rankwise.audit.comparison import Comparison, FormChange, HeadChange, LayerChange
from rankwise.audit.report import (
    AtDistance,
    AttentionBaseline,
    AttentionOfHead,
    AttentionOfLayer,
    AttentionReport,
    AuditReport,
    Baseline,
    ChanceInterval,
    GroupReport,
    HeadReport,
    JointSpectrum,
    LayerReport,
    NotAudited,
    Overlap,
    Ranks,
)
from rankwise.choose.document import BudgetSearch, Choice, TrainedShape


def audit_report(layers=3, heads=4, rank=8, dim=32, model="<i>model</i>"):
    """Head h of layer l has an effective rank of l + h + 1; 2 texts of attention."""

    def interval(mean):
        return ChanceInterval(mean=mean, low=0.9 * mean, high=1.1 * mean)

    baseline = Baseline(
        draws=8, effective=interval(7.0), stable=interval(4.0), energy_90=interval(6.0), energy_99=interval(8.0)
    )

    def ranks(layer, head):
        value = layer + head + 1
        return Ranks(numerical=rank, effective=float(value), stable=value / 2, energy_90=value, energy_99=value + 1)

    def head_report(layer, head):
        spectrum = tuple(2.0 ** -(at / (head + 1)) for at in range(rank))
        return HeadReport(
            head=head, kv_head=head, qk=ranks(layer, head), qk_with_bias=None, ov=ranks(layer, head), qk_norm=1.0,
            ov_norm=1.0, at_distance=(AtDistance(distance=1, effective=2.0, energy_90=3),),
            qk_singular_values=spectrum, ov_singular_values=spectrum, qk_near_equal=((2, 3), (6, 8)),
        )  # fmt: skip

    def joint(**more):
        values = tuple(2.0**-at for at in range(dim))
        return JointSpectrum(
            numbers=2 * heads * rank, effective=9.5, energy_90=7, energy_99=13, singular_values=values, **more
        )

    def layer_report(layer):
        pair = Overlap(
            form="QK", heads=(0, 1), left=0.7, right=0.6, left_random=0.1, right_random=0.1, redundant=layer == 0
        )
        return LayerReport(
            part="decoder", layer=layer, dim=dim, context_dim=dim, heads=heads, kv_heads=heads, rank=rank,
            value_rank=rank, scale=0.35, mask="causal", window=None, rotary=True, qk_norm=False, folded_in=(), notes=(),
            qk_baseline=baseline, ov_baseline=baseline,
            head_reports=tuple(head_report(layer, head) for head in range(heads)),
            groups=(GroupReport(kv_head=0, heads=(0,), qk=ranks(layer, 0)),), pairs=6, overlaps=(pair,),
            joint=joint(random_90=40.0, random_99=51.5),
        )  # fmt: skip

    def attention(layer):
        baseline = AttentionBaseline(barrier=8.5, barrier_without_sink=8.0, random_head=7.0, uniform_entropy=1.9)
        means = [{"hardmax_rank": 3.0 + head, "effective_rank": 2.0, "sink_share": 0.1 * head} for head in range(heads)]
        return AttentionOfLayer(
            index=layer, name=f"h.{layer}", mask="causal", window=None, cross_attention=False,
            queries=16, keys=16, head_dim=rank, baseline=baseline, remark=None, joint=joint(tokens=32),
            heads=tuple(
                AttentionOfHead(head=head, key_head=head, fixed_share=0.5, mean=mean, spread=dict.fromkeys(mean, 0.1))
                for head, mean in enumerate(means)
            ),
        )  # fmt: skip

    return AuditReport(
        model=model, architecture="gpt2", file_format="safetensors", storage={"F32": 12},
        layers=tuple(layer_report(layer) for layer in range(layers)),
        not_audited=(NotAudited(what="a part", reason="a reason"),), notes=("a note",),
        attention=AttentionReport(
            texts=2, tokens=16, source=("a.txt",), layers=tuple(attention(layer) for layer in range(layers)),
        ),
    )  # fmt: skip


def need_document(dim=32):
    """Two measurements; the second needs more."""
    ranks = (1, 2, 4, 8, 16, 32)

    def measurement(name, need):
        def curve(factor):
            return [
                {
                    "rank": rank, "form": "svd", "error": min(1.0, factor * need / 10 / rank),
                    "error_low": 0.9 * min(1.0, factor * need / 10 / rank),
                    "error_high": 1.1 * min(1.0, factor * need / 10 / rank),
                    "recall": 0.5, "recall_low": 0.4, "recall_high": 0.6,
                }
                for rank in ranks
            ]  # fmt: skip

        return {
            "name": name, "dim": dim, "keys": 100, "queries": 100, "own_queries": True, "candidates": 16, "need": need,
            "need_low": need - 1, "need_high": need + 1, "need_svd": need, "need_pca": need + 2,
            "need_random": need + 8, "need_isotropic": 30, "participation_ratio": {"keys": 5.5, "queries": 5.5},
            "by_candidates": [], "notes": ["measured."],
            "curves": {"best": curve(1), "svd": curve(1.1), "pca": curve(1.5), "random": curve(3)},
            "isotropic": [{"rank": r, "error": 1 - r / 40, "standard_error": 0.01, "bound": 0.4 / r} for r in ranks],
        }  # fmt: skip

    settings = {"target": 0.1, "candidates": 16, "similarity": "cosine", "heads": 1, "steps": 0, "seed": 0,
                "bootstrap": 200, "confidence": 0.95}  # fmt: skip
    return {
        "format": "rankwise-need/1", "rankwise": "0.1.0", "source": {"kind": "vectors"}, "settings": settings,
        "measurements": [measurement("keys.npy", 9), measurement("<u>other</u>.npy", 12)],
    }  # fmt: skip


def reduction_document():
    """Half of the cache of a model with three layers."""

    def cost(method, keep):
        return {"cost": (0.1 if method == "fisher" else 0.3) * (1 - keep), "standard_error": 0.01, "loss": 2.0,
                "perplexity_percent": 5.0}  # fmt: skip

    return {
        "format": "rankwise-reduction/2", "model": "model", "architecture": "gpt2", "objective": "causal",
        "verdict": "Half the KV cache for +0.0500 nats per token: worth trying.", "judgement": "worth trying",
        "method": "fisher", "allocation": "allocated", "form": "latents", "keep": 0.5, "rank": None, "tolerance": None,
        "parameters": {"before": 10_000, "after": 9_700}, "attention_parameters": {"before": 1000, "after": 700},
        "cache_numbers": {"before": 64, "after": 32}, "kept_coordinates": {"before": 64, "after": 32},
        "head_rank": 8,
        "layers": [{"name": f"decoder {at}", "kind": "joint", "ranks": [4 + at], "size": 16} for at in range(3)],
        "not_tested": ["other texts"], "cost": cost("fisher", 0.5), "original_loss": 1.95,
        "texts": {"calibration_source": ["a.txt"], "evaluation_source": ["b.txt"], "tokens": 64, "calibration": 2,
                  "selection": 0, "evaluation": 6, "records": False},
        "frontier": [{"method": method, "keep": keep, "parameters": 9_000, "cost": cost(method, keep)}
                     for method in ("fisher", "weights") for keep in (0.75, 0.5, 0.25)],
    }  # fmt: skip


def choice(ranks=(2, 8, 32)):
    """Losses grow with the rank; two budgets."""
    shapes = tuple(
        TrainedShape(heads=64 // rank, rank=rank, value_rank=rank, kv_heads=64 // rank, parameters=32768,
                     cache_bytes=512, steps=10, losses=(2.0 + rank / 8, 2.1 + rank / 8), loss=2.05 + rank / 8,
                     standard_error=0.05) for rank in ranks
    )  # fmt: skip
    found = BudgetSearch(kind="parameters", amount=32768, shapes=shapes)
    return Choice(rankwise="0", preset="smoke", text="a.txt", sha256="0" * 64, dim=64, layers=2, context=64,
                  searches=(found, replace(found, kind="cache", amount=512)))  # fmt: skip


def comparison():
    """Two layers of four heads; QK of head h moved in h directions, OV is known in the first layer alone."""

    def form(directions):
        ranks = Ranks(numerical=8, effective=6.0, stable=4.0, energy_90=6, energy_99=8)
        moved = directions / 10
        return FormChange(ranks, ranks, change=moved + 0.01, rounding=0.01, beyond=moved, directions=directions)

    heads = [HeadChange(head, head, form(head), form(0)) for head in range(4)]
    layers = [LayerChange("decoder", 0, 8, 8, tuple(heads))]
    layers.append(LayerChange("decoder", 1, 8, 8, tuple(replace(head, ov=None) for head in heads)))
    return Comparison(
        first="<i>base</i>",
        second="tuned",
        first_storage={"F32": 8},
        second_storage={"Q8_0": 8},
        layers=tuple(layers),
        notes=("biases are not compared",),
    )
