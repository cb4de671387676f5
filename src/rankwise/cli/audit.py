"""``rankwise audit MODEL``: how much rank a trained model's heads have, from its weights alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rankwise.cli.output import print_json
from rankwise.errors import InvalidInputError

if TYPE_CHECKING:
    from rankwise.audit.layouts import LayerRef, TensorNames


def audit(
    model: tyro.conf.Positional[str],
    *,
    config: Path | None = None,
    q: str | None = None,
    k: str | None = None,
    v: str | None = None,
    o: str | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    transposed: bool = False,
    download: bool = False,
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    json: bool = False,
) -> None:
    """The ranks of every head's QK and OV forms beside those of random weights; no code of the model is run.

    Example: rankwise audit ./all-MiniLM-L6-v2 -o audit.json

    Any other layout by its tensors' names: rankwise audit weights.safetensors --q 'blocks.{layer}.wq'
    --k 'blocks.{layer}.wk' --v 'blocks.{layer}.wv' --o 'blocks.{layer}.wo' --heads 12

    Args:
        model: A folder with config.json and safetensors, a .safetensors file, or a .gguf file (extra gguf).
        config: The config.json of a single safetensors file.
        q: Name of the query matrix, {layer} for the layer's number; then k and heads are needed too. A name given for
            q and k alike means one matrix with q, k and v in turn.
        k: Name of the key matrix.
        v: Name of the value matrix.
        o: Name of the output matrix.
        heads: Number of query heads (with q).
        kv_heads: Number of key and value heads, if fewer (with q).
        head_dim: Rank of a head, if the matrices do not tell (with q).
        transposed: The named matrices are stored (in, out) (with q).
        download: Fetch MODEL from the Hugging Face hub if it is no path (JSON and safetensors only).
        output: Also write the report as JSON to this file, for advise and reduce.
        json: Print the report as one JSON object instead of tables.
    """
    names = _names(q, k, v, o, heads, kv_heads, head_dim, transposed)
    from rankwise.audit.layouts import attention_layers
    from rankwise.audit.source import open_model

    source = open_model(model, config=config, download=download)
    inventory = attention_layers(source, names)  # mistakes are told before torch is loaded
    from rankwise.audit.weights import audit_weights

    report = audit_weights(source, inventory, progress=_with_bar)
    if output is not None:
        try:
            report.write(output)
        except OSError as error:
            raise InvalidInputError(f"{output}: expected a file that can be written, got: {error.strerror}") from None
    if json:
        print_json(report.to_json())
        return
    from rankwise.cli.audit_table import print_report

    print_report(report)


def _names(
    q: str | None, k: str | None, v: str | None, o: str | None, heads: int | None, kv_heads: int | None,
    head_dim: int | None, transposed: bool,
) -> TensorNames | None:  # fmt: skip
    from rankwise.audit.layouts import TensorNames

    given = {"q": q, "k": k, "v": v, "o": o, "heads": heads, "kv-heads": kv_heads, "head-dim": head_dim}
    if transposed or any(value is not None for value in given.values()):
        missing = [f"--{name}" for name in ("q", "k", "heads") if given[name] is None]
        if q is None or k is None or heads is None:
            raise InvalidInputError(f"expected --q, --k and --heads together, got none of: {', '.join(missing)}")
        return TensorNames(
            q=q, k=k, v=v, o=o, heads=heads, kv_heads=kv_heads, rank=head_dim, transposed=transposed
        )  # fmt: skip
    return None


def _with_bar(layers: tuple[LayerRef, ...]) -> Iterator[LayerRef]:
    """The layers, with a bar on stderr where someone is watching."""
    from rich.console import Console
    from rich.progress import track

    errors = Console(stderr=True)
    yield from track(
        layers, description="Auditing layers", console=errors, transient=True, disable=not errors.is_terminal
    )
