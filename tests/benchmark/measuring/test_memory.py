"""What contestants will take, from what they took, and which of them fit into memory together."""

from __future__ import annotations

import pytest

from quantkit.benchmark.measuring.memory import Memory, fitting, larger_than, planned, reason


def test_memory_grows_along_the_line_through_the_two_largest_batch_sizes() -> None:
    memory = Memory()
    for batch, taken in ((16, 900), (1, 300), (4, 400)):
        memory.learn("net", "native", batch, taken)
    assert memory.needed("net", "native", 64) == 900 + 48 * 500 // 12
    assert memory.has_seen("net", "native", 4)
    assert not memory.has_seen("net", "native", 8)
    assert not memory.has_seen("other", "native", 4)


def test_memory_does_not_shrink() -> None:
    memory = Memory()
    memory.learn("net", "native", 1, 500)
    memory.learn("net", "native", 4, 400)
    assert memory.needed("net", "native", 16) == 500


@pytest.mark.parametrize("known", [(), (1,)])
def test_one_batch_size_tells_nothing(known: tuple[int, ...]) -> None:
    memory = Memory()
    for batch in known:
        memory.learn("net", "native", batch, 300)
    assert memory.needed("net", "native", 16) == 0


@pytest.mark.parametrize(
    ("most", "chosen"),
    [(59, "b c"), (60, "a"), (70, "a c"), (90, "a c"), (91, "a b c"), (9, ""), (10, "c"), (31, "b c")],
)
def test_the_first_comes_before_those_that_need_least(most: int, chosen: str) -> None:
    assert fitting({"c": 10, "b": 21, "a": 60}, "a", most) == set(chosen.split())


def test_a_part_of_the_memory_is_kept() -> None:
    assert planned(1000, 500) == 1050


def test_the_reason_tells_all_three_numbers() -> None:
    needs = {"native": 3_200_000_000, "INT8": 1_000_000_000}
    assert reason(needs, "native", 4_000_000_000) == (
        "at this batch size it would take about 3.2 GB of memory, all contestants together 4.2 GB, and 4.0 GB may be "
        "used"
    )


def test_only_larger_batch_sizes_are_larger() -> None:
    assert larger_than((1, 16), (128, 16, 32, 8)) == (32, 128)
