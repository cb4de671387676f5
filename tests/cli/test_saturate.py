"""The command: exact keys, strict JSON, a sentence of meaning, exit code 2 for mistakes."""

import json
import subprocess
import sys

import pytest

from rankwise.cli import main


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["saturate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def test_causal(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "--length", "1024", "--mask", "causal")
    assert list(found) == ["barrier", "barrier_fraction", "variance", "saturation_dim", "status"]
    assert found["barrier"] == 512.5
    assert found["barrier_fraction"] == pytest.approx(512.5 / 1024)
    assert found["variance"] == pytest.approx(1025 / 12)
    assert found["saturation_dim"] == pytest.approx(80, abs=2)
    assert found["status"] == "quadrature"


def test_full_and_unit(capsys: pytest.CaptureFixture[str]) -> None:
    gaussian = answer(capsys, "--length", "1024")
    assert gaussian["barrier_fraction"] == pytest.approx(0.6323, abs=1e-4)
    assert gaussian["saturation_dim"] == pytest.approx(123, abs=2)
    unit = answer(capsys, "--length", "1024", "--keys", "unit")
    assert unit["saturation_dim"] == 3
    assert unit["barrier"] == gaussian["barrier"]


def test_a_window_has_no_closed_variance(capsys: pytest.CaptureFixture[str]) -> None:
    window = answer(capsys, "--length", "1024", "--mask", "causal", "--window", "128")
    assert window == answer(capsys, "--length", "1024", "--mask", "window", "--window", "128")
    assert window["variance"] is None
    wide = answer(capsys, "--length", "100", "--mask", "window", "--window", "100")
    assert wide["variance"] == pytest.approx(101 / 12)


def test_a_million_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("--mask", "full"), ("--mask", "causal"), ("--mask", "window", "--window", "4096")):
        found = answer(capsys, "--length", "1000000", *arguments)
        assert 190 < int(str(found["saturation_dim"])) < 700


def test_text_says_what_it_means_and_what_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["saturate", "--length", "1024", "--mask", "causal", "--deficit", "0.2"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "causal mask" in text
    assert "512.5" in text
    assert "80 % of the barrier" in text
    assert "random initialisation" in text
    assert "does not say" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--length", "0"), "length: expected at least 1"),
        (("--length", "8", "--mask", "casual"), "Expected one of ('full', 'causal', 'window')"),
        (("--length", "8", "--mask", "window"), "window: expected a whole number"),
        (("--length", "8", "--mask", "causal", "--window", "0"), "window: expected at least 1, got 0"),
        (("--length", "8", "--window", "4"), "window: expected None with mask 'full'"),
        (("--length", "8", "--deficit", "0"), "deficit: expected a number between 0 and 1"),
        (("--length", "8", "--deficit", "1.5"), "deficit: expected a number between 0 and 1"),
        (("--length", "8", "--keys", "units"), "Expected one of ('gaussian', 'unit')"),
    ],
)
def test_mistakes_exit_with_2(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["saturate", *arguments]) == 2
    seen = capsys.readouterr()
    assert message in " ".join(seen.err.split())
    assert "Traceback" not in seen.err
    assert not seen.out


def test_unreadable_and_missing_options_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["saturate", "--length", "many"]) == 2
    assert main(["saturate"]) == 2
    capsys.readouterr()


def test_neither_torch_nor_scipy_stats_is_imported() -> None:
    code = (
        "import sys; from rankwise.cli import main; code = main(['saturate', '--length', '1000000', '--json']);"
        "sys.exit(code or 'torch' in sys.modules or 'scipy.stats' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
