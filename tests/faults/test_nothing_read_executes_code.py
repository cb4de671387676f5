"""Nothing read executes code: no file under ``src`` can unpickle, evaluate or start a shell. Checked on the syntax
tree, so that words in comments and strings do not count and renamed imports do."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "code", "codeop"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
# (module, function) however it was imported; None: any module or object
CALLS = {
    ("torch", "load"),
    ("torch.hub", "load"),
    ("torch.jit", "load"),
    ("torch.package", "PackageImporter"),
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
    ("os", "system"),
    ("os", "popen"),
    ("runpy", "run_path"),
    ("runpy", "run_module"),
    ("subprocess", "getoutput"),
    ("subprocess", "getstatusoutput"),
    ("importlib.util", "spec_from_file_location"),
}
KEYWORDS = {("shell", True), ("trust_remote_code", True), ("allow_pickle", True), ("weights_only", False)}


def offences(code):
    """What in ``code`` could execute what it reads, as (line, words)."""
    tree = ast.parse(code)
    names = {}  # what a name in this file stands for
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                if alias.name.split(".")[0] in MODULES:
                    found.append((node.lineno, f"import {alias.name}"))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module.split(".")[0] in MODULES:
                found.append((node.lineno, f"from {node.module} import"))
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in BUILTINS and node.id not in names:
            found.append((node.lineno, node.id))
        if isinstance(node, ast.Attribute | ast.Name):
            whole = _dotted(node, names)
            module, _, function = whole.rpartition(".")
            if (module, function) in CALLS:
                found.append((node.lineno, whole))
            if module == "builtins" and function in BUILTINS:
                found.append((node.lineno, whole))
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant):
            if (node.arg, node.value.value) in KEYWORDS:
                found.append((node.value.lineno, f"{node.arg}={node.value.value}"))
        elif isinstance(node, ast.keyword) and node.arg in {name for name, _ in KEYWORDS}:
            found.append((node.value.lineno, f"{node.arg}=, expected a constant"))
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if (
                    isinstance(key, ast.Constant)
                    and isinstance(value, ast.Constant)
                    and (key.value, value.value) in KEYWORDS
                ):
                    found.append((value.lineno, f"{key.value}: {value.value}"))
    return found


def _dotted(node, names):
    """``np.load`` as ``numpy.load``, with imported names written out; empty if it is not a chain of names."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_read_executes_code(path):
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from cloudpickle import loads",
        "import torch\ntorch.load('x')",
        "import torch as t\nt.load('x')",
        "from torch import load as innocent\ninnocent('x')",
        "import torch\nread = torch.load",
        "eval('1')",
        "run = exec",
        "import builtins\nbuiltins.eval('1')",
        "import yaml\nyaml.load('x')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import subprocess\nsubprocess.run('ls', shell=wanted)",
        "subprocess.run('ls', **{'shell': True})",
        "from transformers import AutoModel\nAutoModel.from_pretrained('x', trust_remote_code=True)",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import os\nos.system('ls')",
        "__import__('os')",
    ],
)
def test_the_search_finds_it(code):
    assert offences(code)


@pytest.mark.parametrize(
    "code",
    [
        "model.eval()",
        "class Module:\n    def eval(self): return self.train(False)",
        "import re\nre.compile('a')",
        "import torch\ntorch.compile(model)",
        "import numpy as np\nnp.load('x', allow_pickle=False)",
        "import subprocess\nsubprocess.run(['ls'], shell=False)",
        "'pickle' # torch.load",
        "from safetensors import safe_open",
        "import json\njson.load(file)",
    ],
)
def test_the_search_leaves_the_harmless_alone(code):
    assert offences(code) == []
