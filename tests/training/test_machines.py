"""Machines that train together; here they are all this one, as far as that can be."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from quantkit.errors import UserError
from quantkit.training.machines import Machines, on_this_machine


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0, 0, "a:1"), "machines is 0; give a whole number from 1 up"),
        ((2, -1, "a:1"), "machine is -1; give a whole number from 0 up"),
        ((2, 2, "a:1"), "machine is 2 of 2 machines; give a number from 0 to 1"),
        ((2, 0, "a"), "scheduler is 'a'; give the address of machine 0, such as 10.0.0.1:9000"),
        ((2, 0, "a:0"), "scheduler is 'a:0'"),
        ((2, 0, "a:70000"), "scheduler is 'a:70000'"),
        ((2, 0, "a b:9"), "scheduler is 'a b:9'"),
    ],
)
def test_impossible_values_are_refused(values: tuple[Any, ...], words: str) -> None:
    with pytest.raises(UserError) as caught:
        Machines(*values)
    assert words in str(caught.value)


def test_each_machine_is_reached_by_the_address_that_faces_the_first() -> None:
    assert Machines(2, 1, "localhost:9000").meeting_point().host == "127.0.0.1"
    point = Machines(2, 1, "127.0.0.1:9000").meeting_point()
    assert point == ("127.0.0.1", 9000, "127.0.0.1")
    with pytest.raises(UserError, match=r"cannot reach nowhere\.invalid:9000: .*give the address of machine 0"):
        Machines(2, 1, "nowhere.invalid:9000").meeting_point()
    with pytest.raises(UserError, match=r"cannot reach a\.\.b:9000"):
        Machines(2, 1, "a..b:9000").meeting_point()


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        scheduler = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=f"machine 0 cannot listen at {scheduler}: Address already in use"):
            Machines(2, 0, scheduler).meeting_point()


def test_instances_of_one_machine_meet_where_nobody_else_comes() -> None:
    first, second = on_this_machine(), on_this_machine()
    assert first.host == first.own == "127.0.0.1" and first.port != second.port


def test_a_name_that_leads_nowhere_else_is_no_meeting_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in /etc/hosts of Debian, which gives a machine's own name an address of the loopback interface."""
    found = [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("127.0.1.1", 9000))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    with pytest.raises(UserError, match=r"trainer is 127\.0\.1\.1 here, which no other machine reaches; give machine"):
        Machines(2, 0, "trainer:9000").meeting_point()
