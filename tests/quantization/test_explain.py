"""What is said of recurrent layers that were taken apart."""

from __future__ import annotations

import pytest

from quantkit.quantization.explain import explain
from tests.quantization.recurrent_networks import quantized
from tests.sequences import sequence_network, sequences

DATA = sequences(4, tokens=False)


def test_each_layer_of_an_lstm_is_told_with_its_own_reason(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, network = quantized(monkeypatch, sequence_network("NTC"), DATA, zero=["lstm_fused_0"])
    rows = explain(fused, network.plan)
    told = [(row.into, row.precision, row.reason) for row in rows if row.node == "lstm"]
    assert told == [
        ("lstm_fused_0", "fp32", "its result is 0 in every sample"),
        ("lstm_fused", "fp32", "its input is 0 in every sample"),
    ]
    assert {row.operator for row in rows if row.node == "lstm"} == {"RNN"}


def test_reshapes_around_a_dense_layer_are_not_told(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    rows = explain(fused, network.plan)
    assert [row.into for row in rows if row.node == "dense"] == ["dense_dense"]
    assert list(dict.fromkeys(row.node for row in rows)) == [node.name for node in fused.original.nodes]


def test_what_was_not_fused_is_said_once(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, network = quantized(monkeypatch, sequence_network("NTC", final_states=True), DATA)
    (row,) = (row for row in explain(fused, network.plan) if row.node == "lstm")
    assert (row.into, row.precision) == ("lstm", "fp32")
    assert row.rejections == ("recurrent layers batch first: the final state of its cells is read",)
