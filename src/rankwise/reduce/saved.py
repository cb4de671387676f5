"""A reduced model on disk: written in one piece, checked when read, loaded as an ordinary model of ``transformers``.

A directory holds ``config.json`` and the tokenizer, the untouched weights in their stored type
(``model.safetensors``, or ``base.gguf`` with its quantised blocks as they were), the new factors
(``factors.safetensors``), ``plan.json``, ``README.md``, the measurement (``reduction.json``) and last
``hashes.json``. It gets its name when it is complete; a directory without ``hashes.json`` is half-written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rankwise.errors import InvalidInputError, StorageError
from rankwise.models import Objective, RunningModel, TensorNames
from rankwise.reduce.cutting import Cut, Installed, cut_ranks, empty_cut, modules_of, new_tensors
from rankwise.reduce.gguf_copy import copy_without
from rankwise.reduce.latent_modules import LatentPlan
from rankwise.reduce.linear_modules import replaced
from rankwise.reduce.mla_saved import stock_attention, stock_config
from rankwise.reduce.options import Form
from rankwise.reduce.sites import attention_sites
from rankwise.reduce.storage import KEYS_VALUES, StoredType, read_factors, write_factors
from rankwise.spec import read_document, read_json_object, to_document, write_document
from rankwise.whole_file import whole_folder

FORMAT = "rankwise-plan/1"
PLAN, HASHES, FACTORS, WEIGHTS, BASE = (
    "plan.json",
    "hashes.json",
    "factors.safetensors",
    "model.safetensors",
    "base.gguf",
)
_MADE_BY = "rankwise reduce MODEL --keep SHARE --out DIR"
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}
_BESIDE = (".json", ".txt", ".model", ".jinja")


@dataclass(frozen=True)
class PlannedLayer:
    """One block of a reduced model: the ranks of its latent, or of its key heads' keys and values."""

    name: str
    kind: Literal["joint", "mla", "heads"]
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class SavedPlan:
    """What ``load_reduced`` must know to build the model before it reads weights."""

    objective: Literal["causal", "masked", "embedding"]
    factor_dtype: StoredType
    layers: tuple[PlannedLayer, ...]
    form: Literal["latents", "mla"] = "latents"
    names: TensorNames | None = None
    """Of the projections, where the layout was placed by hand."""


def storage_of(running: RunningModel, form: Form) -> StoredType:
    """How factors are stored: in the type of most of the model's numbers; in blocks beside those of a GGUF file.

    Of the form ``mla``: in float32, since its norm is made harmless by very small numbers.
    """
    if form == "mla":
        return "float32"
    if running.gguf:
        return "Q8_0"
    counts: Counter[str] = Counter()
    for info in running.source.tensors.values():
        counts[info.dtype] += torch.Size(info.shape).numel()
    found = _DTYPES.get(counts.most_common(1)[0][0], torch.bfloat16)
    name: Any = str(torch.float32 if found == torch.float64 else found).removeprefix("torch.")
    return name


def save_reduced(
    directory: Path,
    running: RunningModel,
    installed: Installed,
    *,
    form: Form,
    readme: str,
    reduction: Mapping[str, Any],
) -> None:
    """Write ``running``, in which cuts are ``installed``, as the new directory ``directory``."""
    require_new(directory)
    storage = storage_of(running, form)
    try:
        with whole_folder(directory) as draft:
            _copy_beside(running, draft)
            if form == "mla":
                stock_config(running.model, installed).save_pretrained(draft)
                whole = _untouched(running, installed.modules, storage) | stock_attention(installed)
                save_file(whole, draft / WEIGHTS, {"format": "pt"})
            else:
                write_factors(draft / FACTORS, new_tensors(installed.modules), storage)
                _save_untouched(draft, running, installed, storage)
            plan = SavedPlan(
                running.objective,
                storage,
                tuple(PlannedLayer(cut.site.name, cut.site.kind, cut_ranks(cut)) for cut in installed.cuts),
                form,
                running.names,
            )
            write_document(to_document(FORMAT, plan), draft / PLAN)
            write_document(dict(reduction), draft / "reduction.json")
            (draft / "README.md").write_text(readme + _sizes(draft, running), encoding="utf-8")
            files = (file for file in sorted(draft.rglob("*")) if file.is_file())
            hashes = {file.relative_to(draft).as_posix(): _sha256(file) for file in files}
            write_document(hashes, draft / HASHES)
    except OSError as error:
        raise StorageError(f"{directory}: cannot be written: {error.strerror}; choose another place") from None


def _save_untouched(draft: Path, running: RunningModel, installed: Installed, storage: StoredType) -> None:
    if running.gguf:
        copy_without(running.gguf, draft / BASE, KEYS_VALUES)
    else:
        save_file(_untouched(running, installed.modules, storage), draft / WEIGHTS, {"format": "pt"})


def _sizes(draft: Path, running: RunningModel) -> str:
    here = [file for name in (WEIGHTS, BASE, FACTORS) if (file := draft / name).is_file()]
    if running.path is None:
        return f"\nWeights: {_megabytes(here)}.\n"
    original = [running.path] if running.path.is_file() else running.path.glob("*.safetensors")
    return f"\nWeights: {_megabytes(here)}; of the original: {_megabytes(original)}.\n"


def _megabytes(files: Iterable[Path]) -> str:
    return f"{sum(file.stat().st_size for file in files) / 1e6:.1f} MB"


def require_new(directory: Path) -> None:
    """Refuse a place that is taken."""
    if directory.exists():
        raise InvalidInputError(f"--out: expected a new directory, got {directory}, which exists")


def load_reduced(directory: Path | str, *, dtype: torch.dtype = torch.float32) -> nn.Module:
    """The model that ``rankwise reduce --out`` wrote: an ordinary model of ``transformers``, in eval mode.

    Its cache of generation holds latents. Nothing in the directory is executed, and every file is checked against
    the hash it was written with.
    """
    folder = Path(directory)
    _require_whole(folder)
    plan = read_document(SavedPlan, folder / PLAN, format=FORMAT, made_by=_MADE_BY)
    if plan.form == "mla":
        import transformers

        return transformers.DeepseekV2ForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()
    model = _base(folder, plan.objective)
    use_fast_attention(model)
    running = RunningModel(folder, model, None, plan.objective, names=plan.names)
    found = {site.name: site for site in attention_sites(running).sites}
    unknown = [layer.name for layer in plan.layers if layer.name not in found]
    if unknown:
        raise InvalidInputError(f"{folder / PLAN}: {unknown[0]}: expected one of {', '.join(found)}")
    cuts = [empty_cut(model, found[layer.name], layer.ranks) for layer in plan.layers]
    modules = modules_of(model, cuts)
    replaced(model, modules)
    factors = new_tensors(modules)
    _fill(factors, read_factors(folder / FACTORS, factors, plan.factor_dtype), folder / FACTORS)
    if (folder / WEIGHTS).is_file():
        _fill(_own_tensors(model, modules), load_file(folder / WEIGHTS), folder / WEIGHTS)
    return ready_to_use(model, cuts, dtype)


def ready_to_use(model: nn.Module, cuts: Sequence[Cut], dtype: torch.dtype) -> nn.Module:
    """``model``, whose modules are those of ``cuts``, with a cache of latents, in eval mode and in type ``dtype``.

    Buffers stay: rotary frequencies rounded to 16 bits would be other positions.
    """
    latents = [cut.site for cut in cuts if isinstance(cut, LatentPlan)]
    if latents:
        from rankwise.reduce.latent_cache import use_latent_cache

        use_latent_cache(model, latents)
    for value in model.parameters():
        value.data = value.data.to(dtype)
    return model.eval()


def use_fast_attention(model: Any) -> None:
    """Attention without stored matrices, where the model has it and caps no scores."""
    if getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is None:
        try:
            model.set_attn_implementation("sdpa")
        except (ValueError, NotImplementedError):
            model.set_attn_implementation("eager")


def _base(folder: Path, objective: Objective) -> Any:
    import transformers

    auto = {
        "causal": transformers.AutoModelForCausalLM,
        "masked": transformers.AutoModelForMaskedLM,
        "embedding": transformers.AutoModel,
    }[objective]
    if (folder / BASE).is_file():
        from rankwise.models import quiet

        with quiet():  # it warns of keys and values that are missing on purpose
            return auto.from_pretrained(folder, gguf_file=BASE, dtype=torch.float32, local_files_only=True)
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return auto.from_config(config, dtype=torch.float32)


def _fill(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], file: Path) -> None:
    missing = sorted(wanted.keys() ^ found.keys())
    if missing:
        raise InvalidInputError(f"{file}: {missing[0]}: expected the tensors that {PLAN} describes, got others")
    with torch.no_grad():
        for name, value in wanted.items():
            read = found[name]
            if read.shape != value.shape:
                raise InvalidInputError(f"{file}: {name}: expected shape {list(value.shape)}, got {list(read.shape)}")
            value.copy_(read)


def _own_tensors(model: nn.Module, modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Every stored tensor of ``model`` that no new module holds; tied ones once."""
    new = tuple(f"{path}." for path in modules)
    kept: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in model.state_dict(keep_vars=True).items():
        if not name.startswith(new) and id(value) not in seen:
            seen.add(id(value))
            kept[name] = value
    return kept


def _untouched(running: RunningModel, modules: Mapping[str, nn.Module], storage: StoredType) -> dict[str, Tensor]:
    dtype: torch.dtype = getattr(torch, storage)
    stored = {name: info.dtype for name, info in running.source.tensors.items()}

    def type_of(name: str) -> torch.dtype:
        known = next((kind for full, kind in stored.items() if full == name or name.endswith(f".{full}")), None)
        return dtype if known is None else _DTYPES.get(known, dtype)

    own = _own_tensors(running.model, modules)
    return {
        name: (value.detach().to(type_of(name)) if value.is_floating_point() else value.detach()).contiguous()
        for name, value in own.items()
    }


def _copy_beside(running: RunningModel, draft: Path) -> None:
    """Configuration and tokenizer."""
    if running.path is not None and running.path.is_dir():
        for file in sorted(running.path.iterdir()):
            if file.is_file() and file.suffix in _BESIDE and not file.name.endswith(".index.json"):
                shutil.copyfile(file, draft / file.name)
        if (running.path / "1_Pooling").is_dir():
            shutil.copytree(running.path / "1_Pooling", draft / "1_Pooling")
        return
    stated = running.config.to_dict()
    stated.pop("quantization_config", None)
    stated["architectures"] = [type(running.model).__name__]
    (draft / "config.json").write_text(json.dumps(stated, indent=2, default=str) + "\n", encoding="utf-8")
    if running.tokenizer is not None:
        running.tokenizer.save_pretrained(draft)


def _require_whole(folder: Path) -> None:
    if not (folder / HASHES).is_file():
        raise InvalidInputError(
            f"{folder}: expected a reduced model with {HASHES}, got none: it is another directory or half-written; "
            f"make it again: {_MADE_BY}"
        )
    for name, stated in read_json_object(folder / HASHES).items():
        file = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise InvalidInputError(f"{folder / HASHES}: expected names of files in this directory, got {name!r:.60}")
        if not file.is_file() or _sha256(file) != stated:
            raise InvalidInputError(f"{file}: expected the file that was written, got another or none; {_MADE_BY}")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
