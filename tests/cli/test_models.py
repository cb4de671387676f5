import json
import subprocess
import sys

import pytest
from rich.console import Console

from rankwise.cli import main
from rankwise.shapes import published_shapes
from rankwise.theory.bounds import error_lower_bound
from rankwise.theory.harmonics import sign_energy

PLAIN = {"hidden_size": 960, "num_hidden_layers": 4, "num_attention_heads": 15, "num_key_value_heads": 5,
         "intermediate_size": 2560, "model_type": "tiny"}  # fmt: skip


@pytest.fixture
def config(tmp_path):
    def write(**keys):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(PLAIN | keys))
        return str(path)

    return write


def row(shown, name):
    table = shown.split("\n\n")[0]
    (line,) = [line for line in table.splitlines() if name in line]
    return line.split()


def answer(capsys, *arguments):
    assert main(["models", *arguments]) == 0
    return capsys.readouterr().out


def test_the_table_shows_every_published_model(capsys):
    shown = answer(capsys)
    for shape in published_shapes():
        assert shape.name in shown
    assert row(shown, "GPT-3") == ["2022", "GPT-3", "12,288", "128", "96", "1", "4.72M", ".177"]
    assert row(shown, "PaLM")[-4:] == ["48", "0.667", "121k", ".158"]
    assert row(shown, "DeepSeek-V3")[-5:] == ["192", "128", "3.43", "70.3k", ".129"]


def test_a_config_stands_in_the_table_marked(capsys, config):
    shown = answer(capsys, "--config", config())
    assert row(shown, "tiny") == [">", "tiny", "960", "64", "15", "1", "5.12k", ".128"]
    assert "Note" not in shown


def test_a_config_is_highlighted_on_a_terminal(capsys, config, monkeypatch):
    monkeypatch.setattr("rankwise.cli.models.console", lambda: Console(force_terminal=True, width=160, no_color=True))
    lines = answer(capsys, "--config", config()).splitlines()
    assert [line for line in lines if "\x1b[1;7m" in line] == [line for line in lines if "tiny" in line]


def test_a_narrow_terminal_loses_no_digit(capsys, config, monkeypatch):
    monkeypatch.setattr("rankwise.cli.models.console", lambda: Console(width=80))
    shown = answer(capsys, "--config", config())
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert row(shown, "GPT-3")[-3:] == ["1", "4.72M", ".177"]


def test_json_has_all_columns_and_marks_the_config(capsys, config):
    read = json.loads(answer(capsys, "--json", "--config", config()), parse_constant=pytest.fail)
    *published, yours = read["models"]
    assert [model["name"] for model in published] == [shape.name for shape in published_shapes()]
    assert not any(model["yours"] for model in published)
    assert yours == {
        "year": None, "name": "tiny", "dim": 960, "layers": 4, "mlp_ratio": 2560 / 960, "mlp_depth": 2, "rank": 64,
        "value_rank": 64, "heads": 15, "kv_heads": 5, "rank_share": 1.0, "parameters_per_layer": 4 * 64 * 15 * 960,
        "stored_parameters_per_layer": 2 * 64 * (15 + 5) * 960, "kv_cache_bytes_per_token": 2 * 4 * 2 * 5 * 64,
        "lower_bound": error_lower_bound(960, 64, 15).value,
        "lower_bound_any_values": error_lower_bound(960, 64, 15, values="any").value,
        "mlp_width": 2560, "latent": None, "note": None, "source": None, "yours": True,
    }  # fmt: skip


def test_latent_attention_is_explained(capsys, config):
    keys = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "q_lora_rank": None}
    path = config(**keys)
    assert "from 32 numbers and one rotary key of 8" in answer(capsys, "--config", path)
    yours = json.loads(answer(capsys, "--config", path, "--json"))["models"][-1]
    assert yours["latent"] == {"keyvalue": 32, "rope": 8, "query": None}
    assert yours["kv_cache_bytes_per_token"] == 2 * 4 * (32 + 8)


def test_what_a_row_cannot_show_is_noted(capsys, config):
    path = config(per_layer_config={"1": {"head_dim": 8}})
    shown = answer(capsys, "--config", path)
    assert row(shown, "tiny")[-2] == "-"
    assert "Note: some layers have another shape (per_layer_config)" in shown


def test_a_hostile_name_is_only_text(capsys, config):
    shown = answer(capsys, "--config", config(_name_or_path="[red]\x1b[2Jx[/red]"))
    assert "[red]\ufffd[2Jx[/red]" in shown
    assert "\x1b" not in shown


def test_nonsense_in_a_config_exits_2_and_names_the_key(capsys, config):
    assert main(["models", "--json", "--config", config(num_key_value_heads=4)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "config.json: num_key_value_heads: expected a divisor of the 15 heads, got 4" in captured.err


def test_the_standard_scaling_buys_the_linear_part(capsys):
    read = {model["name"]: model for model in json.loads(answer(capsys, "--json"))["models"]}
    for model in read.values():
        linear_part = (1 - sign_energy(model["dim"], 1)) / 2
        degree_3 = model["heads"] * (model["rank"] / model["dim"]) ** 3  # the share of degree 3 that heads can cover
        if model["rank_share"] >= 1 and degree_3 < 0.01:
            assert linear_part - 0.001 < model["lower_bound"] <= linear_part
        if model["rank_share"] < 1:
            assert model["lower_bound"] > linear_part + 0.05
        assert 0.1 < model["lower_bound_any_values"] < model["lower_bound"] < 0.5
    assert read["PaLM"]["lower_bound"] == pytest.approx(0.288, abs=5e-4)
    assert read["T5-11B"]["lower_bound"] == pytest.approx(0.168, abs=5e-4)


def test_rank_share_and_bound_are_explained(capsys):
    said = " ".join(answer(capsys).split())
    assert "H r/d above 1: all heads together have more query coordinates than a token has" in said
    assert "two isotropic points" in said
    assert "no verdict on a model" in said


def test_json_names_the_source_of_every_row(capsys):
    read = {model["name"]: model["source"] for model in json.loads(answer(capsys, "--json"))["models"]}
    assert all(read.values())
    assert read["GPT-3"] == "the slides of Amsel, Yehudai and Bruna (arXiv 2407.16153)"
    assert "2412.19437" in read["DeepSeek-V3"]


def test_the_bound_of_shared_latent_and_oversized_heads(capsys, config):
    def bound_of(**keys):
        return json.loads(answer(capsys, "--json", "--config", config(**keys)))["models"][-1]["lower_bound"]

    assert bound_of(num_key_value_heads=1) == bound_of(num_key_value_heads=15) == error_lower_bound(960, 64, 15).value
    latent = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 20, "q_lora_rank": None}
    assert bound_of(**latent) == error_lower_bound(960, 24, 15).value  # the rank of queries and keys, not of values
    assert bound_of(head_dim=2000) == 0
    assert bound_of(hidden_size=1, head_dim=8) is None


def test_torch_is_not_imported():
    code = (
        "import sys; from rankwise.cli import main; code = main(['models', '--json']);"
        "sys.exit(code or 'torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
