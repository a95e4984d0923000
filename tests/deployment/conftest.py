"""Fixtures for altered bundles."""

from __future__ import annotations

from tests.bundle.conftest import edit as edit
from tests.bundle.conftest import resign as resign
