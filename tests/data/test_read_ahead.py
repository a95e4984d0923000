"""Windows: what continues comes in few requests, what does not in requests of its own; memory is bounded."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from quantkit.data import read_ahead
from quantkit.data.prefetch import prefetched
from quantkit.data.read_ahead import RangeFile, ReadAhead

SIZE = 100_000
CONTENT = Random(0).randbytes(SIZE)


class Store:
    """Gives the bytes of any file, and keeps what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.failing = False

    def fetch(self, file: str, start: int, end: int) -> bytes:
        self.asked.append((file, start, end))
        if self.failing:
            raise OSError("the store fails")
        time.sleep(0.001)
        return CONTENT[start:end]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(read_ahead, "LARGEST_WINDOW", 8192)
    monkeypatch.setattr(read_ahead, "_GAP", 512)
    return Store()


def fetched(store: Store) -> int:
    return sum(end - start for _, start, end in store.asked)


def test_bytes_in_a_row_come_in_growing_windows_and_once(store: Store) -> None:
    ahead = ReadAhead(store.fetch)
    read = b"".join(ahead.read("a", start, start + 100, SIZE) for start in range(0, SIZE, 100))
    assert read == CONTENT
    assert fetched(store) == SIZE
    lengths = [end - start for _, start, end in sorted(store.asked)]
    assert lengths[:4] == [100, 200, 400, 800] and max(lengths) == 8192
    assert len(lengths) < SIZE / 8192 + 10


def test_the_next_window_is_fetched_before_it_is_wanted(store: Store) -> None:
    ahead = ReadAhead(store.fetch)
    for start in (0, 100):
        ahead.read("a", start, start + 100, SIZE)
    deadline = time.monotonic() + 10
    while ("a", 300, 700) not in store.asked:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_bytes_here_and_there_come_exactly(store: Store) -> None:
    ahead = ReadAhead(store.fetch)
    places = sorted(Random(1).sample(range(0, SIZE, 1000), 50))
    for start in places:
        assert ahead.read("a", start, start + 100, SIZE) == CONTENT[start : start + 100]
    assert store.asked == [("a", start, start + 100) for start in places]


def test_small_gaps_are_fetched_along(store: Store) -> None:
    ahead = ReadAhead(store.fetch)
    for start in range(0, SIZE, 400):
        assert ahead.read("a", start, start + 100, SIZE) == CONTENT[start : start + 100]
    assert len(store.asked) < SIZE / 8192 + 12


def test_large_reads_come_in_pieces(store: Store) -> None:
    assert ReadAhead(store.fetch).read("a", 10, SIZE + 10, SIZE) == CONTENT[10:]
    assert max(end - start for _, start, end in store.asked) <= 8192 and fetched(store) == SIZE - 10


def test_few_windows_are_held(store: Store) -> None:
    ahead = ReadAhead(store.fetch)
    for start in range(0, SIZE, 1000):
        ahead.read("a", start, start + 10, SIZE)
    assert len(ahead._windows) == read_ahead._HELD
    ahead.read("a", 0, 10, SIZE)
    assert store.asked.count(("a", 0, 10)) == 2


def test_many_threads_share_windows(store: Store) -> None:
    ahead = ReadAhead(store.fetch)
    starts = range(0, SIZE, 100)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda start: ahead.read("a", start, start + 100, SIZE), starts))
    assert b"".join(read) == CONTENT
    assert len(store.asked) < len(starts) / 4


def test_files_are_kept_apart(store: Store) -> None:
    ahead = ReadAhead(lambda file, start, end: file.encode() * (end - start))
    for start in range(0, 50, 10):
        assert [ahead.read(file, start, start + 10, 50) for file in "ab"] == [10 * b"a", 10 * b"b"]


def test_a_failure_is_everyones_who_waits_and_is_tried_again(store: Store) -> None:
    ahead = ReadAhead(store.fetch)
    store.failing = True
    for _ in range(2):
        with pytest.raises(OSError, match="the store fails"):
            ahead.read("a", 0, 10, SIZE)
    store.failing = False
    assert ahead.read("a", 0, 10, SIZE) == CONTENT[:10]


def test_waiting_threads_get_the_failure(store: Store) -> None:
    begun, go = threading.Event(), threading.Event()

    def fetch(file: str, start: int, end: int) -> bytes:
        begun.set()
        go.wait(10)
        raise OSError("gone")

    ahead = ReadAhead(fetch)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(ahead.read, "a", 0, 10, SIZE)]
        assert begun.wait(10)
        futures.append(pool.submit(ahead.read, "a", 0, 10, SIZE))
        time.sleep(0.05)
        go.set()
        for future in futures:
            with pytest.raises(OSError, match="gone"):
                future.result()


def test_an_iteration_that_ends_waits_for_no_store() -> None:
    begun, never = threading.Event(), threading.Event()

    def fetch(file: str, start: int, end: int) -> bytes:
        if start:
            begun.set()
            never.wait(60)
        return CONTENT[start:end]

    ahead = ReadAhead(fetch)
    stream = prefetched(lambda start: ahead.read("a", start, start + 10, SIZE), (0, 50_000), 2, 2)
    assert next(stream) == CONTENT[:10] and begun.wait(10)
    before = time.monotonic()
    stream.close()
    assert time.monotonic() - before < 30
    never.set()


def test_a_file_of_ranges_reads_like_a_file(store: Store) -> None:
    file = RangeFile(ReadAhead(store.fetch), "a", SIZE, 500, 700)
    assert store.asked == [("a", 500, 700)]
    assert (file.seek(500), file.read(100), file.read(100)) == (500, CONTENT[500:600], CONTENT[600:700])
    assert store.asked == [("a", 500, 700)]
    assert file.read(50) == CONTENT[700:750] and file.tell() == 750
    assert (file.seek(-10, 2), file.read(), file.read(5)) == (SIZE - 10, CONTENT[-10:], b"")
    assert (file.seek(2 * SIZE), file.read(5), file.seek(20), file.seek(-5, 1)) == (2 * SIZE, b"", 20, 15)
    assert file.read(10) == CONTENT[15:25]


def test_without_threads_the_reader_fetches_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    ahead = ReadAhead(store.fetch)
    assert b"".join(ahead.read("a", start, start + 100, SIZE) for start in range(0, 2000, 100)) == CONTENT[:2000]
