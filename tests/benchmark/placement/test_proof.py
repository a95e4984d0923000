"""Placement as /proc shows it: of made-up processes, and of real ones that numactl or the worker has bound."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.benchmark.build import Build
from quantkit.benchmark.measuring.binding import launch
from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.placement import proof as proof_module
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.placement.proof import Proof, problem, prove
from quantkit.benchmark.workers.instance import Instance
from quantkit.errors import InstanceError
from tests.host.machines import written
from tests.requirements import requires

pytestmark = pytest.mark.timing

OPENMP = Path(__file__).parents[1] / "openmp_worker.py"


def _process(folder: Path, threads: Sequence[tuple[set[int], int]], numa_maps: str = "") -> Path:
    """A /proc with process 7, its threads as (mask, last hardware thread)."""
    for number, (mask, last) in enumerate(threads):
        task = folder / "7" / "task" / str(7 + number)
        task.mkdir(parents=True)
        (task / "status").write_text(
            f"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{written(mask)}\nMems_allowed:\t1\n"
        )
        fields = ["S", *("0" for _ in range(35)), str(last), "0", "0"]
        (task / "stat").write_text(f"{7 + number} (a (b) c) {' '.join(fields)}\n")
    (folder / "7" / "numa_maps").write_text(numa_maps)
    return folder


def test_threads_and_their_masks(tmp_path: Path) -> None:
    threads = [({0, 1, 4}, 4), ({0}, 0), ({1}, 1), ({1}, 1), ({9}, 9)]
    proof = prove(7, Placement((0, 1, 4), (0,), 3), _process(tmp_path, threads))
    assert proof == Proof(threads=5, bound=2, cpus=(0, 1, 4, 9), pages=None)


def test_a_thread_counts_where_it_was_seen_last(tmp_path: Path) -> None:
    assert prove(7, Placement((0,), None, 1), _process(tmp_path, [({0}, 3)])).cpus == (0, 3)


def test_only_private_anonymous_memory_counts(tmp_path: Path) -> None:
    numa_maps = (
        "00400000 default file=/usr/bin/python3 mapped=100 N0=60 N1=40 kernelpagesize_kB=4\n"
        "7f000000 bind:1 anon=300 dirty=300 active=0 N0=100 N1=200 kernelpagesize_kB=4\n"
        "7f100000 bind:1 file=/lib/x86_64-linux-gnu/libc.so.6 anon=5 dirty=5 mapped=9 N0=14 kernelpagesize_kB=4\n"
        "7f200000 bind:1 huge anon=2 dirty=2 N12=2 kernelpagesize_kB=2048\n"
        "7f300000 bind:1 heap anon=7 dirty=7 N1=7 kernelpagesize_kB=4\n"
        "7f400000 bind:1\n"
    )
    proof = prove(7, Placement(None, None, 1), _process(tmp_path, [({0}, 0)], numa_maps))
    assert proof.pages == {0: 100, 1: 207, 12: 1024}


def _folder_in_its_place(path: Path) -> None:
    """What lets not even root read it."""
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        _folder_in_its_place,
        lambda path: path.write_text(""),
        lambda path: path.write_text("7f000000 bind:0\n"),
        lambda path: path.write_text("7f000000 bind:0 anon=1 N0=x kernelpagesize_kB=4\n"),
    ],
    ids=["absent", "unreadable", "empty", "no nodes", "odd"],
)
def test_memory_that_the_kernel_does_not_tell_of_is_not_proven(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    proc = _process(tmp_path, [({0}, 0)], "7f000000 bind:0 anon=9 N0=9 kernelpagesize_kB=4\n")
    bound, unbound = Placement((0,), (0,), 1), Placement((0,), None, 1)
    assert problem(prove(7, bound, proc), bound, openmp=False) is None
    damage(proc / "7" / "numa_maps")
    proof = prove(7, bound, proc)
    assert proof.pages is None
    assert "memory not proven" in (problem(proof, bound, openmp=False) or "")
    assert problem(proof, unbound, openmp=False) is None


@pytest.mark.parametrize("name", ["status", "stat"])
@pytest.mark.parametrize(
    "damage",
    [_folder_in_its_place, lambda path: path.write_text("Name:\tx\n")],
    ids=["unreadable", "tells nothing"],
)
def test_threads_that_cannot_be_looked_at_are_not_proven(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    proc = _process(tmp_path, [({0}, 0), ({0}, 0)])
    damage(proc / "7" / "task" / "8" / name)
    with pytest.raises(InstanceError, match=r"placement not proven: .*task/8 cannot be read") as raised:
        prove(7, Placement((0,), None, 1), proc)
    assert raised.value.kind == "placement"


def test_threads_that_cannot_be_listed_are_not_proven(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "task").write_text("")
    with pytest.raises(InstanceError, match=r"placement not proven: .*task cannot be read"):
        prove(7, Placement((0,), None, 1), tmp_path)


def test_a_thread_that_ends_meanwhile_has_all_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = _process(tmp_path, [({0}, 0), ({5}, 5)])
    listed = iter([["7", "8", "9"], ["7", "8"], ["7", "8"]])
    monkeypatch.setattr(proof_module.os, "listdir", lambda _: next(listed))
    assert prove(7, Placement((0,), None, 1), proc).cpus == (0, 5)


def test_a_thread_that_starts_meanwhile_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = _process(tmp_path, [({0}, 0), ({5}, 5)])
    listed = iter([["7"], ["7", "8"], ["7", "8"], ["7", "8"]])
    monkeypatch.setattr(proof_module.os, "listdir", lambda _: next(listed))
    assert prove(7, Placement((0,), None, 1), proc).cpus == (0, 5)


def test_threads_that_come_and_go_without_end_are_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = _process(tmp_path, [({0}, 0)])
    monkeypatch.setattr(proof_module.os, "listdir", lambda _: ["7", "99"])
    with pytest.raises(InstanceError, match="placement not proven: threads of process 7 come and go"):
        prove(7, Placement((0,), None, 1), proc)


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="ended before"):
        prove(7, Placement((0,), None, 1), tmp_path)


GOOD = Proof(threads=9, bound=4, cpus=(0, 1, 2, 3), pages={0: 100_000, 1: 3_000})
FOUR = Placement((0, 1, 2, 3), (0,), 4)


@pytest.mark.parametrize(
    ("proof", "placement", "words"),
    [
        (GOOD, FOUR, None),
        (GOOD, Placement(None, None, 4), None),
        (GOOD, replace(FOUR, nodes=None), None),
        (replace(GOOD, bound=0), Placement((0, 1, 2, 3), (0,), 1), "to 0 of its 1"),
        (replace(GOOD, cpus=(0, 1, 2, 3, 8, 9)), FOUR, "may run on hardware threads 8,9, beyond 0,1,2,3"),
        # An operator with little work leaves fewer threads, but never one alone.
        (replace(GOOD, bound=2), FOUR, None),
        (replace(GOOD, bound=1), FOUR, "bound threads to 1 of its 4"),
        (replace(GOOD, bound=0), FOUR, "bound threads to 0 of its 4"),
        (replace(GOOD, pages={0: 1_000, 1: 100_000}), FOUR, "99% of its memory lies on nodes 1, not on 0"),
        (replace(GOOD, pages={0: 100_000, 1: 6_000}), FOUR, "6% of its memory"),
        (replace(GOOD, pages={0: 100_000, 1: 6_000}), replace(FOUR, nodes=(0, 1)), None),
        (replace(GOOD, pages={0: 200_000, 1: 6_000}), FOUR, None),
        # A small process that has bound itself: what it touched before stays where it was.
        (replace(GOOD, pages={0: 20_000, 1: 4_000}), FOUR, None),
        (
            replace(GOOD, pages=None),
            FOUR,
            "memory not proven: numa_maps in /proc does not tell",
        ),
        (replace(GOOD, pages={}), FOUR, "memory not proven"),
        (replace(GOOD, pages=None), replace(FOUR, nodes=None), None),
    ],
)
def test_what_is_wrong(proof: Proof, placement: Placement, words: str | None) -> None:
    found = problem(proof, placement)
    assert found is None if words is None else words in (found or "")


def test_threads_that_are_not_openmps_share_what_their_instance_has() -> None:
    free = replace(GOOD, bound=0)
    assert "OpenMP has bound" in (problem(free, FOUR) or "")
    assert problem(free, FOUR, openmp=False) is None
    assert "beyond" in (problem(replace(free, cpus=(*GOOD.cpus, 99)), FOUR, openmp=False) or "")


def _launch(placement: Placement, by_itself: bool) -> Launch:
    build = Build("here", sys.executable, "", "", "", "", (), False)
    made = launch(build, "fp32", placement)
    if by_itself:
        return replace(made, command=(sys.executable,), cpus=placement.cpus, nodes=placement.nodes)
    return made


def _proof(launched: Launch) -> Proof:
    """The proof of a real process with OpenMP threads and 64 MiB."""
    requires("libgomp")
    with Instance(launched.command, launched.environment, launched.cpus, launched.nodes, OPENMP) as instance:
        instance.ask("touch", 60, mebibytes=64)
        return prove(instance.pid, launched.placement)


def _all() -> Placement:
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    requires("two-cpus")
    return Placement(cpus, None, len(cpus))


@pytest.mark.parametrize("by_itself", [False, True])
def test_a_real_process_is_bound(by_itself: bool) -> None:
    placement = _all()
    proof = _proof(_launch(placement, by_itself))
    assert proof.cpus == placement.cpus
    assert proof.bound == placement.threads
    assert sum((proof.pages or {}).values()) > 64 << 8 or not Path("/proc/self/numa_maps").exists()
    assert problem(proof, placement) is None


@pytest.mark.parametrize("by_itself", [False, True])
def test_a_real_process_on_one_hardware_thread(by_itself: bool) -> None:
    placement = Placement((max(_all().cpus or ()),), None, 1)
    proof = _proof(_launch(placement, by_itself))
    assert proof.cpus == placement.cpus
    assert problem(proof, placement) is None


def test_a_real_process_elsewhere_is_noticed() -> None:
    cpus = _all().cpus or ()
    launched = _launch(Placement(cpus[:1], None, 1), by_itself=False)
    assert "beyond" in (problem(_proof(launched), Placement(cpus[1:], None, 1)) or "")


def test_openmp_threads_that_are_not_bound_are_noticed() -> None:
    launched = _launch(_all(), by_itself=False)
    environment = {name: value for name, value in launched.environment.items() if name != "OMP_PLACES"}
    loose = replace(launched, environment={**environment, "OMP_PROC_BIND": "false"})
    assert "bound threads to 0" in (problem(_proof(loose), launched.placement) or "")


def test_openmp_threads_on_top_of_each_other_are_noticed() -> None:
    launched = _launch(_all(), by_itself=False)
    first = (launched.placement.cpus or ())[0]
    stacked = replace(launched, environment={**launched.environment, "OMP_PLACES": f"{{{first}}}"})
    assert "bound threads to 1" in (problem(_proof(stacked), launched.placement) or "")


def test_an_unpinned_process_is_left_alone() -> None:
    launched = _launch(Placement(None, None, 2), by_itself=False)
    proof = _proof(launched)
    assert set(proof.cpus) == os.sched_getaffinity(0)
    assert problem(proof, launched.placement) is None
