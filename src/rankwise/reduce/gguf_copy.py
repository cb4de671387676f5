"""A GGUF file without some of its tensors: blocks and metadata as they were, nothing dequantised."""

from __future__ import annotations

import re
from pathlib import Path

from rankwise.errors import MissingExtraError


def copy_without(source: Path, target: Path, dropped: re.Pattern[str]) -> None:
    """Write ``source`` to ``target`` without the tensors whose names match ``dropped``."""
    try:
        from gguf import GGUFReader, GGUFValueType, GGUFWriter
    except ImportError:
        raise MissingExtraError("gguf", "writing a GGUF file") from None
    reader = GGUFReader(source)
    writer = GGUFWriter(target, arch=reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, inner)
    for tensor in reader.tensors:
        if not dropped.fullmatch(tensor.name):
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
