"""Profiling a part of the user's own program: what MXNet did in it, and how long the program waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Optional

from quantkit.backends.mxnet.own_profiler import CALL, OPERATOR, OwnRecording, Span, recorded
from quantkit.diagnosis.profile.profile import kind_of_operator
from quantkit.errors import UserError

# The engine's own, which compute nothing.
_HOUSEKEEPING = frozenset({"DeleteVariable", "WaitForVar", "SetValueOp"})
# The calls that return when a result is there.
_WAITING = frozenset({"MXNDArrayWaitToRead", "MXNDArrayWaitToWrite", "MXNDArrayWaitAll", "MXNDArraySyncCopyToCPU"})


@dataclass(frozen=True)
class Section:
    """A part of a program, in ms. Operators may run while the program goes on, and several at once.

    Attributes:
        milliseconds: the time on the clock.
        operators: calls and ms of each type of operator. MXNet runs those of a network in bulk, unless
            MXNET_EXEC_BULK_EXEC_INFERENCE is 0 when it is loaded.
        conversions: operators that quantize, requantize and dequantize.
        copies: operators that only move values.
        computing: all others.
        busy: the time in which any operator ran.
        waiting: the time in which the program waited for results.
        overhead: the part of ``idle`` in which a call of MXNet was under way: it loads and binds a network, hands
            operators to the engine, has yet to notice that a result is there, or copies it to NumPy.

    Reorders of MKL-DNN happen inside operators; `quantkit profile` tells them for a bundle.
    """

    milliseconds: float
    operators: Mapping[str, tuple[int, float]]
    conversions: float
    copies: float
    computing: float
    busy: float
    waiting: float
    overhead: float

    @property
    def idle(self) -> float:
        """The time in which no operator ran: ``overhead``, and the program's own work, such as preparing data."""
        return self.milliseconds - self.busy

    def __repr__(self) -> str:
        return (
            f"Section({self.milliseconds:.1f} ms: computing {self.computing:.1f}, conversions {self.conversions:.1f}, "
            f"copies {self.copies:.1f}, idle {self.idle:.1f}, of it overhead {self.overhead:.1f}; "
            f"waiting {self.waiting:.1f})"
        )


class Profiling:
    """What ``profiled`` gives: the section, when it has ended."""

    def __init__(self, recording: OwnRecording) -> None:
        self._recording = recording
        self._section: Optional[Section] = None

    @property
    def section(self) -> Section:
        """The profile of the block.

        Raises:
            UserError: the block has not ended.
        """
        if self._section is None:
            raise UserError("the profile is there when the block has ended; ask for it after `with`")
        return self._section

    def end(self) -> None:
        """Make the section of what was recorded."""
        self._section = section_of(self._recording.milliseconds, self._recording.spans)


@contextmanager
def profiled() -> Iterator[Profiling]:
    """Profile what MXNet does in a block of a program, in all threads.

    ::

        with quantkit.profiled() as profiling:
            predictor.predict(images)
        print(profiling.section)

    MXNet is waited for at the beginning and at the end. The profiler costs some microseconds for each operator.

    Raises:
        EngineMissing: MXNet is not installed.
        EngineError: another block is being profiled.
    """
    with recorded() as recording:
        profiling = Profiling(recording)
        yield profiling
    profiling.end()


def section_of(milliseconds: float, spans: Iterable[Span]) -> Section:
    """The section of a recording."""
    all_spans = list(spans)
    ran = [span for span in all_spans if span.category == OPERATOR and span.name not in _HOUSEKEEPING]
    operators: dict[str, tuple[int, float]] = {}
    by_kind: defaultdict[str, float] = defaultdict(float)
    for span in ran:
        name = _name(span.name)
        count, before = operators.get(name, (0, 0.0))
        operators[name] = (count + 1, before + span.ended - span.begun)
        by_kind[kind_of_operator(span.name) or "computing"] += span.ended - span.begun
    calls = [span for span in all_spans if span.category == CALL]
    busy = _covered(ran)
    return Section(
        milliseconds,
        operators,
        by_kind["conversions"],
        by_kind["copies"],
        by_kind["computing"],
        busy=busy,
        waiting=_covered(call for call in calls if call.name in _WAITING),
        overhead=_covered([*ran, *calls]) - busy,
    )


def _name(operator: str) -> str:
    """The operator, or what to call several: MXNet lists some of them in brackets."""
    return "operators in bulk" if operator.startswith("[") else operator


def _covered(spans: Iterable[Span]) -> float:
    """The time that spans cover together, each moment once."""
    covered, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda each: each.begun):
        covered += max(0.0, span.ended - max(span.begun, reached))
        reached = max(reached, span.ended)
    return covered
