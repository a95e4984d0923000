"""The file system of a guest: the running interpreter, quantkit, numactl and busybox, as an initial RAM disk."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

# Of the standard library, what no guest needs.
_LEFT_OUT = ("site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "config-*")

_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t cgroup2 none /sys/fs/cgroup
cd /repository
export PATH=/usr/bin:/bin LD_LIBRARY_PATH={libraries} PYTHONPATH=/repository PYTHONDONTWRITEBYTECODE=1
{python} {script} 2>&1
poweroff -f
"""


def write_image(script: Path, path: Path, scratch: Path) -> None:
    """Write an image whose only work is to run ``script``, a file of the repository, then to power off."""
    root = scratch / "root"
    for folder in ("proc", "sys", "dev", "tmp", "bin"):
        (root / folder).mkdir(parents=True)
    programs = [Path(sys.executable).resolve(), _program("numactl")]
    standard_library = sysconfig.get_path("stdlib")
    openmp = _shared("libgomp.so.1")
    libraries = _libraries([*programs, *openmp, *Path(standard_library, "lib-dynload").glob("*.so")])
    for file in {*programs, *openmp, *libraries}:
        _copy(file, root)
    shutil.copy(_program("busybox"), root / "bin/busybox")
    shutil.copytree(standard_library, root / standard_library[1:], ignore=shutil.ignore_patterns(*_LEFT_OUT))
    for name in ("quantkit", "tests/benchmark", "tests/numa"):
        shutil.copytree(REPOSITORY / name, root / "repository" / name, ignore=shutil.ignore_patterns("__pycache__"))
    init = root / "init"
    init.write_text(
        _INIT.format(
            libraries=":".join(sorted({str(file.parent) for file in libraries})),
            python=programs[0],
            script=script.relative_to(REPOSITORY),
        )
    )
    init.chmod(0o755)
    _pack(root, path)


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed; tests/numa/prepare does that")
    return Path(found)


def _shared(name: str) -> list[Path]:
    """Where the dynamic linker has a library."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return [
        Path(path) for path in re.findall(rf"^\s*{re.escape(name)} \(libc6,x86-64.*=> (\S+)$", listed, re.MULTILINE)
    ]


def _libraries(files: Iterable[Path]) -> set[Path]:
    """The libraries that programs and libraries need, the dynamic linker included."""
    needed: set[Path] = set()
    for file in files:
        told = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False).stdout
        needed.update(Path(path) for path in re.findall(r"(/\S+) \(0x", told))
    return needed


def _copy(file: Path, root: Path) -> None:
    """Copy a file to where it is on this machine; where that is a link, its content."""
    target = root / str(file)[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def _pack(root: Path, path: Path) -> None:
    names = sorted(str(file.relative_to(root)) for file in root.rglob("*"))
    with path.open("wb") as image:
        subprocess.run(
            ["cpio", "--create", "--format=newc", "--quiet", "--owner=0:0"],
            cwd=root, input="\n".join(names).encode(), stdout=image, check=True,
        )  # fmt: skip
