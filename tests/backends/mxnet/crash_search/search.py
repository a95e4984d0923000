"""Runs cases in child processes and goes on after each that ended or hung one."""

from __future__ import annotations

import collections
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from tests.backends.mxnet.crash_search.network_cases import NetworkCase
from tests.backends.mxnet.crash_search.operator_cases import Case

AnyCase = Union[Case, NetworkCase]
Tell = Callable[[str, AnyCase], object]

SECONDS = 20.0
_START_SECONDS = 60.0


@dataclass(frozen=True)
class Found:
    """How many cases came to which end, the largest RSS in MiB, and the cases that must not end so, with how."""

    outcomes: Mapping[str, int]
    mebibytes: int
    bad: Sequence[tuple[str, AnyCase]]


def search(
    cases: Sequence[AnyCase],
    folder: Path,
    gibibytes: int = 12,
    tell: Callable[[str, AnyCase], object] = lambda *_: None,
) -> Found:
    """Run the cases; ``folder`` is for notes, ``tell`` gets each finding, a child may have so much address space."""
    pickled, notes = folder / "cases", folder / "notes"
    pickled.write_bytes(pickle.dumps(list(cases)))
    outcomes: collections.Counter[str] = collections.Counter()
    bad: list[tuple[str, AnyCase]] = []
    first, mebibytes = 0, 0
    while first < len(cases):
        notes.write_text("")
        ending = _run_child(pickled, first, notes, gibibytes)
        lines = [line.split() for line in notes.read_text().splitlines()]
        begun = first
        for number, *outcome in (line for line in lines if line != ["end"]):
            begun = int(number)
            if outcome != ["begins"]:
                outcomes[" ".join(outcome[:-1])] += 1
                mebibytes = max(mebibytes, int(outcome[-1]))
                if outcome[0] == "RAW":
                    bad.append((" ".join(outcome[:-1]), cases[begun]))
                    tell(*bad[-1])
        if lines[-1:] == [["end"]]:
            break
        outcomes[ending] += 1
        bad.append((ending, cases[begun]))
        tell(*bad[-1])
        first = begun + 1
    return Found(outcomes, mebibytes, bad)


def _run_child(cases: Path, first: int, notes: Path, gibibytes: int) -> str:
    """How it ended."""
    command = [
        sys.executable,
        "-m",
        "tests.backends.mxnet.crash_search.child",
        str(cases),
        str(first),
        str(notes),
        str(gibibytes),
    ]
    root = Path(__file__).parents[4]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as child:
        try:
            while True:
                try:
                    _, said = child.communicate(timeout=1)
                    last = (said.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
                    return f"ended {child.returncode}: {last[-80:]}"
                except subprocess.TimeoutExpired:
                    begun = notes.stat().st_size > 0
                    if time.time() - notes.stat().st_mtime > (SECONDS if begun else _START_SECONDS):
                        return "hung"
        finally:
            child.kill()
