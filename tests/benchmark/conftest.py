"""Fixtures for tests of builds."""

from __future__ import annotations

from tests.benchmark.interpreters import fake as fake
