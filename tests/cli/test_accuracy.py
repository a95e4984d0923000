"""``quantkit benchmark`` of a suite of accuracy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SUITE = """
methods = ["minmax"]
images = 24

[data.digits]
test = "digits:test"
calibration = "digits:train"
calibration_samples = [4]

[[network]]
model = "digits_resnet20_v1"
data = "digits"
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)
    return path


def test_a_table_is_printed_and_written(run: Run, suite: Path, int8_engine: None) -> None:
    shown = run("benchmark", suite)
    assert shown.exit_code == 0, shown.stderr
    assert "digits_resnet20_v1, 24 images" in shown.stdout and "\nminmax " in shown.stdout
    assert "table: mine-benchmark/accuracy.json" in shown.stdout
    again = run("benchmark", suite, "--json", "--networks", "digits_resnet20_v1")
    assert "digits_resnet20_v1: measured before" in again.stderr
    (network,) = json.loads(again.stdout)["networks"]
    assert network["rows"] == json.loads(Path("mine-benchmark/accuracy.json").read_text())["networks"][0]["rows"]


@pytest.mark.long
@pytest.mark.requires("cluster")
def test_a_cluster_gives_the_same_table(run: Run, suite: Path, int8_engine: None) -> None:
    assert run("benchmark", suite, "--out", "one").exit_code == 0
    on_two = run("benchmark", suite, "--out", "two", "--cluster", "local:2", "--shard-size", "8")
    assert on_two.exit_code == 0 and "cluster: 2 workers on 1 host" in on_two.stderr, on_two.stderr
    one, two = (json.loads(Path(name, "accuracy.json").read_text())["networks"][0] for name in ("one", "two"))
    assert one["rows"] == two["rows"]


def test_what_fails_ends_with_1(run: Run, suite: Path, int8_engine: None) -> None:
    suite.write_text(SUITE + '\n[[network]]\nmodel = "nothing"\ndata = "digits"\n')
    ended = run("benchmark", suite)
    assert ended.exit_code == 1 and "Warning: nothing was not measured: " in ended.stderr
    assert "\nminmax " in ended.stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--batch", "1"], "measures accuracy, not speed; leave out --batch"),
        (["--hosts", "cluster.json"], "measures accuracy, not speed; leave out --hosts"),
        (["--weights", "random"], "measures accuracy, not speed; leave out --weights"),
        (["--networks", "other"], "mine has no network 'other'; there are digits_resnet20_v1"),
        (["--shard-size", "8"], "--shard-size is about clusters; give a --cluster"),
    ],
)
def test_options_without_effect_are_refused(run: Run, suite: Path, options: list[str], problem: str) -> None:
    ended = run("benchmark", suite, *options)
    assert ended.exit_code == 2 and problem in ended.stderr, ended.stderr


def test_speed_is_not_measured_on_a_clusters_workers(run: Run) -> None:
    ended = run("benchmark", "smoke", "--cluster", "local:2")
    assert (
        ended.exit_code == 2 and "speed is measured on hosts that do nothing else; leave out --cluster" in ended.stderr
    )
