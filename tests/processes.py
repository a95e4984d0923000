"""Python processes that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quantkit.host.children import descendants

_USE = """
import sys
from pathlib import Path
from quantkit.files.cache import use
use(Path(sys.argv[1]))
print(flush=True)
input()
"""


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with ``settings``, in which the same quantkit can be imported."""
    path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def another_uses(path: Path) -> Iterator[None]:
    """While another process uses an entry of ``QUANTKIT_HOME``; it is killed when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", _USE, str(path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        yield
    finally:
        process.kill()
        process.communicate()


def started_by_this() -> list[tuple[int, str]]:
    """The processes that this one has started, directly or not, with their command lines; those that ended are not."""
    return [(pid, command) for pid in descendants(os.getpid()) if (command := _command(pid))]


def commands() -> list[str]:
    """The command lines of all processes of this machine."""
    return [_command(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(pid: int) -> str:
    """Empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
