"""Reading /proc/cpuinfo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quantkit.host.cpu import read_cpu

VNNI = "fpu avx2 fma avx512f avx512bw avx512vl avx512dq avx512_vnni"


def _cpuinfo(folder: Path, cores: list[tuple[int, int]], flags: str) -> Path:
    """A machine with one hardware thread for each (socket, core)."""
    blocks = [
        f"processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon: Gold\nphysical id\t: {socket}\n"
        f"core id\t\t: {core}\nflags\t\t: {flags}\npower management:\n"
        for number, (socket, core) in enumerate(cores)
    ]
    (folder / "cpuinfo").write_text("\n".join(blocks) + "\n")
    return folder


def test_hardware_threads_are_told_from_cores(tmp_path: Path) -> None:
    two_sockets_of_two_cores_of_two_threads = [(0, 0), (0, 1), (1, 0), (1, 1)] * 2
    proc = _cpuinfo(tmp_path, two_sockets_of_two_cores_of_two_threads, VNNI)
    cpu = read_cpu(proc, affinity={0, 4, 1})
    assert (cpu.logical, cpu.physical) == (8, 4)
    assert cpu.usable == (0, 1, 4)
    assert cpu.usable_cores == 2  # 0 and 4 share a core
    assert (cpu.model, cpu.vendor) == ("Xeon: Gold", "GenuineIntel")


@pytest.mark.parametrize(
    ("flags", "isa"),
    [
        ("fpu sse4_2", ()),
        ("avx2 fma", ("AVX2",)),
        ("avx2 fma avx_vnni", ("AVX2", "AVX-VNNI")),
        ("avx2 fma avx512f avx512bw avx512vl avx512dq", ("AVX2", "AVX512")),
        ("avx2 fma avx512f avx512er", ("AVX2",)),  # Knights Landing
        (VNNI, ("AVX2", "AVX512", "AVX512-VNNI")),
        (f"{VNNI} amx_tile amx_int8", ("AVX2", "AVX512", "AVX512-VNNI", "AMX-INT8")),
    ],
)
def test_instruction_sets(tmp_path: Path, flags: str, isa: tuple[str, ...]) -> None:
    assert read_cpu(_cpuinfo(tmp_path, [(0, 0)], flags), affinity={0}).isa == isa


def test_a_virtual_machine_that_hides_its_topology(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags : avx2 fma\n\nprocessor : 1\nflags : avx2 fma\n")
    cpu = read_cpu(tmp_path, affinity={0, 1})
    assert (cpu.logical, cpu.physical, cpu.usable_cores) == (2, 2, 2)


def test_no_proc(tmp_path: Path) -> None:
    cpu = read_cpu(tmp_path, affinity={0, 1})
    assert cpu.logical == cpu.physical == os.cpu_count()
    assert cpu.usable == (0, 1)
    assert cpu.isa == ()


def test_this_machine() -> None:
    cpu = read_cpu()
    assert set(cpu.usable) == os.sched_getaffinity(0)
    assert 1 <= cpu.usable_cores <= cpu.physical <= cpu.logical
