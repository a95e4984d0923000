"""The builds that quantkit can make: their wheels and virtual environments."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.backends.registry import MXNET, ONNXRUNTIME, OPENVINO
from quantkit.benchmark.build import Build
from quantkit.benchmark.builds.build_folder import interpreter_in
from quantkit.benchmark.builds.foreign import ending, foreign_environment, last_lines, running
from quantkit.errors import QuantkitError, UserError
from quantkit.progress import Tell, untold

# The newest NumPy that all the wheels run with, and the Python that they were tested with.
_NUMPY = "numpy==1.26.4"
_PYTHON = (3, 11)

_ABOUT = (
    "import json, os, sys, sysconfig; print(json.dumps({'version': list(sys.version_info[:2]), "
    "'executable': os.path.realpath(sys.executable), 'abi': sysconfig.get_config_var('SOABI') or sys.platform}))"
)


@dataclass(frozen=True)
class Recipe:
    """``wheels`` are pip requirements; the first installs ``engine`` in the ``version`` that it reports.

    Only NumPy is installed with them, unless they need their ``dependencies``.
    """

    name: str
    wheels: tuple[str, ...]
    version: str
    role: str
    mkldnn: bool = False
    engine: str = MXNET.name
    dependencies: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        """All requirements for pip."""
        return (*self.wheels, _NUMPY)

    @property
    def title(self) -> str:
        """The engine of the recipe, in words."""
        return _title(self.engine, self.version, self.mkldnn)

    def check(self, build: Build) -> None:
        """Check that a build has the recipe's engine.

        Raises:
            QuantkitError: it has another version or another engine.
        """
        if (build.engine, build.version, build.mkldnn) != (self.engine, self.version, self.mkldnn):
            raise QuantkitError(
                f"build {self.name} stands for {self.title}, but {build.python} has "
                f"{_title(build.engine, build.version, build.mkldnn)}; give it another name, or install "
                f"{' '.join(self.wheels)} there"
            )


def _title(engine: str, version: str, mkldnn: bool) -> str:
    inside = (" with MKL-DNN" if mkldnn else " without MKL-DNN") if engine == MXNET.name else ""
    return f"{engine} {version}{inside}"


# The environment of the other quantizers, for comparison.
PEERS = "peers"

PEERS_SCRIPT = Path(__file__).parents[1] / "workers" / "peers.py"
"""The program that runs them in it."""

RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("native", ("mxnet==1.5.0",), "1.5.0", "published baseline"),
        Recipe("native-1.8", ("mxnet-native==1.8.0.post0",), "1.8.0", "newest baseline"),
        Recipe("mkl-1.5", ("mxnet-mkl==1.5.0",), "1.5.0", "published optimised build", mkldnn=True),
        Recipe("mkl-1.6", ("mxnet-mkl==1.6.0",), "1.6.0", "last mxnet-mkl", mkldnn=True),
        Recipe("onednn", ("mxnet==1.9.1", "intel-openmp==2026.2.0"), "1.9.1", "newest mxnet", mkldnn=True),
        Recipe(
            "onnxruntime", ("onnxruntime==1.31.1",), "1.31.1", "for ONNX files",
            engine=ONNXRUNTIME.name,
        ),
        Recipe(
            "openvino", ("openvino==2026.4.1",), "2026.4.1", "Intel's engine",
            engine=OPENVINO.name,
        ),
        Recipe(
            PEERS,
            ("onnxruntime[quantization,symbolic]==1.31.1", "nncf==3.4.0", "openvino==2026.4.1", "onnx==1.19.1"),
            "1.31.1", "other quantizers",
            engine=ONNXRUNTIME.name, dependencies=True,
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class BasePython:
    """An interpreter to make virtual environments with; ``executable`` is its path without symbolic links."""

    python: str
    executable: str


def base_python(recipe: Recipe, python: Optional[str] = None) -> BasePython:
    """Check the interpreter ``python``, by default the running one or the one behind its virtual environment.

    Raises:
        UserError: there is no such interpreter, or the recipe's wheels are not for it.
    """
    python = python or str(getattr(sys, "_base_executable", None) or sys.executable)
    try:
        with running([python, "-I", "-c", _ABOUT], foreign_environment()) as process:
            out, _ = process.communicate(timeout=60)
        about = json.loads(out)
        version, abi = tuple(about["version"]), str(about["abi"])
    except QuantkitError as error:
        raise UserError(f"{error}; name another interpreter with --python") from error
    except (ValueError, LookupError, TypeError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{python} is no Python 3 interpreter; name another one with --python") from error
    if not re.fullmatch(r"cpython-\w+-x86_64-linux-gnu", abi):
        raise UserError(
            f"the wheels of {recipe.name} are for CPython on Linux, x86-64 with glibc; {python} is {abi}; "
            f"name an interpreter that has {recipe.engine} all the same with NAME=/path/to/python"
        )
    if version != _PYTHON:
        raise UserError(
            f"{python} is Python {'.'.join(map(str, version))}; {' and '.join(recipe.wanted)} were tried with "
            f"Python {'.'.join(map(str, _PYTHON))} alone; name one of that version with --python"
        )
    return BasePython(python, about["executable"])


def make_environment(recipe: Recipe, folder: Path, base: BasePython, tell: Tell) -> None:
    """Make a virtual environment with only the recipe's wheels and NumPy, and their dependencies if the recipe says so.

    pip reads its own configuration and variables (PIP_INDEX_URL, PIP_FIND_LINKS, PIP_NO_INDEX, ...) as usual.

    Raises:
        QuantkitError: the environment cannot be made, or pip cannot install.
    """
    tell(f"{recipe.name}: making a virtual environment with {base.python}")
    code, said = _run([base.python, "-I", "-m", "venv", str(folder)])
    if code != 0:
        raise QuantkitError(
            f"{base.python} {ending(code)} when it made a virtual environment:{last_lines(said)}\n"
            "on Debian and Ubuntu: apt-get install python3-venv; or name another interpreter with --python"
        )
    python = str(interpreter_in(folder))
    tell(f"{recipe.name}: installing {' and '.join(recipe.wanted)}")
    options = ["--only-binary", ":all:", "--no-user", "--no-input", "--progress-bar", "off"]
    command = [*_pip(python), "install", *_no_dependencies(recipe), *options, *recipe.wanted]
    code, said = _run(command, lambda line: _retell(recipe, line, tell))
    if code != 0:
        raise QuantkitError(_cannot_install(recipe, code, said))
    # Neither is used again, and setuptools would hook into every start of the interpreter.
    code, said = _run([*_pip(python), "uninstall", "--yes", "setuptools", "pip"])
    if code != 0:
        raise QuantkitError(f"build {recipe.name}: pip {ending(code)} when it removed itself:{last_lines(said)}")


def _no_dependencies(recipe: Recipe) -> list[str]:
    """MXNet's wheels require a NumPy too old for today's Pythons; other engines run without their dependencies."""
    return [] if recipe.dependencies else ["--no-deps"]


def _pip(python: str) -> list[str]:
    return [python, "-I", "-m", "pip", "--disable-pip-version-check"]


def _retell(recipe: Recipe, line: str, tell: Tell) -> None:
    words = line.split(maxsplit=1)
    if len(words) == 2 and words[0] in ("Downloading", "Installing"):
        tell(f"{recipe.name}: {words[0].lower()} {words[1].strip()}")


def _run(command: list[str], hear: Tell = untold) -> tuple[int, str]:
    """Run a command to its end, passing each line to ``hear``; returns the exit code and the last lines."""
    said: deque[str] = deque(maxlen=50)
    with running(command, _pip_environment(), merged=True) as process:
        for line in process.stdout or ():
            hear(line)
            said.append(line)
        code = process.wait()
    return code, "".join(said)


def _pip_environment() -> dict[str, str]:
    """The environment without variables that redirect installations, and with few retries unless the user set them."""
    elsewhere = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")
    kept = {name: value for name, value in os.environ.items() if name not in elsewhere}
    return {"PIP_RETRIES": "1", **foreign_environment(kept)}


def _cannot_install(recipe: Recipe, code: int, said: str) -> str:
    wanted = " ".join(recipe.wanted)
    download = " ".join(["pip download", *_no_dependencies(recipe), "--dest wheels", wanted])
    return (
        f"build {recipe.name} needs {wanted}, and pip {ending(code)}:{last_lines(said)}\n"
        "Without a package index, do one of these:\n"
        f"  where there is one, with the same version of Python: {download}\n"
        f"    then here: PIP_NO_INDEX=1 PIP_FIND_LINKS=wheels quantkit builds add {recipe.name}\n"
        f"  PIP_INDEX_URL=https://your.mirror/simple quantkit builds add {recipe.name}\n"
        f"  quantkit builds add {recipe.name}=/path/to/python, an interpreter that has {wanted}"
    )
