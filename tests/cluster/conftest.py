"""A cluster of two workers on this machine, which all tests of a process share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.requirements import requires

if TYPE_CHECKING:
    from distributed import Client


@pytest.fixture(scope="session")
def client(engine: None) -> Iterator[Client]:
    """A client of two workers."""
    requires("cluster")
    from quantkit.cluster.connect import connected

    with connected("local:2") as client:
        yield client
