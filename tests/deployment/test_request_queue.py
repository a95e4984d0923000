"""Requests that wait for instances."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Optional

import numpy as np
import pytest

from quantkit.deployment.request import Piece, Request
from quantkit.deployment.request_queue import RequestQueue
from quantkit.deployment.runner import RunnerStatus
from quantkit.errors import DeadlineExceeded, EngineError

LIMIT = 30.0


def request(first: int, size: int, deadline: Optional[float] = None) -> Request:
    """Samples that are consecutive numbers."""
    return Request(np.arange(first, first + size, dtype=np.float32)[:, None], deadline)


def queue(*requests: Request, instances: int = 1, limit: int = 100) -> RequestQueue:
    made = RequestQueue(limit, instances)
    for each in requests:
        made.put(each)
    return made


def samples(pieces: Optional[list[Piece]]) -> list[int]:
    return [int(number) for piece in pieces or () for number in piece.data]


def compute(pieces: list[Piece]) -> None:
    """Answer with twice the samples, and their squares."""
    for piece in pieces:
        piece.request.put(piece.start, [2 * piece.data, piece.data**2])


def in_threads(work: Any, number: int) -> list[Future[Any]]:
    pool = ThreadPoolExecutor(number)
    futures = [pool.submit(work) for _ in range(number)]
    pool.shutdown(wait=False)
    return futures


def test_whoever_passes_by_takes_a_free_place() -> None:
    waiting = RequestQueue(100, 2, 2)
    assert [waiting.pass_by(1) for _ in range(3)] == [True, True, False]
    waiting.give_back()
    assert waiting.pass_by(1)
    assert waiting.status().batches == {1: 3}
    # Where everybody has a place of its own, there is none to take.
    assert not queue().pass_by(1)


def test_nobody_passes_by_who_waits() -> None:
    waiting = RequestQueue(100, 2, 2)
    waiting.put(request(0, 1))
    assert not waiting.pass_by(1)
    assert samples(waiting.take(4, 0.0, LIMIT)) == [0]
    assert waiting.pass_by(1)
    waiting.fail(EngineError("lost"))
    with pytest.raises(EngineError, match="lost"):
        waiting.pass_by(1)


def test_what_waits_is_taken_when_a_place_is_free() -> None:
    waiting = RequestQueue(100, 1, 1)
    assert waiting.pass_by(1)
    waiting.put(request(0, 3))
    assert waiting.take(4, 0.0, 0.0) == []
    (taken,) = in_threads(lambda: waiting.take(4, 0.0, 10 * LIMIT), 1)
    time.sleep(0.05)
    assert not taken.done()
    waiting.give_back()
    assert samples(taken.result(LIMIT)) == [0, 1, 2]
    # That took it again.
    assert not waiting.pass_by(1)


def test_free_places_share_what_waits() -> None:
    waiting = RequestQueue(100, 2, 2)
    waiting.put(request(0, 4))
    assert [samples(waiting.take(4, 0.0, LIMIT)) for _ in range(2)] == [[0, 1], [2, 3]]


def test_requests_are_put_together_and_taken_apart_in_their_order() -> None:
    requests = [request(0, 2), request(2, 5), request(7, 1)]
    waiting = queue(*requests)
    batches = [waiting.take(3, 0.0, LIMIT) or [] for _ in range(3)]
    assert [samples(each) for each in batches] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    for batch in reversed(batches):
        compute(batch)
    for each in requests:
        doubled, squares = each.future.result(0)
        np.testing.assert_array_equal(doubled, 2 * each.data)
        np.testing.assert_array_equal(squares, each.data**2)


def test_idle_instances_share_what_waits() -> None:
    waiting = queue(instances=2)
    idle = in_threads(lambda: waiting.take(8, 0.0, LIMIT), 2)
    while waiting._idle < 2:
        time.sleep(0.001)
    waiting.put(request(0, 8))
    assert sorted(samples(each.result(LIMIT)) for each in idle) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_an_idle_instance_waits_for_a_full_batch_in_its_window() -> None:
    waiting = queue(request(0, 1))
    (taken,) = in_threads(lambda: waiting.take(3, LIMIT, LIMIT), 1)
    waiting.put(request(1, 1))
    assert not taken.done()
    waiting.put(request(2, 1))
    assert samples(taken.result(LIMIT)) == [0, 1, 2]


def test_and_no_longer() -> None:
    begun = time.monotonic()
    assert samples(queue(request(0, 1)).take(3, 0.05, LIMIT)) == [0]
    assert time.monotonic() - begun >= 0.05


def test_only_full_batches_are_taken_ahead_and_only_what_nobody_is_idle_for() -> None:
    waiting = queue(request(0, 5))
    assert samples(waiting.take_ahead(3)) == [0, 1, 2]
    assert not waiting.take_ahead(3)
    (idle,) = in_threads(lambda: waiting.take(3, LIMIT, LIMIT), 1)
    while not waiting._idle:
        time.sleep(0.001)
    assert not waiting.take_ahead(2)
    waiting.put(request(5, 1))
    assert samples(idle.result(LIMIT)) == [3, 4, 5]


def test_more_of_one_request_is_taken_at_once_than_of_several() -> None:
    waiting = queue(request(0, 9), request(9, 2), request(11, 2))
    assert samples(waiting.take(3, 0.0, LIMIT, longest=6)) == [0, 1, 2, 3, 4, 5]
    assert samples(waiting.take(3, 0.0, LIMIT, longest=6)) == [6, 7, 8]
    assert samples(waiting.take(3, 0.0, LIMIT, longest=6)) == [9, 10, 11]


def test_a_request_is_shared_among_instances_even_so() -> None:
    waiting = queue(instances=2)
    idle = in_threads(lambda: waiting.take(1, 0.0, LIMIT, longest=6), 2)
    while waiting._idle < 2:
        time.sleep(0.001)
    waiting.put(request(0, 8))
    assert sorted(samples(each.result(LIMIT)) for each in idle) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    waiting.put(request(0, 10))
    assert samples(waiting.take_ahead(1, longest=6)) == [0, 1, 2, 3, 4]
    assert samples(waiting.take(1, 0.0, LIMIT, longest=6)) == [5, 6, 7, 8, 9]


def test_instances_that_wait_for_full_batches_do_not_share_them() -> None:
    waiting = queue(instances=2)
    idle = in_threads(lambda: waiting.take(4, LIMIT, LIMIT), 2)
    while waiting._idle < 2:
        time.sleep(0.001)
    for number in range(8):
        waiting.put(request(number, 1))
    assert sorted(samples(each.result(LIMIT)) for each in idle) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_an_instance_that_waits_is_told_when_there_is_nothing() -> None:
    assert queue().take(3, 0.0, 0.01) == []
    waiting = queue(request(0, 1, time.monotonic() + 0.01))
    time.sleep(0.02)
    assert waiting.take(3, 0.0, LIMIT) == []


def test_callers_wait_while_too_many_samples_do() -> None:
    waiting = queue(request(0, 3), limit=4)
    (putting,) = in_threads(lambda: waiting.put(request(3, 2)), 1)
    time.sleep(0.05)
    assert not putting.done()
    assert samples(waiting.take(2, 0.0, LIMIT)) == [0, 1]
    putting.result(LIMIT)
    assert samples(waiting.take(9, 0.0, LIMIT)) == [2, 3, 4]
    waiting.put(request(0, 5))
    assert samples(waiting.take(9, 0.0, LIMIT)) == [0, 1, 2, 3, 4]


def test_whoever_came_first_enters_first() -> None:
    waiting = queue(request(0, 1), limit=4)
    (large,) = in_threads(lambda: waiting.put(request(1, 4)), 1)
    while not waiting._line:
        time.sleep(0.001)
    (small,) = in_threads(lambda: waiting.put(request(5, 1)), 1)
    time.sleep(0.05)
    assert not large.done() and not small.done()
    assert samples(waiting.take(1, 0.0, LIMIT)) == [0]
    large.result(LIMIT)
    assert samples(waiting.take(9, 0.0, LIMIT)) == [1, 2, 3, 4]
    small.result(LIMIT)
    assert samples(waiting.take(9, 0.0, LIMIT)) == [5]


def test_what_is_given_up_while_it_waits_for_room_does_not_enter() -> None:
    waiting, given_up = queue(request(0, 4), limit=4), request(4, 1)
    (putting,) = in_threads(lambda: waiting.put(given_up), 1)
    while not waiting._line:
        time.sleep(0.001)
    assert given_up.future.cancel()
    assert samples(waiting.take(2, 0.0, LIMIT)) == [0, 1]
    putting.result(LIMIT)
    assert samples(waiting.take(9, 0.0, LIMIT)) == [2, 3]


def test_what_was_given_up_or_is_overdue_is_not_computed() -> None:
    late, given_up, wanted = request(0, 1, time.monotonic() + 0.01), request(1, 1), request(2, 1)
    waiting = queue(late, given_up, wanted)
    assert given_up.future.cancel()
    time.sleep(0.02)
    assert samples(waiting.take(9, 0.0, LIMIT)) == [2]
    with pytest.raises(DeadlineExceeded, match="not answered in its time"):
        late.future.result(0)
    assert not wanted.future.cancel()


def test_a_deadline_counts_for_the_wait_for_room() -> None:
    waiting = queue(request(0, 4), limit=4)
    with pytest.raises(DeadlineExceeded):
        waiting.put(request(4, 1, time.monotonic() + 0.01))
    with pytest.raises(DeadlineExceeded):
        waiting.put(request(4, 1, time.monotonic() - 1))
    assert samples(waiting.take(9, 0.0, LIMIT)) == [0, 1, 2, 3]


def test_what_an_instance_was_lost_with_comes_first_and_alone_and_once_more_only() -> None:
    first, second, third = requests = [request(0, 1), request(1, 1), request(2, 1)]
    waiting = queue(*requests)
    lost, error = waiting.take(2, 0.0, LIMIT) or [], EngineError("an instance was killed")
    assert samples(lost) == [0, 1]
    waiting.put_back(lost, error)
    again = waiting.take(9, 0.0, LIMIT) or []
    assert samples(again) == [0]
    waiting.put_back(again, error)
    with pytest.raises(EngineError, match="an instance was killed"):
        first.answer()
    for expected in (1, 2):
        pieces = waiting.take(9, 0.0, LIMIT) or []
        assert samples(pieces) == [expected]
        compute(pieces)
    assert second.future.result(0) and third.future.result(0)


def test_what_an_instance_had_not_begun_with_does_not_count_as_lost() -> None:
    waiting = queue(request(0, 1), request(1, 1))
    for _ in range(5):
        waiting.put_back(waiting.take(9, 0.0, LIMIT) or ())
    assert samples(waiting.take(9, 0.0, LIMIT)) == [0, 1]


def test_what_was_lost_is_computed_with_nothing_else_begun() -> None:
    waiting = queue(request(0, 1), request(1, 1))
    waiting.put_back(waiting.take(1, 0.0, LIMIT) or (), EngineError("it is lost"))
    assert not waiting.take_ahead(1)
    assert samples(waiting.take(9, 0.0, LIMIT)) == [0]
    assert samples(waiting.take_ahead(1)) == [1]


def test_a_request_of_which_a_part_fails_fails() -> None:
    whole = request(0, 4)
    waiting = queue(whole)
    one, other = waiting.take(2, 0.0, LIMIT), waiting.take(2, 0.0, LIMIT)
    assert one and other
    waiting.put_back(one, EngineError("it is lost"))
    waiting.put_back(waiting.take(2, 0.0, LIMIT) or (), EngineError("it is lost"))
    compute(other)
    with pytest.raises(EngineError, match="it is lost"):
        whole.future.result(0)


def test_all_requests_fail_with_the_last_instance() -> None:
    before, waiting = request(0, 1), queue(instances=2)
    waiting.put(before)
    waiting.leave(EngineError("the first is lost"))
    assert not before.future.done()
    (room,) = in_threads(lambda: waiting.put(request(1, 100)), 1)
    waiting.leave(EngineError("the last is lost"))
    with pytest.raises(EngineError, match="the last is lost"):
        before.future.result(0)
    with pytest.raises(EngineError, match="the last is lost"):
        room.result(LIMIT)
    with pytest.raises(EngineError, match="the last is lost"):
        waiting.put(request(2, 1))
    assert waiting.take(3, 0.0, LIMIT) is None


def test_what_cannot_wait_for_room_enters_only_where_there_is_some() -> None:
    waiting = queue(request(0, 2), limit=3)
    assert waiting.put_at_once(request(2, 1))
    assert not waiting.put_at_once(request(3, 1))
    assert samples(waiting.take(8, 0.0, LIMIT)) == [0, 1, 2]
    assert waiting.put_at_once(request(3, 9))
    (entering,) = in_threads(lambda: waiting.put(request(12, 1)), 1)
    while not waiting._line:
        time.sleep(0.001)
    # Nobody overtakes the one that waits for room.
    assert not waiting.put_at_once(request(13, 1))
    assert samples(waiting.take(9, 0.0, LIMIT)) == list(range(3, 12))
    entering.result(LIMIT)
    waiting.fail(EngineError("closed"))
    with pytest.raises(EngineError, match="closed"):
        waiting.put_at_once(request(14, 1))


def test_what_is_begun_is_counted_in_the_batches_that_it_is_computed_in() -> None:
    waiting = queue(request(0, 7), request(7, 1), instances=1)
    assert waiting.status().waiting == 8
    waiting.take(3, 0.0, LIMIT, longest=16)
    waiting.take(3, 0.0, LIMIT, longest=16)
    assert waiting.status() == RunnerStatus(0, {3: 2, 1: 2})
    waiting.fail(EngineError("closed"))
    assert waiting.status().failed
