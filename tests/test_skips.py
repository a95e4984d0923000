"""What is skipped is demanded, or is in the table, or fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import OBSTACLES, demanded
from tests.skips import read_table, unexpected

ROWS = [
    {"needs": "real-data"},
    {"needs": "int8", "engine": "mkl", "machine": "avx512, not intel"},
    {"needs": "half-pixels", "engine": "mkl"},
]


@pytest.mark.parametrize(
    ("engine", "machine", "found"),
    [
        ("mkl", {"avx512, not intel", "root"}, ["a whim"]),
        ("mkl", {"root"}, ["a whim", "int8"]),
        ("onednn", {"avx512, not intel"}, ["a whim", "half-pixels", "int8"]),
    ],
)
def test_rows_hold_for_their_engine_and_machine(engine: str, machine: set[str], found: list[str]) -> None:
    skipped = ["real-data", "int8", "a whim", "half-pixels", "int8"]
    assert unexpected(skipped, ROWS, engine, frozenset(machine)) == found


def test_the_table_names_what_there_is_and_why() -> None:
    assert all(row["needs"] in OBSTACLES and row["reason"] for row in read_table())


def test_a_misspelt_requirement_is_an_error() -> None:
    assert demanded("engine, real-data,") == {"engine", "real-data"}
    with pytest.raises(pytest.UsageError, match=r"names onnxrutime; known are engine, int8"):
        demanded("engine,onnxrutime")


@pytest.mark.parametrize(
    ("require", "skip", "code", "words"),
    [
        ("", "requires('kernel')", 0, "skipped for lack of kernel: 1"),
        ("engine", "requires('kernel')", 0, "skipped for lack of kernel: 1"),
        ("kernel", "requires('kernel')", 1, "QUANTKIT_REQUIRE names kernel, but"),
        ("engine", "pytest.skip('no mood')", 1, "so a failure: no mood"),
    ],
)
def test_a_run(tmp_path: Path, require: str, skip: str, code: int, words: str) -> None:
    test = tmp_path / "test_one.py"
    test.write_text(f"import pytest\nfrom tests.requirements import requires\ndef test_one():\n    {skip}\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(test)]
    environment = {name: value for name, value in os.environ.items() if name != "QUANTKIT_NUMA_KERNEL"}
    root = Path(__file__).parents[1]
    done = subprocess.run(
        command, cwd=root, env={**environment, "QUANTKIT_REQUIRE": require}, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout
    assert words in done.stdout
