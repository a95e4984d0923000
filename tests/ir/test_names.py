from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quantkit.ir.names import Names

NAMES = st.lists(st.sampled_from(["w", "w_1", "w_2", "w_1_1", "w_3", "x"]), max_size=12)


def first_free(wanted: str, taken: set[str]) -> str:
    number, name = 0, wanted
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


@given(taken=NAMES, wanted=NAMES)
def test_what_is_taken_is_the_first_that_nothing_has(taken: list[str], wanted: list[str]) -> None:
    names, known = Names(taken), set(taken)
    for each in wanted:
        found = names.take(each)
        assert found == first_free(each, known)
        known.add(found)


@given(taken=NAMES, wanted=st.sampled_from(["w", "w_1"]), added=NAMES)
def test_a_free_name_stays_free_until_it_is_added(taken: list[str], wanted: str, added: list[str]) -> None:
    names = Names(taken)
    assert names.free(wanted) == names.free(wanted) == first_free(wanted, set(taken))
    names.add(added)
    assert names.free(wanted) == first_free(wanted, {*taken, *added})


def test_names_like_one_are_not_looked_for_from_the_first_on() -> None:
    asked = 0

    class Counted(str):
        __slots__ = ()

        def __format__(self, form: str) -> str:
            nonlocal asked
            asked += 1
            return super().__format__(form)

    names, wanted = Names({"w", "w_2"}), Counted("w")
    found = [names.take(wanted) for _ in range(1000)]
    assert found[:3] == ["w_1", "w_3", "w_4"]
    assert len(set(found)) == 1000
    assert asked < 3000
