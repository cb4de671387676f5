"""The Python API: the same results as the commands, from models in memory, with results to look at."""

import builtins
import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import rankwise
from rankwise.api.result import MissingPandasError
from rankwise.cli import main
from rankwise.cli.output import printed
from rankwise.errors import InvalidInputError, ShapeError
from saved_models import saved, tiny_language_model, tokens


@pytest.fixture(scope="module")
def model():
    return tiny_language_model("llama")


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    return saved(model, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def keys():
    generator = np.random.default_rng(0)
    return (generator.normal(size=(600, 12)) * np.geomspace(1, 0.01, 12)).astype(np.float32)


def printed_json(capsys, *command):
    capsys.readouterr()
    assert main([*map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_import_is_light():
    script = (
        "import sys, rankwise; before = set(sys.modules)\n"
        "assert not {'torch', 'numpy', 'scipy', 'rich', 'tyro', 'transformers', 'matplotlib'} & before, before\n"
        "print(len([name for name in before if name.startswith('rankwise')]))\n"
        "assert callable(rankwise.audit) and callable(rankwise.need) and callable(rankwise.advise)\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 1


def test_rooms_stay_packages_and_can_be_called():
    import rankwise.audit.report as room

    assert rankwise.audit.report is room
    assert "download" in inspect.signature(rankwise.audit).parameters
    with pytest.raises(AttributeError, match="no attribute 'audits'"):
        rankwise.audits  # noqa: B018


def test_an_audit_in_memory_is_the_audit_of_the_saved_model(model, folder, capsys):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = rankwise.audit(model)
    assert rankwise.audit(folder).to_json() == printed_json(capsys, "audit", folder)
    assert found.report.layers == rankwise.audit(folder).report.layers
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_an_audit_on_tokens_leaves_the_model_as_it_was(model, folder, tmp_path, capsys):
    ids = tokens()
    model.train().set_attn_implementation("sdpa")
    try:
        found = rankwise.audit(model, tokens=ids)
        assert model.training
        assert model.config._attn_implementation == "sdpa"
    finally:
        model.eval().set_attn_implementation("eager")
    np.save(tmp_path / "ids.npy", ids.numpy())
    told = printed_json(capsys, "audit", folder, "--tokens", tmp_path / "ids.npy")
    assert found.to_json()["attention"]["layers"] == told["attention"]["layers"]


def test_any_module_with_names():
    torch.manual_seed(0)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.wq, self.wk = torch.nn.Linear(16, 16, bias=False), torch.nn.Linear(16, 16, bias=False)

    module = torch.nn.Module()
    module.blocks = torch.nn.ModuleList(Layer() for _ in range(3))
    names = {"q": "blocks.{layer}.wq.weight", "k": "blocks.{layer}.wk.weight", "heads": 4}
    found = rankwise.audit(module, names=names)
    assert len(found.rows) == 12
    assert {row["rank"] for row in found.rows} == {4}
    with pytest.raises(InvalidInputError, match="expected one of transformers"):
        rankwise.audit(module, names=names, tokens=tokens())
    with pytest.raises(InvalidInputError, match="got int"):
        rankwise.audit(3)


def test_the_need_of_arrays_is_the_need_of_their_file(keys, tmp_path, capsys):
    np.save(tmp_path / "keys.npy", keys)
    found = rankwise.need(keys, steps=4)
    told = printed_json(capsys, "need", tmp_path / "keys.npy", "--steps", "4")
    [measured], [of_file] = found.to_json()["measurements"], told["measurements"]
    assert {**measured, "name": ""} == {**of_file, "name": ""}
    assert rankwise.need(tmp_path / "keys.npy", steps=4).to_json() == told
    assert found.interval[0] <= found.rank <= found.interval[1]
    assert rankwise.need(torch.from_numpy(keys), steps=4).rank == found.rank
    with pytest.raises(ShapeError, match=r"vectors: expected \[rows, dim\], got \[3\]"):
        rankwise.need([1.0, 2.0, 3.0])


def test_the_need_of_a_model_in_memory(model):
    found = rankwise.need(model, tokens=tokens(texts=6, length=40), layers=(1,), steps=0)
    assert len(found.report.measurements) == 1
    assert found.report.source.model == type(model).__name__
    with pytest.raises(InvalidInputError, match="expected text or tokens"):
        rankwise.need(model)


def test_advice_from_an_audit_a_need_a_folder_or_numbers(model, folder, tmp_path, capsys):
    written = rankwise.audit(folder).write(tmp_path / "audit.json")
    told = printed_json(capsys, "advise", "--audit", written)
    assert rankwise.advise(written).to_json() == told
    found = rankwise.advise(rankwise.audit(folder)).to_json()
    assert found["next_training"] == told["next_training"]  # the file has six digits of the audit itself
    assert rankwise.advise(model).to_json()["need"] == told["need"]
    assert rankwise.advise(folder).to_json() == printed_json(capsys, "advise", "--config", folder)
    numbers = rankwise.advise(dim=768, heads=12, length=1024)
    assert numbers.to_json() == printed_json(capsys, "advise", "--dim", 768, "--heads", 12, "--length", 1024)


def results(model, keys):
    return [rankwise.audit(model), rankwise.need(keys, steps=0), rankwise.advise(dim=64, heads=4)]


def test_results_show_what_the_commands_print(model, folder, keys, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["audit", str(folder)]) == 0
    *shown, page = capsys.readouterr().out.rstrip().splitlines()
    assert repr(rankwise.audit(folder)).splitlines() == [line for line in shown if not line.startswith("What to do")]
    assert rankwise.audit(folder).page(tmp_path / "own.html").read_text() == (tmp_path / page).read_text()
    for result in results(model, keys):
        said = " ".join(repr(result).split())
        assert all(" ".join(line.split()) in said for line in result.headline.splitlines())


def test_html_tables_and_frames(model, keys, monkeypatch):
    for result in results(model, keys):
        html = result._repr_html_()
        assert html.count("<tr>") == 1 + len(result.summary)
        assert len({tuple(row) for row in result.rows}) == 1  # the same columns in every row
    imported = builtins.__import__

    def without_pandas(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(MissingPandasError, match="pip install pandas"):
        result.to_pandas()


def test_hostile_names_are_inert_in_html(keys, tmp_path):
    path = tmp_path / "<img src=x onerror=alert(1)>.npy"
    np.save(path, keys)
    html = rankwise.need(path, steps=0)._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html


def test_to_pandas(model):
    pandas = pytest.importorskip("pandas", reason="to_pandas is offered where pandas is installed")
    frame = rankwise.audit(model).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["head"][:2]) == [0, 1]


def test_figures_are_drawn(model, keys, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra report")
    for number, result in enumerate(results(model, keys)):
        result.figure().savefig(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 5_000


def test_text_is_plain_where_colours_are_forced(monkeypatch):
    plain = repr(rankwise.advise(dim=64, heads=4))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a notebook's kernel does
    assert repr(rankwise.advise(dim=64, heads=4)) == plain
    assert "\x1b" not in plain


def test_a_reduction_is_that_of_the_command_and_can_be_loaded(folder, tmp_path):
    np.save(tmp_path / "ids.npy", tokens(texts=8, length=24).numpy())
    asked = {"keep": 0.5, "tokens": tmp_path / "ids.npy", "length": 24, "context": 0, "recall": False}
    found = rankwise.reduce(folder, out=tmp_path / "smaller", **asked)
    command = ["reduce", folder, "--keep", 0.5, "--tokens", tmp_path / "ids.npy", "--length", 24, "--context", 0]
    shown = printed(lambda: main([*map(str, command), "--no-recall", "--json"]))
    told, own = json.loads(shown), dict(found.to_json())
    for name in ("verdict", "cost", "parameters", "layers"):
        assert own[name] == told[name]
    assert found.headline.endswith(found.report.verdict)
    assert " ".join(found.report.verdict.split()) in " ".join(repr(found).split())
    assert {row["what"] for row in found.summary}
    for loaded in (found.model, rankwise.load_reduced(tmp_path / "smaller")):
        assert sum(p.numel() for p in loaded.parameters()) == found.report.parameters.after
    assert found.report.verdict[:30] in found.page(tmp_path / "page.html").read_text()
    layers, whole = found.figure().axes
    assert [bar.get_height() for bar in layers.patches] == [
        100 * sum(layer.ranks) / layer.size for layer in found.report.layers
    ]
    assert len(whole.patches) == len(found.summary)
