"""The signals that end a command early: Ctrl-C, SIGTERM, and SIGHUP from a terminal that has closed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Optional

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_end(notice: Callable[[int], bool]) -> None:
    """Make each of these signals raise KeyboardInterrupt, as Ctrl-C does.

    ``notice`` receives the signal's number and returns whether to raise. Signals that this process was started to
    ignore (by nohup, or in a shell's background) stay ignored.
    """

    def end(number: int, frame: Optional[FrameType]) -> None:
        if notice(number):
            raise KeyboardInterrupt

    for each in SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, end)


def no_more() -> None:
    """Restore the system's handling of these signals: they end the process."""
    for each in SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:
            signal.signal(each, signal.SIG_DFL)


def exit_code(number: int) -> int:
    """The exit code of a command that a signal has ended: 130, 143 or 129."""
    return 128 + number
