from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("QUANTKIT_HOME", str(home))
    for path, size in (("workloads/inputs/a.npy", 2_000_000), ("weights/gluoncv/net.params", 500_000)):
        (home / path).parent.mkdir(parents=True)
        (home / path).write_bytes(bytes(size))
    return home


def test_kinds_are_listed_with_their_sizes(run: Run, home: Path) -> None:
    result = run("cache", "--json")
    assert result.exit_code == 0, result.stderr
    sizes = {each["kind"]: (each["entries"], each["bytes"]) for each in json.loads(result.stdout)["kinds"]}
    assert sizes == {
        "workloads": (1, 2_000_000), "weights": (1, 500_000), "builds": (0, 0), "engines": (0, 0), "shards": (0, 0),
        "searches": (0, 0),
    }  # fmt: skip
    printed = run("cache").stdout
    assert "2.0 MB" in printed
    assert f"{home}: 2.5 MB" in printed


def test_one_kind_is_removed_and_the_others_stay(run: Run, home: Path) -> None:
    result = run("cache", "--clean", "workloads", "--json")
    (told,) = [each for each in json.loads(result.stdout)["kinds"] if each["kind"] == "workloads"]
    assert (told["removed"], told["removed_bytes"], told["entries"]) == (1, 2_000_000, 0)
    assert not (home / "workloads/inputs/a.npy").exists()
    assert (home / "weights/gluoncv/net.params").exists()
    assert "0.5 MB" in run("cache", "--clean", "all").stdout
    assert not (home / "weights/gluoncv/net.params").exists()


def test_an_unknown_kind_is_refused(run: Run, home: Path) -> None:
    refused = run("cache", "--clean", "thesis")
    assert refused.exit_code == 2
    assert "workloads" in refused.stderr
    assert (home / "workloads/inputs/a.npy").exists()


def test_without_a_home_nothing_is_listed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "none"))
    assert all(each["entries"] == 0 for each in json.loads(run("cache", "--json").stdout)["kinds"])
    assert not (tmp_path / "none").exists()


def test_a_home_with_too_long_a_name_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / ("x" * 300)))
    refused = run("cache")
    assert refused.exit_code == 2
    assert refused.stderr.endswith("x: File name too long; set QUANTKIT_HOME to a folder that you may write to\n")
