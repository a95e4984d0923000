"""Several instances of the fake worker at a time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.measuring import team
from quantkit.benchmark.measuring.team import Team
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.workers.instance import WORKER
from quantkit.errors import InstanceError
from tests.benchmark.fakes import launch
from tests.requirements import requires

pytestmark = pytest.mark.timing

CPU = min(os.sched_getaffinity(0))


def ready(tmp_path: Path, *placements: Placement, **network: Any) -> Team:
    symbol = tmp_path / "net.json"
    symbol.write_text(json.dumps({"seconds": 0.01, "value": 1.0, **network}))
    started = Team([launch(number, placement) for number, placement in enumerate(placements)])
    started.load({"symbol": symbol}, 10)
    return started


ANYWHERE = Placement(None, None, 1)


def test_all_begin_at_the_barrier(tmp_path: Path) -> None:
    with ready(tmp_path, ANYWHERE, ANYWHERE, fault="measure:delayed", instance=1) as two:
        starts = [ticks.starts[0] for ticks in two.measure(0.05, 10).instances]
    # Without it, one would begin 20 ms after the other.
    assert abs(starts[0] - starts[1]) < 15e6


def test_the_memory_of_all_instances_is_counted(tmp_path: Path) -> None:
    with ready(tmp_path, ANYWHERE) as one:
        alone = one.resident()
    with ready(tmp_path, ANYWHERE, ANYWHERE) as two:
        both = two.resident()
        assert two.instances[0].pid != two.instances[1].pid
    # Each is an interpreter with NumPy.
    assert alone > 10_000_000
    assert both == pytest.approx(2 * alone, rel=0.2)
    assert two.resident() == 0


def test_a_round_without_common_time_is_repeated(tmp_path: Path) -> None:
    with ready(tmp_path, ANYWHERE, ANYWHERE, fault="measure:once late", instance=1) as two:
        low, high = two.measure(0.1, 10).window
    assert high - low > 0.05e9


def test_how_far_cores_are_apart_is_noted_where_an_instance_has_several(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(team, "core_to_core", lambda first, last: 1000.0 * first + last)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 3, 5})
    with ready(tmp_path, ANYWHERE) as several:
        assert several.measure(0.02, 10).core_to_core == 3007.0
    with ready(tmp_path, Placement((CPU,), None, 1)) as one:
        assert one.measure(0.02, 10).core_to_core is None


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the time between two readings the processor is idle for 40 %, and 10 % are stolen."""

    def readings() -> Iterator[dict[int, tuple[int, ...]]]:
        while True:
            yield {CPU: (0, 0, 0, 0, 0, 0, 0, 0)}
            yield {CPU: (50, 0, 0, 40, 0, 0, 0, 10)}

    found = readings()
    monkeypatch.setattr(team, "read_ticks", lambda _: next(found))


def test_what_others_did_meanwhile_is_noted(ticks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with ready(tmp_path, Placement((CPU,), None, 1)) as one:
        monkeypatch.setattr(Team, "_processor_seconds", lambda _: 0.0)
        turn = one.measure(0.3, 10)
    assert (turn.stolen, turn.busy) == pytest.approx((0.1, 0.5))


def test_what_instances_did_is_not_the_work_of_others(
    ticks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ready(tmp_path, Placement((CPU,), None, 1)) as one:
        used = iter((1.0, 1.2))
        monkeypatch.setattr(Team, "_processor_seconds", lambda _: next(used))
        turn = one.measure(0.3, 10)
    assert turn.busy < 0


def test_the_work_of_others_is_watched_between_two_calls(
    ticks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ready(tmp_path, Placement((CPU,), None, 1)) as one:
        used = iter((7.0, 7.0))
        monkeypatch.setattr(Team, "_processor_seconds", lambda _: next(used))
        others = one.watch()
        time.sleep(0.1)
        load = others()
    assert (load.busy, load.stolen) == (pytest.approx(0.5), pytest.approx(0.1))
    assert load.seconds == pytest.approx(0.1, abs=0.05)


def test_what_this_process_and_its_children_did_is_not_the_work_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ready(tmp_path, Placement((CPU,), None, 1)) as one:
        before = one._processor_seconds()
        subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
        between = one._processor_seconds()
        begun = time.process_time()
        while time.process_time() - begun < 0.2:
            pass
        assert between - before >= 0.28
        assert one._processor_seconds() - between >= 0.18


def test_every_instance_is_proven(tmp_path: Path) -> None:
    requires("two-cpus")
    right, wrong = launch(0), launch(1, Placement((CPU,), None, 1))
    with Team([right, replace(wrong, cpus=None)]) as two, pytest.raises(InstanceError, match="beyond") as caught:
        two.prove()
    assert (caught.value.kind, caught.value.instance) == ("placement", 1)


def test_only_openmps_threads_must_be_bound_apart() -> None:
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    requires("two-cpus")
    one = launch(0, Placement(cpus, None, len(cpus)))
    with Team([one]) as mxnet, pytest.raises(InstanceError, match="OpenMP"):
        mxnet.prove()
    with Team([replace(one, engine="openvino")]) as other:
        assert other.prove()[0].bound == 0


def test_the_engine_is_told_its_number_of_threads(tmp_path: Path) -> None:
    shutil.copy(WORKER, tmp_path)
    shutil.copy(Path(__file__).parents[1] / "fake_engine.py", tmp_path / "worker_fake.py")
    (tmp_path / "factor").write_text("1")
    three = replace(launch(0, Placement(None, None, 3)), worker=tmp_path / "worker.py", engine="fake")
    with Team([three]) as started:
        assert started.load({"factor": tmp_path / "factor"}, 60)["settings"] == {"threads": 3}
