"""Make the environments of deployments without MXNet: ``python tests/lean/prepare.py FOLDER``.

For each Python that quantkit runs on and this machine has: FOLDER/3.12 and its like with the wheel of this checkout,
NumPy 2, Pillow, pydantic and ONNX Runtime alone. FOLDER/complete has, for the newest, all that
``pip install 'quantkit[onnxruntime]'`` brings, and FOLDER/serving what ``quantkit[onnxruntime,serve]`` does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
NEEDED = ("numpy", "pillow", "pydantic")

# Nothing of the caller's leads to another quantkit.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def main() -> None:
    """Make them all."""
    folder = Path(sys.argv[1]).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    (wheel,) = folder.glob("*.whl")
    found = {version: python for version in PYTHONS if (python := _interpreter(version))}
    for version in PYTHONS:
        print(f"Python {version}: {found.get(version, 'not on this machine, left out')}", flush=True)
    if not found:
        sys.exit("there is no Python that quantkit runs on")
    with ThreadPoolExecutor(2) as pool:
        newest = [*found.values()][-1]
        complete = [
            pool.submit(_make, newest, folder / name, [f"{wheel}[{extras}]"])
            for name, extras in (("complete", "onnxruntime"), ("serving", "onnxruntime,serve"))
        ]
        bare = [
            pool.submit(_make, python, folder / version, _requirements(), wheel) for version, python in found.items()
        ]
        for made in (*complete, *bare):
            made.result()


def _interpreter(version: str) -> Optional[str]:
    """A Python of this version; None where the machine has none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    ask = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    for place in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"versions/{version}.*/bin/python3"))):
        if place is not None:
            said = subprocess.run([place, "-I", "-c", ask], capture_output=True, text=True, check=False)
            if said.stdout.strip() == version:
                return str(place)
    return None


def _requirements() -> list[str]:
    """What the project asks for, of what predicting needs."""
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = [each for each in project["dependencies"] if re.split("[<>=]", each)[0] in NEEDED]
    return core + list(project["optional-dependencies"]["onnxruntime"])


def _make(python: str, folder: Path, packages: Sequence[str], alone: Optional[Path] = None) -> None:
    """A new environment, without pip, that has NumPy 2 and these packages, and a wheel without what it depends on."""
    _run(python, "-m", "venv", "--without-pip", str(folder))
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-compile")
    _run(*pip, "numpy>=2", *packages)
    if alone is not None:
        _run(*pip, "--no-deps", str(alone))


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
