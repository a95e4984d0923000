"""The skips that remain, held against the table in skips.toml."""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.requirements import EMULATED

TABLE = Path(__file__).with_name("skips.toml")


def needs(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The requirement that a skipped test or module lacked; else the whole reason that it gave."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    found = re.match(r"needs ([\w.-]+): ", reason)
    return found[1] if found else reason


def counted(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """How many tests, or modules of tests, were skipped for lack of what."""
    return Counter(map(needs, reports))


def unexpected(skipped: Iterable[str], rows: list[dict[str, Any]], engine: str, machine: frozenset[str]) -> list[str]:
    """The skips that no row of the table allows for this engine on this machine."""
    allowed = {
        row["needs"] for row in rows if row.get("engine", engine) == engine and row.get("machine") in (None, *machine)
    }
    return sorted(set(skipped) - allowed)


def read_table() -> list[dict[str, Any]]:
    """The rows of the table."""
    return list(tomllib.loads(TABLE.read_text(encoding="utf-8"))["skip"])


def installed_engine() -> str:
    """``mkl`` for mxnet-mkl 1.6.0, ``onednn`` for mxnet 1.9.1; empty where there is none."""
    from quantkit.backends.mxnet.compat import load_mxnet
    from quantkit.errors import EngineMissing

    try:
        version = load_mxnet().__version__
    except EngineMissing:
        return ""
    return "onednn" if tuple(map(int, version.split(".")[:2])) >= (1, 7) else "mkl"


def this_machine() -> frozenset[str]:
    """The kinds that this machine belongs to."""
    return frozenset(_kinds())


def _kinds() -> Iterator[str]:
    from quantkit.host.cpu import read_cpu

    cpu = read_cpu()
    # NumPy asks the processor itself, so this holds under an emulator too.
    avx512 = np.core._multiarray_umath.__cpu_features__["AVX512_SKX"]
    if avx512 and cpu.vendor != "GenuineIntel":
        yield "avx512, not intel"
    if EMULATED or not {"AVX-VNNI", "AVX512-VNNI"}.intersection(cpu.isa):
        yield "no vnni"
    if os.geteuid() == 0:
        yield "root"
    if len(os.sched_getaffinity(0)) == 1:
        yield "one cpu"
