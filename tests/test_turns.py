"""Tests in turns."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from tests.turns import Turn, turn_of

NAMES = [f"tests/test_{number}.py::test_it[{number % 7}]" for number in range(600)]


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_runs_share_all_tests_out(number: int) -> None:
    shares = [[name for name in NAMES if Turn(own, number).has(name)] for own in range(1, number + 1)]
    assert sorted(name for share in shares for name in share) == sorted(NAMES)
    assert all(0.7 < len(share) * number / len(NAMES) < 1.3 for share in shares)


def test_turns_are_written_as_two_numbers() -> None:
    assert turn_of("2/3") == Turn(2, 3)
    for odd in ("", "2", "0/3", "4/3", "2/0", "-1/3", "a/b", "1/3 "):
        with pytest.raises(ArgumentTypeError, match="there is no turn"):
            turn_of(odd)


def test_long_tests_and_files_are_run_in_turns(tmp_path: Path) -> None:
    hooks = "pytest_addoption, pytest_collection_modifyitems, pytest_sessionfinish"
    (tmp_path / "conftest.py").write_text(f"from tests.conftest import {hooks}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long\n")
    for number in range(20):
        text = "import pytest\n@pytest.mark.long\ndef test_long(): pass\ndef test_short(): pass\n"
        (tmp_path / f"test_{number}.py").write_text(text)

    def run(*options: str) -> set[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options]
        kept = {**os.environ, "QUANTKIT_REQUIRE": "", "PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return {line.split()[0] for line in done.stdout.splitlines() if " PASSED" in line}

    everything = run()
    assert len(everything) == 40
    shares = [run("--long", f"{own}/2") for own in (1, 2)]
    assert shares[0] | shares[1] == everything
    assert {each for each in everything if "short" in each} == shares[0] & shares[1]
    parts = [run("--part", f"{own}/2") for own in (1, 2)]
    assert parts[0] | parts[1] == everything and not parts[0] & parts[1]
    assert len({each.split("::")[0] for each in parts[0]}) * 2 == len(parts[0])
    # One of the shares is empty.
    assert sorted(len(run("test_0.py", "--part", f"{own}/2")) for own in (1, 2)) == [0, 2]
