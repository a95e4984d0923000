"""A bundle that says what is usual, and the images of its test set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.bundle import Bundle, read_bundle


@pytest.fixture(scope="session")
def usual(digits_usual: Path) -> Bundle:
    return read_bundle(digits_usual)


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    """In random order; pixels of shape (images, 32, 32, 3)."""
    images = np.stack([sample.image for sample in quantkit.load_data("digits:test")])
    return np.random.default_rng(0).permutation(images)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"
