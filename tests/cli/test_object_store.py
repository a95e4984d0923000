"""Addresses of object stores where commands take sample data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import SHAPE, Run
from tests.object_stores import SHARDS, packed, put, serving_s3, use_s3

pytestmark = pytest.mark.requires("object-store")

PREPARED = ("--input-shape", SHAPE, "--resize", "16", "--crop", "16")


@pytest.fixture(autouse=True)
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of shards, and the same at ``SHARDS``."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with serving_s3() as address:
        use_s3(address, monkeypatch, tmp_path)
        folder = packed(tmp_path)
        put(folder, SHARDS)
        yield folder


def test_results_are_those_of_the_local_folder(run: Run, checkpoint: Path, shards: Path) -> None:
    for data, out in ((shards, "local.json"), (SHARDS, "stored.json")):
        told = run("calibrate", checkpoint, *PREPARED, "--calib-data", data, "--calib", "12", "--out", out)
        assert told.exit_code == 0, told.stderr
    assert Path("local.json").read_bytes() == Path("stored.json").read_bytes()
    evaluating = ["evaluate", checkpoint, *PREPARED, "--json", "--data"]
    one, other = (run(*evaluating, data) for data in (shards, SHARDS))
    assert one.exit_code == 0 and json.loads(one.stdout) == json.loads(other.stdout)


@pytest.mark.usefixtures("int8_engine")
def test_a_network_is_quantized(run: Run, checkpoint: Path) -> None:
    told = run("quantize", checkpoint, *PREPARED, "--calib-data", SHARDS, "--calib", "8", "--out", "int8", "--preset",
               "none", "--no-latency")  # fmt: skip
    assert told.exit_code == 0, told.stderr
    assert json.loads(Path("int8/calibration.json").read_text())["data_name"] == "shards"


def test_failures_are_one_line_with_their_exit_code(
    run: Run, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrating = ["calibrate", checkpoint, *PREPARED, "--calib", "12", "--out", "table.json", "--calib-data"]
    absent = run(*calibrating, "s3://nowhere/shards")
    assert absent.exit_code == 2 and "no folder of shards at s3://nowhere/shards" in absent.stderr
    with serving_s3() as address:
        use_s3(address, monkeypatch, tmp_path)
    down = run(*calibrating, SHARDS)
    assert down.exit_code == 1 and "cannot be read: Could not connect" in down.stderr
    assert "Traceback" not in absent.stderr + down.stderr and not Path("table.json").exists()
