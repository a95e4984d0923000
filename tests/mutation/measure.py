"""Mutation score of the core packages: how many small faults in the code make a test or the type checker fail.

    python tests/mutation/measure.py [--children N] [--keep] [PACKAGE ...]

Each package is copied to ``build/mutation/PACKAGE``, where mutmut changes one expression at a time and runs the tests
of the package that reach the changed function. ``results.json`` beside this file holds the score of every package;
``survivors.toml`` says, for the survivors of each function, why no test can or need tell them apart. Exit code 1:
a package's score is below ``GOAL``, or a survivor has no reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
GOAL = 0.85
# mypy is part of `make test`: a mutant that it refuses is noticed.
NOTICED = ("killed", "timeout", "segfault", "caught by type check")

# Where the others do without, tests that start the engine anew for each mutant are left out.
FAST = ["-m", "not engine and not timing"]

# In the first FP32 networks run in NumPy, see tests/numpy_engine.py; in the others MXNet is there before the process of
# each mutant is forked, see tests/conftest.py.
ENGINES = {
    **dict.fromkeys(("fusion", "algorithms"), "numpy"),
    **dict.fromkeys(("quantization", "bundle", "lowering"), "forked"),
}

# Processes of their own, which know nothing of the mutant, or take seconds to start.
_PROCESSES = [
    "--ignore=tests/bundle/test_stock.py",
    "--ignore=tests/lowering/test_without_vnni.py",
    "--deselect=tests/bundle/test_write.py::test_two_processes_write_the_same_bytes",
    "--deselect=tests/bundle/test_write.py::test_a_file_size_limit_leaves_nothing_behind",
]

# Arithmetic; the rest starts processes.
_BENCHMARK = ("results/statistics", "placement/placement", "measuring/schedule", "measuring/server")

# Package: what is mutated, and the tests that have to notice, as pytest has them.
PACKAGES: dict[str, tuple[list[str], list[str]]] = {
    "fusion": (["quantkit/fusion/*"], ["tests/fusion", "-m", "not int8"]),
    "calibration": (["quantkit/calibration/*"], ["tests/calibration", *FAST]),
    "quantization": (["quantkit/quantization/*"], ["tests/quantization", "-m", "not int8"]),
    "algorithms": (["quantkit/quantization/algorithms/*"], ["tests/quantization/algorithms", "-m", "not int8"]),
    "lowering": (["quantkit/lowering/*"], ["tests/lowering", *_PROCESSES]),
    "evaluation": (["quantkit/evaluation/*"], ["tests/evaluation", *FAST]),
    "bundle": (["quantkit/bundle/*"], ["tests/bundle", "-m", "not int8", *_PROCESSES]),
    "benchmark": (
        [f"quantkit/benchmark/{name}.py" for name in _BENCHMARK],
        [*(f"tests/benchmark/{name.replace('/', '/test_')}.py" for name in _BENCHMARK), *FAST],
    ),
}


@dataclass(frozen=True)
class Mutant:
    """One changed expression: the function (``module.function``), what mutmut says of it, and the changed lines."""

    function: str
    status: str
    change: str


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(PACKAGES)}; all by default")
    parser.add_argument("--children", type=int, default=os.cpu_count(), help="mutants tested at the same time")
    parser.add_argument("--keep", action="store_true", help="judge the mutants tested so far, and test none")
    options = parser.parse_args(arguments)
    if unknown := set(options.packages) - set(PACKAGES):
        parser.error(f"no package {sorted(unknown)[0]!r}; choose of {', '.join(PACKAGES)}")
    results = HERE / "results.json"
    scores = json.loads(results.read_text()) if results.exists() else {}
    good = True
    for package in options.packages or PACKAGES:
        if not options.keep:
            run(package, options.children)
        mutants = list(read(package))
        counts = Counter(mutant.status for mutant in mutants)
        score = sum(counts[status] for status in NOTICED) / max(len(mutants), 1)
        open_ = unexplained([mutant for mutant in mutants if mutant.status not in NOTICED])
        scores[package] = {"mutants": len(mutants), "score": round(score, 4), **dict(sorted(counts.items()))}
        print(
            f"{package}: {score:.1%} of {len(mutants)} mutants noticed; {dict(counts)}; {len(open_)} without a reason"
        )
        for mutant in open_:
            print(f"  {mutant.status} {mutant.function}\n    {mutant.change.replace(chr(10), chr(10) + '    ')}")
        good = good and score >= GOAL and not open_
        results.write_text(json.dumps(scores, indent=1, sort_keys=True) + "\n")
    return 0 if good else 1


def run(package: str, children: int) -> None:
    """Test the mutants of a package that are new, and once more those that were not noticed."""
    from mutmut.stats import status_by_exit_code

    work = copy_of_checkout(package)
    for meta in work.glob("mutants/quantkit/**/*.meta"):
        content = json.loads(meta.read_text())
        codes = content["exit_code_by_key"]
        codes.update({key: None for key, code in codes.items() if status_by_exit_code[code] not in NOTICED})
        meta.write_text(json.dumps(content, indent=4))
    sources, tests = PACKAGES[package]
    settings = {
        "source_paths": ["quantkit"],
        "only_mutate": sources,
        "also_copy": ["models", "calibration", "benchmarks", "README.md", "Makefile", "LICENSE", ".ci"],
        # mutmut turns pytest-randomly off, and with it the option that the project's own addopts give it.
        # Its garbage collections take longer than most tests, and end in warnings only.
        "pytest_add_cli_args": ["-pno:cacheprovider", "-pno:unraisableexception", "-oaddopts=--strict-markers"],
        "pytest_add_cli_args_test_selection": tests,
        "process_isolation": "forkserver",
        "type_check_command": ["mypy", "--output=json", f"quantkit/{sources[0].split('/')[1]}"],
    }
    with (work / "pyproject.toml").open("a") as file:
        # A JSON string or list of strings is TOML too.
        file.write("\n[tool.mutmut]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "QUANTKIT_REAL_DATA": os.environ.get("QUANTKIT_REAL_DATA") or str(ROOT.parent / "shared" / "data"),
        "HYPOTHESIS_PROFILE": "mutants",
        # Threads of OpenMP do not survive the fork that each mutant is tested in.
        "OMP_NUM_THREADS": "1",
        **({"QUANTKIT_TEST_ENGINE": ENGINES[package]} if package in ENGINES else {}),
    }
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(children)]
    subprocess.run(command, cwd=work, env=environment, check=True, stdout=sys.stderr)


def copy_of_checkout(package: str) -> Path:
    """The folder ``build/mutation/PACKAGE`` with the files of the checkout; unchanged ones keep their time."""
    work = ROOT / "build" / "mutation" / package
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    names = {name for name in listed.split("\0") if (ROOT / name).is_file()}
    for name in names:
        source, target = ROOT / name, work / name
        if not (target.is_file() and source.read_bytes() == target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    # What the checkout no longer has is neither mutated nor tested.
    for copy in (work, work / "mutants"):
        for path in copy.glob("[qt]*/**/*.py*"):
            if path.suffix in (".py", ".meta") and str(path.relative_to(copy)).removesuffix(".meta") not in names:
                path.unlink()
    return work


def read(package: str) -> Iterator[Mutant]:
    """The mutants of a package, as mutmut left them."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    os.chdir(ROOT / "build" / "mutation" / package)
    for meta in sorted(Path("mutants/quantkit").rglob("*.meta")):
        source = Path(*meta.parts[1:]).with_suffix("")
        for key, code in json.loads(meta.read_text())["exit_code_by_key"].items():
            status = status_by_exit_code[code]
            change = ""
            if status not in NOTICED:
                diff = get_diff_for_mutant(key, path=source).splitlines()[2:]
                change = "\n".join(line for line in diff if line.startswith(("+", "-")))
            yield Mutant(plain_name(key), status, change)


def plain_name(key: str) -> str:
    """``quantkit.package.file.function`` or ``quantkit.package.file.Class.method`` of mutmut's name for a mutant."""
    module, _, rest = key.rpartition(".")
    name = rest.rpartition("__mutmut_")[0]
    return f"{module}.{name[2:] if name.startswith('x_') else name[2:].replace('ǁ', '.')}"


def unexplained(survivors: Sequence[Mutant]) -> list[Mutant]:
    """The survivors that no entry of ``survivors.toml`` speaks of."""
    path = HERE / "survivors.toml"
    entries = tomllib.loads(path.read_text())["survivors"] if path.exists() else []
    return [
        mutant
        for mutant in survivors
        if not any(
            re.fullmatch(entry["function"], mutant.function) and re.search(entry["change"], mutant.change)
            for entry in entries
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
