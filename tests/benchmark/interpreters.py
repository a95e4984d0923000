"""Interpreters that only pretend, for tests of builds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.builds import environments

MADE = ["about", "venv", "install", "uninstall", "probe"]
"""The steps of making a build."""


class Fake:
    """A fake interpreter, what it was asked to do, and a QUANTKIT_HOME to itself."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.log = folder / "log"
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("QUANTKIT_HOME", str(self.home))
        self.python = self.make("base")
        self.behave()

    def make(self, name: str) -> str:
        """Another one, with an engine."""
        path = self.folder / name / "python"
        path.parent.mkdir()
        source = Path(__file__).with_name("fake_python.py").read_text()
        path.write_text(f"#!{sys.executable} -IS\n{source}")
        path.chmod(0o755)
        (path.parent / "libmxnet.so").write_text("engine")
        return str(path)

    def behave(self, **settings: Any) -> None:
        """From now on behave like this; see fake_python.py."""
        self._monkeypatch.setenv("FAKE", json.dumps({"log": str(self.log), **settings}))

    def calls(self) -> list[dict[str, Any]]:
        """What was asked since the last time."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def steps(self) -> list[str]:
        """The names of what was asked since the last time."""
        return [call["step"] for call in self.calls()]

    def left(self) -> list[str]:
        """What lies in the folder of builds, locks aside."""
        folder = self.home / "builds"
        return sorted(name for name in os.listdir(folder) if not name.endswith(".lock")) if folder.is_dir() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """One in place of the interpreter that environments are made with, which has no engine."""
    fake = Fake(tmp_path, monkeypatch)
    monkeypatch.setattr(sys, "_base_executable", fake.python, raising=False)
    monkeypatch.setattr(environments, "_has_mxnet", lambda: False)
    return fake
