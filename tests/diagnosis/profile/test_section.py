from __future__ import annotations

import pytest

from quantkit.backends.mxnet.own_profiler import CALL, OPERATOR, Span
from quantkit.diagnosis.profile.section import profiled, section_of
from quantkit.errors import EngineError, UserError

# Two threads: Concat runs while the convolution still does, and the program waits for both.
SPANS = (
    Span(OPERATOR, "Convolution", 1.0, 6.0),
    Span(OPERATOR, "Concat", 4.0, 8.0),
    Span(OPERATOR, "_contrib_quantize_v2", 9.0, 10.0),
    Span(OPERATOR, "Convolution", 12.0, 13.0),
    Span(OPERATOR, "[Convolution,Activation", 13.0, 15.0),
    Span(OPERATOR, "DeleteVariable", 15.0, 16.0),
    Span(CALL, "MXImperativeInvokeEx", 0.5, 0.75),
    Span(CALL, "MXNDArraySyncCopyToCPU", 2.0, 10.0),
    Span(CALL, "MXNDArrayWaitAll", 16.0, 17.0),
)


def test_what_a_section_was_spent_on() -> None:
    section = section_of(20.0, SPANS)
    assert section.operators == {
        "Convolution": (2, 6.0),
        "Concat": (1, 4.0),
        "_contrib_quantize_v2": (1, 1.0),
        "operators in bulk": (1, 2.0),
    }
    assert (section.computing, section.copies, section.conversions) == (8.0, 4.0, 1.0)
    assert (section.busy, section.idle, section.waiting) == (7.0 + 1.0 + 3.0, 9.0, 9.0)
    assert section.overhead == 0.25 + 1.0 + 1.0
    assert repr(section) == (
        "Section(20.0 ms: computing 8.0, conversions 1.0, copies 4.0, idle 9.0, of it overhead 2.2; waiting 9.0)"
    )


def test_a_block_of_a_program(engine: None) -> None:
    from quantkit.backends.mxnet.compat import load_mxnet

    mxnet = load_mxnet()
    data, weight = mxnet.nd.ones((1, 8, 16, 16)), mxnet.nd.ones((8, 8, 3, 3))

    def convolve(times: int) -> None:
        for _ in range(times):
            mxnet.nd.Convolution(data, weight, no_bias=True, kernel=(3, 3), num_filter=8).asnumpy()

    # MXNet's traces have faults from the third one on.
    for times in (1, 2, 3, 4):
        convolve(1)
        with profiled() as profiling:
            convolve(times)
        section = profiling.section
        assert section.operators["Convolution"][0] == times
        assert 0 < section.computing <= section.milliseconds
        assert 0 < section.waiting < section.milliseconds
        assert 0 < section.overhead < section.idle
        assert section.busy + section.idle == pytest.approx(section.milliseconds)


def test_one_block_at_a_time_and_afterwards(engine: None) -> None:
    with profiled() as profiling:
        with pytest.raises(UserError, match="when the block has ended"):
            profiling.section  # noqa: B018
        with pytest.raises(EngineError, match="one part of a program at a time"):
            profiled().__enter__()
    assert profiling.section.operators == {}
    with pytest.raises(ZeroDivisionError), profiled():
        1 / 0  # noqa: B018
    with profiled() as again:
        pass
    assert again.section.milliseconds > 0
