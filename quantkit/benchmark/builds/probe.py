"""Probing an interpreter: which engine it has, and whether that computes correctly."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Optional

from quantkit.backends.registry import DEPLOYED
from quantkit.benchmark.build import Build
from quantkit.benchmark.builds.foreign import ending, foreign_environment, kill, last_lines, running
from quantkit.benchmark.workers.instance import WORKER
from quantkit.errors import QuantkitError

# Rounding of 27 products explains about 1e-6.
_CONVOLUTION_ERROR = 1e-5


def probe(name: str, python: str, engine: Optional[str] = None, patience: float = 120.0) -> Build:
    """Run the worker's probe in the interpreter ``python`` for at most ``patience`` seconds.

    Without ``engine``, the first installed one counts, MXNet before the others.

    Raises:
        QuantkitError: the interpreter cannot be started, dies, hangs, lacks a library, or computes wrongly.
    """
    # Isolated, because the worker's own folder has modules named as some of the standard library.
    command = [python, "-I", str(WORKER), "probe", *([engine] if engine else [])]
    with running(command, foreign_environment()) as process:
        try:
            out, err = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            kill(process)
            _, err = process.communicate()
            raise _failure(name, f"{python} gave no answer for {patience:.0f} s", err) from None
    if process.returncode != 0:
        raise _failure(name, f"{python} {ending(process.returncode)}", err)
    try:
        facts = json.loads(out.splitlines()[-1])
        error = float(facts["convolution_error"])
        build = Build(
            name=name,
            python=python,
            python_version=str(facts["python"]),
            numpy=str(facts["numpy"]),
            version=str(facts["version"]),
            library=str(facts["library"]),
            features=tuple(facts["features"]),
            int8=bool(facts["int8"]),
            engine=str(facts["engine"]),
        )
    except (ValueError, LookupError, TypeError) as problem:
        raise _failure(name, f"{python} is no Python interpreter: it answered {out[:80]!r}", err) from problem
    if not error <= _CONVOLUTION_ERROR:
        raise _failure(name, f"{python} computes a convolution wrongly: its relative error is {error:.2g}", "")
    return build


def _failure(name: str, what: str, stderr: str) -> QuantkitError:
    remedy = _remedy(stderr)
    return QuantkitError(f"build {name} does not work: {what}{last_lines(stderr)}" + (f"\n{remedy}" if remedy else ""))


def _remedy(stderr: str) -> str:
    """The remedy for a frequent error; empty if none is known."""
    library = re.search(r"(lib[\w.+-]+): cannot open shared object file", stderr)
    module = re.search(r"No module named '?(\w+)", stderr)
    if library and library[1].startswith("libgomp"):
        return "install the GNU OpenMP library (Debian, Ubuntu: apt-get install libgomp1; Fedora: dnf install libgomp)"
    if library:
        return f"install the system library {library[1]}"
    if module:
        needed = f"an engine ({', '.join(DEPLOYED)}), NumPy, and what these import"
        return f"{module[1]} must be installed there: the interpreter needs {needed}"
    if "annotations is not defined" in stderr or "Unknown option: -I" in stderr:
        return "name an interpreter of Python 3.7 or later"
    return ""
