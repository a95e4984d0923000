"""``quantize --config``: a file says how to quantize, and options say otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.goal import Goal
from tests.cli.conftest import SHAPE, Run


@pytest.fixture
def options(checkpoint: Path, samples: Path) -> list[object]:
    return [checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--no-latency"]


def _files(bundle: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bundle.iterdir()}


def test_a_bundle_holds_the_configuration_that_makes_it_again(
    run: Run, options: list[object], int8_engine: None, tmp_path: Path
) -> None:
    asked = ["--calib", 7, "--method", "percentile:99.9", "--exclude", "Pooling", "--dtype", "int8", "--preset", "fast"]
    assert run("quantize", *options, *asked, "--out", "first").exit_code == 0
    stored = QuantizationConfig.read(tmp_path / "first" / "config.toml")
    assert stored == QuantizationConfig(7, "percentile:99.9", ("Pooling",), "int8", "fast")
    result = run("quantize", *options, "--config", "first/config.toml", "--out", "second")
    assert result.exit_code == 0, result.stderr
    assert _files(tmp_path / "first") == _files(tmp_path / "second")


def test_options_take_precedence(run: Run, options: list[object], int8_engine: None, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'num_samples = 5\nmethod = "minmax"\ndtype = "int8"\n[algorithms]\nbias = true\nnum_samples = 3\n'
    )
    result = run("quantize", *options, "--config", "own.toml", "--out", "as-said")
    assert result.exit_code == 0, result.stderr
    assert QuantizationConfig.read(tmp_path / "as-said" / "config.toml") == QuantizationConfig.read(
        tmp_path / "own.toml"
    )
    result = run("quantize", *options, "--config", "own.toml", "--out", "b", "--calib", 6, "--preset", "none")
    assert result.exit_code == 0, result.stderr
    stored = QuantizationConfig.read(tmp_path / "b" / "config.toml")
    assert stored == QuantizationConfig(6, "minmax", dtype="int8", preset="none")


def test_a_goal_in_the_file_is_asked_for(run: Run, options: list[object], tmp_path: Path) -> None:
    QuantizationConfig(goal=Goal(max_drop=0.3)).write(tmp_path / "goal.toml")
    result = run("quantize", *options[:-1], "--config", "goal.toml")
    assert result.exit_code == 2
    assert "--eval-data" in result.stderr


@pytest.mark.parametrize("text", ["calib = 3", 'preset = "most"', "num_samples = 100000", "["])
def test_a_faulty_file_is_refused(run: Run, options: list[object], tmp_path: Path, text: str) -> None:
    (tmp_path / "own.toml").write_text(text)
    result = run("quantize", *options, "--config", "own.toml")
    assert result.exit_code == 2, result.output
    assert "own.toml" in result.stderr or "100000" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["own.toml"]
