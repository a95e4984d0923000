"""Rates of streams of samples whose speeds are known: they take time of a made-up clock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantkit.evaluation import stream_rates
from quantkit.evaluation.stream_rates import Contestant, Rate, in_turns, read_first, steady
from tests.evaluation.conftest import Clock

BATCH = 4


def test_rates() -> None:
    assert Rate((3.0, 1.0, 2.0, 10.0, 5.0)).median == 3.0


def test_bytes_that_come_from_storage_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "block"
    file.write_bytes(os.urandom(1 << 20))
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    before = stream_rates._storage_bytes()
    os.pread(descriptor, 1 << 20, 0)
    after = stream_rates._storage_bytes()
    os.close(descriptor)
    assert before is not None and after is not None
    # Files in memory, and on some layered file systems, come from no device.
    assert after - before >= (1 << 20 if os.major(file.stat().st_dev) else 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rchar: 5\nread_bytes: 4096\nwrite_bytes: 7\ncancelled_write_bytes: 0\n", 4096),
        ("rchar: 5\nwchar: 6\n", None),
        (None, None),
    ],
)
def test_where_the_system_does_not_tell_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch, text: str | None, expected: int | None
) -> None:
    def read_text(path: Path) -> str:
        assert path == Path("/proc/self/io")
        if text is None:
            raise PermissionError
        return text

    monkeypatch.setattr(Path, "read_text", read_text)
    assert stream_rates._storage_bytes() == expected


def prepared_ahead(clock: Clock, number: int) -> Iterator[SimpleNamespace]:
    """Batches of which so many are ready, and each of the others takes half a second."""
    for place in count():
        clock.now += 0.5 if place >= number else 0
        yield SimpleNamespace(data=np.zeros(BATCH))


def test_what_was_prepared_ahead_does_not_count(clock: Clock) -> None:
    def consume(data: np.ndarray) -> None:
        clock.now += 0.25

    turns = steady(prepared_ahead(clock, 3), consume, 3, 15.0)  # type: ignore[arg-type]
    assert len(turns) == 5
    assert all((turn.rate, turn.waited) == (BATCH / 0.75, 0.5 / 0.75) for turn in turns)


def test_each_turn_has_a_batch(clock: Clock) -> None:
    consumed: list[int] = []
    steady(prepared_ahead(clock, 7), lambda data: consumed.append(len(data)), 7, 0.001)  # type: ignore[arg-type]
    assert len(consumed) == 1 + 5


def test_what_is_read_when_a_stream_is_opened_counts(clock: Clock) -> None:
    def opened() -> Any:
        clock.now += 1.5
        return (SimpleNamespace(data=np.zeros(BATCH)) for _ in range(3))

    assert read_first(opened).rate == 3 * BATCH / 1.5


def test_a_turn_has_a_batch_of_each_worker(clock: Clock) -> None:
    consumed: list[int] = []
    many = Contestant(
        lambda: prepared_ahead(clock, 0),  # type: ignore[arg-type, return-value]
        lambda data: consumed.append(len(data)),
        4,
    )
    in_turns({"many": many}, 0.001)
    assert len(consumed) == 5 * (1 + 4)
