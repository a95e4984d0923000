"""Coverage of the core packages, from the data of `pytest --cov`: how many branches and lines the tests run.

    python tests/branch_coverage.py

Prints a line for each package of ``tests/mutation/measure.py``. Exit code 1: a package is below ``GOAL``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.mutation.measure import PACKAGES

GOAL = 0.95


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "--quiet", "-o", file], check=True)
        files = json.loads(file.read_text())["files"]
    shares = {package: share(files, patterns) for package, (patterns, _) in PACKAGES.items()}
    for package, (branches, lines) in shares.items():
        print(f"{package:>12}: {branches:6.1%} of its branches, {lines:6.1%} of its lines")
    low = [package for package, found in shares.items() if min(found) < GOAL]
    if low:
        print(f"below {GOAL:.0%}: {', '.join(low)}; `coverage report -m` names the lines", file=sys.stderr)
    return bool(low)


def share(files: dict[str, Any], patterns: list[str]) -> tuple[float, float]:
    """How much of the branches and the lines of the files that match was run."""
    found = [entry["summary"] for name, entry in files.items() if any(fnmatch(name, each) for each in patterns)]

    def of(kind: str, number: str) -> float:
        return sum(each[f"covered_{kind}"] for each in found) / sum(each[number] for each in found)

    return of("branches", "num_branches"), of("lines", "num_statements")


if __name__ == "__main__":
    sys.exit(main())
