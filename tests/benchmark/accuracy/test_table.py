"""The file of a table of accuracy: what is kept, and what is measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.benchmark.accuracy import table
from quantkit.benchmark.accuracy.suite import AccuracySuite, JudgedNetwork, JudgedOn
from quantkit.benchmark.accuracy.table import TABLE, NetworkAccuracy, measure_accuracy, read_accuracy
from quantkit.errors import ClusterError, DataError, UserError

SUITE = AccuracySuite(
    "suite",
    (JudgedNetwork("digits_resnet20_v1", "digits"),),
    {"digits": JudgedOn("digits:test", "digits:train", (4,))},
    methods=("minmax",),
    images=8,
)


def measure(folder: Path, suite: AccuracySuite = SUITE, **options: bool) -> tuple[list[NetworkAccuracy], list[str]]:
    told: list[str] = []
    return measure_accuracy(suite, folder, "command", told.append, **options), told


def test_a_network_is_measured_once(tmp_path: Path, int8_engine: None) -> None:
    folder = tmp_path / "out"
    (first,), told = measure(folder)
    assert [row["form"] for row in first.rows] == ["FP32 unfused", "FP32 fused", "quantkit minmax"] and not told
    written = json.loads((folder / TABLE).read_text())
    assert (written["suite"], written["command"]) == ("suite", "command")
    (network,) = written["networks"]
    assert network["rows"] == list(first.rows) and network["measured"]
    assert network["host"]["cpu"] and network["revision"]["commit"]
    (again,), told = measure(folder)
    assert again == first and told == ["digits_resnet20_v1: measured before"]
    (forced,), told = measure(folder, force=True)
    assert forced.key == first.key and not told and (folder / TABLE).is_file()


def test_what_differs_is_measured_again(tmp_path: Path, int8_engine: None) -> None:
    (first,), _ = measure(tmp_path)
    (other,), told = measure(tmp_path, replace(SUITE, images=16))
    assert other.rows[0]["images"] == 16 and other.key != first.key and not told


def test_networks_that_fail_cost_no_other_and_are_not_kept(tmp_path: Path, int8_engine: None) -> None:
    broken = JudgedNetwork("no-such-network", "digits")
    (failed, found), told = measure(tmp_path, replace(SUITE, network=(broken, *SUITE.network)))
    assert failed.failure is not None and "no-such-network" in failed.failure and found.rows
    assert not told
    assert [each["network"] for each in json.loads((tmp_path / TABLE).read_text())["networks"]] == [found.network]


def test_a_part_keeps_the_other_networks(tmp_path: Path, int8_engine: None) -> None:
    two = replace(SUITE, network=(*SUITE.network, JudgedNetwork("digits_resnet20_v2", "digits")))
    measure(tmp_path, two)
    measure(tmp_path, two.part(["digits_resnet20_v2"]), force=True)
    assert len(read_accuracy(tmp_path / TABLE, "suite")) == 2


def test_a_network_that_fails_later_keeps_its_rows(
    tmp_path: Path, int8_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,), _ = measure(tmp_path)

    def unreadable(*_: object) -> None:
        raise DataError("a disk is missing")

    monkeypatch.setattr(table, "opened", unreadable)
    (later,), _ = measure(tmp_path)
    assert later.failure == "a disk is missing"
    assert read_accuracy(tmp_path / TABLE, "suite") == (first,)


def test_forms_that_failed_are_measured_again(tmp_path: Path, int8_engine: None) -> None:
    (first,), _ = measure(tmp_path)
    content = json.loads((tmp_path / TABLE).read_text())
    content["networks"][0]["rows"][2]["failure"] = "no memory"
    (tmp_path / TABLE).write_text(json.dumps(content))
    (again,), told = measure(tmp_path)
    assert again.rows == first.rows and not told


def test_a_lost_cluster_ends_the_run(tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise ClusterError("it is gone")

    monkeypatch.setattr(table, "opened", lost)
    with pytest.raises(ClusterError, match="it is gone"):
        measure(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"suite": "other", "networks": []}', "is not a table of suite"),
        ('{"suite": "suite", "networks": [{"rows": 1}]}', "is damaged: networks.0.network"),
        ('{"suite": "suite"}', "is damaged: networks: "),
        ('{"suite": "suite", "networks": [{"network": "a", "rows": [{"form": 1}]}]}', "is damaged: networks.0.network"),
        ('{"suite": "suite"', "cannot read"),
        ("[]", "is not a table of suite"),
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / TABLE).write_text(content)
    with pytest.raises(UserError) as error:
        measure(tmp_path)
    assert problem in str(error.value) and "--force" in str(error.value)
    assert (tmp_path / TABLE).read_text() == content


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.png").touch()
    with pytest.raises(UserError, match="choose another folder with --out"):
        measure(tmp_path)
