"""Every example runs as a user would run it, at a small size, and does what it says."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def nanogpt():
    return load("nanogpt_swap")


def test_every_example_is_tested_and_listed():
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".toml", ".ipynb")}
    listed = (EXAMPLES / "README.md").read_text()
    assert names == {
        "nanogpt_swap.py", "generate.py", "small_models.py", "transformers_attention.py", "export_head_dim.py",
        "grid.toml", "audit_a_model.ipynb", "rank_against_heads.ipynb",
    }  # fmt: skip
    assert all(f"]({name})" in listed for name in names)


def test_the_swapped_gpt_gives_the_originals_logits_and_gradients(nanogpt):
    torch.manual_seed(0)
    original = nanogpt.GPT(24, 2, 16, lambda: nanogpt.TorchAttention(24, 3))
    swapped = nanogpt.swapped(original, 24, 3)
    assert sum(p.numel() for p in swapped.parameters()) == sum(p.numel() for p in original.parameters())
    ids = torch.randint(256, (4, 16))
    torch.testing.assert_close(swapped(ids), original(ids), rtol=1e-5, atol=1e-6)
    for model in (original, swapped):
        model(ids).square().mean().backward()
    torch.testing.assert_close(swapped.tokens.weight.grad, original.tokens.weight.grad, rtol=1e-4, atol=1e-7)


def test_the_gpt_trains_at_any_rank_on_a_given_file(nanogpt, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_bytes(b"to be or not to be " * 200)
    losses = nanogpt.main(data=text, ranks=(2, 8, 20), dim=16, heads=2, layers=1, context=16, batch=8, steps=80)
    assert set(losses) == {2, 8, 20}
    assert all(loss < 3.0 for loss in losses.values())  # ln 256 = 5.5 knows nothing
    printed = capsys.readouterr().out
    assert "= dim/heads" in printed
    counts = [int(line.split()[1].replace(",", "")) for line in printed.splitlines()[3:]]
    a_rank = 4 * 16 * 2 + 3 * 2  # weights and biases of q, k, v, o that one more coordinate of 2 heads adds
    assert [counts[1] - counts[0], counts[2] - counts[1]] == [6 * a_rank, 12 * a_rank]


def test_without_a_file_the_gpt_reads_the_standard_library(nanogpt):
    assert nanogpt.read_bytes(None).numel() == 2 << 20


def test_a_transformers_model_with_our_attention_says_what_eager_says():
    example = load("transformers_attention")
    for model in example.tiny_models().values():
        found = example.compare(model, tokens=24, new_tokens=6)
        assert found["differences"]["rankwise"] < 1e-5
        assert found["differences"]["rankwise-watching"] < 1e-5
        assert found["differences"]["rankwise-hardmax"] > 1e-3, "hardmax is another function"
        assert found["same_generation"]
        ranks = torch.tensor(found["hardmax_ranks"])
        assert ranks.shape == (2, 6)
        assert ((ranks > 1) & (ranks <= 24)).all()


def test_the_export_has_a_head_dim_of_its_own(tmp_path, capsys):
    example = load("export_head_dim")
    assert example.main(dim=12, heads=2, rank=8, layers=1, out=tmp_path / "model") < 1e-5
    assert "LlamaConfig: hidden_size=12 heads=2 head_dim=8" in capsys.readouterr().out
    assert {"config.json", "model.safetensors"} <= {path.name for path in (tmp_path / "model").iterdir()}


def test_an_example_run_as_a_script_names_what_cannot_be_exported():
    command = [sys.executable, str(EXAMPLES / "export_head_dim.py"), "--value-rank", "16"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "value_rank: expected rank=48" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_grid_reads_and_its_runs_train(tmp_path, capsys):
    from dataclasses import replace

    from rankwise.cli import main
    from rankwise.spec import SweepSpec, read_spec
    from rankwise.train.loop import train

    assert main(["sweep", str(EXAMPLES / "grid.toml"), "--dry-run", "--store", str(tmp_path / "runs")]) == 0
    assert "18 runs, 18 to do" in " ".join(capsys.readouterr().out.split())
    run = next(iter(read_spec(SweepSpec, EXAMPLES / "grid.toml").expand()))
    result = train(replace(run, optim=replace(run.optim, steps=2)))
    assert result.steps == 2


@pytest.mark.parametrize("latent", [None, 8])
def test_text_is_generated_with_a_cache_as_without(latent, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    text = tmp_path / "text.txt"
    text.write_bytes(b"def be or not to be " * 200)
    written = load("generate").main(
        data=text, dim=16, heads=2, rank=8, layers=2, kv_lora_rank=latent, context=16, steps=60, new_tokens=20
    )
    assert written.startswith("def ")
    assert len(written) == 24
    per_token = 2 * (2 * 2 * 8 if latent is None else 8 + 16) * 4  # layers, keys and values or latents, bytes
    assert f"keeps {per_token} bytes per token" in capsys.readouterr().out
