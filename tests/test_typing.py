from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import quantkit

PROGRAM = Path(__file__).with_name("typed_program.py")


def _checked(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), str(program)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.timeout(600)
def test_a_program_of_all_public_names_passes_the_strictest_check(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = _checked(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stdout
    faulty = tmp_path / "faulty.py"
    faulty.write_text(
        PROGRAM.read_text()
        .replace('preset="best"', 'preset="most"')
        .replace('dtype="int8"', 'dtype="int4"')
        .replace("num_samples=500", "limit=500")
    )
    told = _checked(faulty, tmp_path).stdout
    assert "Found 3 errors in 1 file" in told, told


def test_the_program_uses_every_public_name() -> None:
    used = set(re.findall(r"quantkit\.(\w+)", PROGRAM.read_text()))
    assert used | {"__version__"} >= set(quantkit.__all__)
