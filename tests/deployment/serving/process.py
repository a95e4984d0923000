"""A server as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

import trustme

from tests.processes import environment


@contextmanager
def server(arguments: Sequence[str], folder: Path, elsewhere: Optional[Path] = None) -> Iterator[str]:
    """What ``quantkit ARGUMENTS`` starts in a folder, once it is ready, and what it prints then.

    ``elsewhere`` is a virtual environment with a quantkit of its own.
    """
    variables = environment()
    command = [sys.executable, "-m", "quantkit", *arguments]
    if elsewhere is not None:
        command = [str(elsewhere / "bin" / "python"), "-I", "-m", "quantkit", *arguments]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen(command, env=variables, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first, f"{command} has ended with {process.wait()}"
        yield first
    finally:
        process.terminate()
        process.communicate(timeout=60)


def make_certificate(folder: Path) -> None:
    """Write ``cert.pem`` for 127.0.0.1, its ``key.pem``, and ``ca.pem``, which vouches for it."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
