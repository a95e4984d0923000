"""Fixtures of the tests that measure."""

from __future__ import annotations

import pytest

from quantkit.benchmark.measuring import schedule, team
from quantkit.benchmark.workers import instance


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three short rounds, and little patience."""
    monkeypatch.setattr(instance, "_STOPPED_FOR", 0.5)
    monkeypatch.setattr(team, "_ATTEMPTS", 2)
    monkeypatch.setattr(schedule, "ROUNDS", 3)
    monkeypatch.setattr(schedule, "_SLICE", 0.1)
    monkeypatch.setattr(schedule, "_WARM_UP", 0.05)
