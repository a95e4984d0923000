"""The scripts in benchmarks/ import each other as if from one folder."""

from __future__ import annotations

import sys

import pytest

from quantkit.files.files import shipped


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(shipped("benchmarks")), *sys.path])
