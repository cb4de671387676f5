"""From what was measured to the report, and to the README of a written directory."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import nn

from rankwise.models import RunningModel, RunSanity, sanity_of_loss
from rankwise.reduce.cost import Cost, ModelReading
from rankwise.reduce.cutting import Installed, cut_ranks
from rankwise.reduce.document import (
    Change,
    CostReport,
    FrontierPoint,
    GenerationReport,
    HealingReport,
    LayerRanks,
    RecallReport,
    Reduction,
    TextsReport,
    Untouched,
)
from rankwise.reduce.options import Form, ReductionOptions
from rankwise.reduce.pieces import MaskedPieces
from rankwise.reduce.sites import Site, Sites
from rankwise.reduce.storage import StoredType
from rankwise.reduce.verdict import verdict, warnings_of


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All that a reduction measured."""

    keep: float | None
    """Share that was kept."""
    parameters_before: int
    """Parameters of the original."""
    texts: tuple[MaskedPieces, MaskedPieces | None, MaskedPieces] | None
    """That teach, that choose, that measure."""
    original: ModelReading | None
    """Losses of the original."""
    cost: Cost | None
    """What the cut cost."""
    healing: HealingReport | None
    """What training the factors did."""
    generation: GenerationReport | None
    """Speed and memory of generation."""
    recall: tuple[RecallReport, ...]
    """Copying from the context."""
    frontier: tuple[FrontierPoint, ...]
    """Costs of all methods at several shares."""
    stored: StoredType | None
    """The type of written factors; None where nothing is written."""
    seconds: float
    """Time it all took."""


def summary(
    running: RunningModel, found: Sites, options: ReductionOptions, installed: Installed, measured: Measured
) -> Reduction:
    """The report on the model ``running``, in which the cuts are ``installed``."""
    losses = None if measured.original is None else measured.original.losses
    original_loss = None if losses is None else float(losses.mean())
    cost = None if measured.cost is None else CostReport(**asdict(measured.cost))
    parameters = Change(before=measured.parameters_before, after=parameter_count(running.model))
    cache = _cache(installed)
    records = measured.texts is not None and measured.texts[2].real is not None
    sentence, judged = verdict(
        objective=running.objective,
        cost=cost,
        original_loss=original_loss,
        cache=cache,
        parameters=parameters,
        recall=measured.recall,
        texts=None if measured.texts is None else len(measured.texts[2]),
    )
    layers = tuple(
        LayerRanks(name=cut.site.name, kind=cut.site.kind, ranks=cut_ranks(cut), size=_size(cut.site))
        for cut in installed.cuts
    )
    return Reduction(
        model=running.name,
        verdict=sentence,
        judgement=judged,
        architecture=found.architecture,
        objective=running.objective,
        method=options.method,
        allocation="uniform" if options.rank is not None or options.form == "mla" else options.allocation,
        form=options.form,
        keep=measured.keep,
        rank=options.rank,
        tolerance=options.tolerance,
        parameters=parameters,
        attention_parameters=Change(
            before=sum(parameter_count(module) for module in installed.originals.values()),
            after=parameter_count(nn.ModuleList(installed.modules.values())),
        ),
        cache_numbers=cache,
        kept_coordinates=Change(
            before=sum(layer.size for layer in layers), after=sum(sum(layer.ranks) for layer in layers)
        ),
        head_rank=found.sites[0].q.index.shape[1],
        layers=layers,
        not_tested=_not_tested(running, measured),
        warnings=warnings_of(
            objective=running.objective,
            cost=cost,
            original_loss=original_loss,
            vocabulary=running.vocabulary,
            records=records,
        ),
        untouched=tuple(Untouched(what=what, reason=reason) for what, reason in found.untouched),
        sanity=None if measured.texts is None else _sanity(running, measured.texts[2], original_loss),
        original_loss=original_loss,
        cost=cost,
        texts=None if measured.texts is None else _texts_report(*measured.texts),
        generation=measured.generation,
        recall=measured.recall,
        frontier=measured.frontier,
        healing=measured.healing,
        stored=None if measured.stored is None else _stored(running, measured.stored, options.form),
        seconds=measured.seconds,
    )


def _sanity(running: RunningModel, pieces: MaskedPieces, loss: float | None) -> RunSanity:
    return sanity_of_loss(running, pieces.tokens, pieces.mask, pieces.used, loss, len(pieces))


_LOADING = {
    "latents": """import rankwise

model = rankwise.load_reduced("THIS DIRECTORY")  # an ordinary model of transformers; its cache holds latents""",
    "mla": """import transformers

model = transformers.AutoModelForCausalLM.from_pretrained("THIS DIRECTORY")  # DeepSeek-V2; needs no rankwise""",
}


def parameter_count(module: nn.Module) -> int:
    """Numbers a module learns; shared ones once."""
    return sum(value.numel() for value in module.parameters())


def readme_of(report: Reduction) -> str:
    """What a person who finds the directory must know."""
    tests = "\n".join(f"- {line}" for line in report.not_tested)
    code = _LOADING[report.form]
    return f"""# {report.model}, reduced by rankwise

{report.verdict}

```python
{code}
```

- Method: {report.method}, {report.allocation} ranks.
- `plan.json` has the ranks of every layer, `reduction.json` all that was measured.
- Numbers: {report.stored}.
- `hashes.json` has the SHA-256 of every file; `load_reduced` checks them.

Not tested:

{tests}

The licence of the original model applies to this one.
"""


def _cache(installed: Installed) -> Change:
    """Numbers per token in the caches of the layers that were cut."""
    cached = [cut for cut in installed.cuts if cut.site.cached]
    after = sum(
        cut.site.cached_numbers if cut.site.kind == "heads" else sum(cut_ranks(cut)) + cut.site.shared_key
        for cut in cached
    )
    return Change(before=sum(cut.site.cached_numbers for cut in cached), after=after)


def _size(site: Site) -> int:
    if site.latent_size is not None:
        return site.latent_size
    return site.v.index.size + (site.k.index.size if site.kind == "joint" or site.cut_keys else 0)


def _texts_report(calibration: MaskedPieces, selection: MaskedPieces | None, evaluation: MaskedPieces) -> TextsReport:
    return TextsReport(
        calibration_source=calibration.source,
        evaluation_source=evaluation.source,
        tokens=int(evaluation.tokens.shape[1]),
        calibration=len(calibration),
        selection=0 if selection is None else len(selection),
        evaluation=len(evaluation),
        records=evaluation.real is not None,
    )


def _not_tested(running: RunningModel, measured: Measured) -> tuple[str, ...]:
    found = []
    if measured.texts is None:
        found.append("anything: no texts were given")
    else:
        found.append(
            f"texts other than {', '.join(measured.texts[2].source)}, other languages, answers to instructions"
        )
    if running.objective == "causal":
        if measured.generation is None:
            found.append("speed and memory of generation")
        else:
            found.append(f"contexts beyond {measured.generation.context} tokens, batches, half precision, GPUs")
        if not measured.recall:
            found.append("retrieval from the context")
    if running.objective == "embedding":
        found.append("retrieval against a collection of documents: neighbours are among the texts that measured")
    return tuple(found)


def _stored(running: RunningModel, kind: StoredType, form: Form) -> str:
    if form == "mla":
        kept = "all weights, dequantised," if running.gguf else "attention"
        return f"{kept} in {kind}, as a checkpoint of DeepSeek-V2"
    if running.gguf:
        return f"untouched weights as quantised in the GGUF file, factors in {kind}"
    return f"untouched weights in their stored type, factors in {kind}"
