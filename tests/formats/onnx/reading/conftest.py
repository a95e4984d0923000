"""Fixtures for files that mean harm."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A limit of three gigabytes beyond what the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 3 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
