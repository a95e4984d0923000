"""Fixtures for altered bundles, and a home of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bundle.conftest import edit as edit
from tests.bundle.conftest import resign as resign


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
