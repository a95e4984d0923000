"""The signals that end a command before it is done: Ctrl-C, SIGTERM, and SIGHUP where a terminal has gone."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Optional

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_end(notice: Callable[[int], bool]) -> None:
    """From now on have each of these signals do what Ctrl-C does: raise KeyboardInterrupt.

    ``notice`` is told its number, and whether it is to be raised is what it returns.
    What whoever started this process has it ignore (nohup, a shell's background) stays ignored.
    """

    def end(number: int, frame: Optional[FrameType]) -> None:
        if notice(number):
            raise KeyboardInterrupt

    for each in SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, end)


def no_more() -> None:
    """From now on let these signals end the process as the system does."""
    for each in SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, signal.SIG_DFL)


def exit_code(number: int) -> int:
    """The exit code of a command that a signal has ended: 130, 143 or 129."""
    return 128 + number
