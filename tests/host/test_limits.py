"""Control groups of both versions, as folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.host.limits import Limits, cut_short, read_limits


def _system(folder: Path, membership: str, files: dict[str, str]) -> tuple[Path, Path]:
    proc, root = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(membership)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return proc, root


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        # version 2: a container that sees its own group as the top
        ("0::/\n", {"cpu.max": "150000 100000\n", "memory.max": "1073741824\n"}, Limits(1.5, 1 << 30)),
        ("0::/\n", {"cpu.max": "max 100000\n", "memory.max": "max\n"}, Limits()),
        # version 2: the tightest of a service's group and those above it
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n"}, Limits(2.0)),
        ("0::/a/b\n", {"a/b/memory.max": "1000\n", "a/memory.max": "2000\n"}, Limits(None, 1000)),
        # version 1: controllers mounted apart, and together under both names
        (
            "4:memory:/m\n3:cpu,cpuacct:/c\n",
            {
                "cpu,cpuacct/c/cpu.cfs_quota_us": "50000\n",
                "cpu,cpuacct/c/cpu.cfs_period_us": "100000\n",
                "memory/m/memory.limit_in_bytes": "4096\n",
            },
            Limits(0.5, 4096),
        ),
        # version 1: the group's path belongs to the host, the container's mount is the group
        (
            "3:cpu,cpuacct:/docker/0123\n",
            {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            Limits(3.0),
        ),
        (
            "4:memory:/\n3:cpu:/\n",
            {
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            Limits(),
        ),
        # hybrid: version 2 below "unified"
        ("1:name=systemd:/\n0::/u\n", {"unified/u/cpu.max": "100000 50000\n"}, Limits(2.0)),
    ],
)
def test_limits(tmp_path: Path, membership: str, files: dict[str, str], limits: Limits) -> None:
    assert read_limits(*_system(tmp_path, membership, files)) == limits


def test_no_control_groups(tmp_path: Path) -> None:
    assert read_limits(tmp_path, tmp_path) == Limits()


@pytest.mark.parametrize("name", ["cpu.max", "memory.max"])
def test_a_limit_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path, name: str) -> None:
    files = {"a/cpu.max": "400000 100000\n", "a/memory.max": "4096\n"}
    proc, root = _system(tmp_path, "0::/a\n", files)
    (root / "a" / name).unlink()
    (root / "a" / name).mkdir()
    found = read_limits(proc, root)
    assert found.unreadable == str(root / "a" / name)
    assert {found.cpu_quota, found.memory} == ({None, 4096} if name == "cpu.max" else {4.0, None})


def test_groups_that_cannot_be_read_are_not_taken_for_unlimited(tmp_path: Path) -> None:
    (tmp_path / "self" / "cgroup").mkdir(parents=True)
    assert read_limits(tmp_path, tmp_path).unreadable == str(tmp_path / "self" / "cgroup")
    assert cut_short(tmp_path, tmp_path) is None


def test_how_often_the_quota_ran_out_is_summed_over_groups(tmp_path: Path) -> None:
    stat = "nr_periods 9\nnr_throttled {}\nthrottled_usec 5\n"
    files = {"a/b/cpu.stat": stat.format(3), "a/cpu.stat": stat.format(4), "cpu.stat": "usage_usec 1\n"}
    proc, root = _system(tmp_path, "0::/a/b\n", files)
    (root / "unified").symlink_to(root)
    assert cut_short(proc, root) == 7
    assert cut_short(tmp_path, tmp_path) is None
