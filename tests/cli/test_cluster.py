"""``--cluster`` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SHAPE, Run

pytestmark = pytest.mark.requires("cluster")


def test_results_are_those_without_a_cluster(run: Run, checkpoint: Path, samples: Path) -> None:
    options = [checkpoint, "--input-shape", SHAPE]
    on_two = ["--cluster", "local:2", "--shard-size", "5"]
    calibrating = ["calibrate", *options, "--calib-data", samples, "--calib", "20"]
    assert run(*calibrating, "--out", "one.json").exit_code == 0
    told = run(*calibrating, "--out", "two.json", *on_two)
    assert told.exit_code == 0
    assert "connecting to local:2 ...\ncluster: 2 workers on 1 host, " in told.stderr
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    evaluating = ["evaluate", *options, "--data", samples, "--json"]
    one, two = (run(*evaluating, *more) for more in ([], on_two))
    assert json.loads(one.stdout) == json.loads(two.stdout) and one.exit_code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--shard-size", "8"], "--shard-size is about clusters; give a --cluster"),
        (["--tls", "a", "b", "c"], "--tls is about clusters"),
        (["--dashboard"], "--dashboard is about clusters"),
        (["--cluster", "local:none"], "'local:none' names no number of workers"),
        (["--cluster", "nowhere"], "'nowhere' is no cluster; give local:N"),
        (["--cluster", "cluster.json"], "there is no scheduler file cluster.json"),
        (["--cluster", "tls://127.0.0.1:1", "--tls", "a", "b", "c"], "there is no file a; give the certificates"),
    ],
)
def test_requests_that_make_no_sense(run: Run, checkpoint: Path, samples: Path, options: list[str], told: str) -> None:
    result = run("evaluate", checkpoint, "--input-shape", SHAPE, "--data", samples, *options)
    assert result.exit_code == 2 and told in result.stderr


def test_detectors_are_judged_in_one_process(run: Run) -> None:
    result = run("evaluate", "digits_ssd", "--data", "scenes:test", "--cluster", "local:2")
    assert result.exit_code == 2 and "detection is judged in one process; leave --cluster out" in result.stderr
