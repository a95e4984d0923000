"""The costs of quantization: what a run is charged with, and the rows that are made of runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, Optional

import pytest

from quantkit.errors import QuantkitError
from quantkit.files.files import shipped


def child(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another program run in place of the command."""
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: popen([sys.executable, "-c", code], **options))


_CHARGED = """
import dataclasses, json, subprocess, sys
sys.path.insert(0, sys.argv[1])
popen = subprocess.Popen
code = "import time; kept = bytearray(b'x') * 2**28; time.sleep(0.3)"
subprocess.Popen = lambda command, **options: popen([sys.executable, "-c", code], **options)
from quantization_time import cost_of
print(json.dumps(dataclasses.asdict(cost_of("resnet50", "fast"))))
"""


def test_a_run_is_charged_with_its_own_memory_and_time() -> None:
    # Linux counts the memory of the process that starts another as the other's, so that one must be small.
    done = subprocess.run(
        [sys.executable, "-c", _CHARGED, str(shipped("benchmarks"))], capture_output=True, text=True, check=True
    )
    cost = json.loads(done.stdout)
    assert (cost["network"], cost["preset"]) == ("resnet50", "fast")
    assert cost["seconds"] >= 0.3
    assert 0 < cost["cpu_seconds"] < 10
    assert 256 < cost["peak_mib"] < 400
    assert cost["others"] is None or cost["others"] >= 0


def test_a_run_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from quantization_time import cost_of

    child("raise SystemExit(3)", monkeypatch)
    with pytest.raises(QuantkitError, match=r"quantize resnet50 .*ended with 3"):
        cost_of("resnet50", "fast")


def test_a_row_has_the_medians_over_its_runs_and_the_largest_peak() -> None:
    from quantization_time import page

    def cost(preset: str, seconds: float, peak: float, others: Optional[float] = 0.5) -> dict[str, Any]:
        return {"network": "resnet50", "preset": preset, "seconds": seconds, "cpu_seconds": seconds * 2,
                "peak_mib": peak, "others": others}  # fmt: skip

    runs = [
        cost("balanced", 40, 900),
        cost("fast", 9, 700),
        cost("balanced", 30, 1100, None),
        cost("balanced", 38, 800),
    ]
    found = page({"command": "python x", "host": {"cpu": "y"}, "runs": runs}).splitlines()
    assert found[-2:] == [
        "| resnet50 | fast | 1 | 9.0 | 9.0 | 18.0 | 700 | 0.5 |",
        "| resnet50 | balanced | 3 | 38.0 | 30.0 | 76.0 | 1100 | 0.5 |",
    ]


def test_a_document_without_the_load_of_others() -> None:
    from quantization_time import page

    early = {"network": "resnet50", "preset": "fast", "seconds": 9, "cpu_seconds": 18, "peak_mib": 700, "load": 1.4}
    (*_, row) = page({"command": "python x", "host": {"cpu": "y"}, "runs": [early]}).splitlines()
    assert row == "| resnet50 | fast | 1 | 9.0 | 9.0 | 18.0 | 700 | not told |"


@pytest.mark.parametrize(
    ("busy", "others"),
    [({0: (30, 70)}, 0.1), ({0: (20, 80)}, 0.0), ({0: (0, 0)}, None)],
    ids=["some", "none", "untold"],
)
def test_the_load_is_that_of_others(
    busy: dict[int, tuple[int, int]], others: Optional[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run takes 2 of 10 seconds of the one processor; 100 ticks pass."""
    import quantization_time as suite

    child("", monkeypatch)
    ticks = iter([{0: (0,) * 8}, {cpu: (of[0], 0, 0, of[1], 0, 0, 0, 0) for cpu, of in busy.items()}])
    times = iter([5.0, 15.0])
    wait = os.wait4
    monkeypatch.setattr(suite, "read_ticks", lambda stat: next(ticks))
    monkeypatch.setattr(suite, "perf_counter", lambda: next(times))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    resources = SimpleNamespace(ru_utime=1.5, ru_stime=0.5, ru_maxrss=1024)
    monkeypatch.setattr(os, "wait4", lambda process, options: (*wait(process, options)[:2], resources))
    assert suite.cost_of("resnet50", "fast").others == pytest.approx(others)
