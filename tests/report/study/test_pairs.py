"""Contestants beside those that they were put against."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.report.study.pairs import pairs
from quantkit.report.study.summary import summarize
from tests.report.synthetic import FUSED, INT8, NATIVE, PINNED, results

CONTESTANTS = (NATIVE, FUSED, PINNED, replace(INT8, against=("fused", "INT8 pinned")))


def test_a_pair_has_the_ratio_of_both() -> None:
    (study,) = summarize([results(batches=(1,), contestants=CONTESTANTS)])
    made = {(each.contestant, each.against): each for each in pairs(study)}
    assert list(made) == [("INT8", "fused"), ("INT8", "INT8 pinned")]
    assert {each.metric for each in made.values()} == {"throughput"}
    assert made["INT8", "fused"].factor.value == pytest.approx(20 / 7, rel=0.1)
    # Two instances at 12 each.
    assert made["INT8", "INT8 pinned"].factor.value == pytest.approx(20 / 24, rel=0.1)


def test_latencies_are_compared_where_they_were_measured() -> None:
    """One instance of two answers no later than the only one of another contestant."""
    (study,) = summarize([results(batches=(1,), contestants=CONTESTANTS, scenario="latency")])
    made = {each.against: each for each in pairs(study)}
    assert {each.metric for each in made.values()} == {"latency"}
    assert made["INT8 pinned"].factor.value == pytest.approx(20 / 12, rel=0.1)


def test_every_network_and_batch_size_has_its_own_pair() -> None:
    """The second network is a tenth faster in all but the baseline; latencies grow with the batch."""
    contestants = (NATIVE, FUSED, replace(INT8, against=("fused", "native")))
    given = results(networks=("a", "b"), batches=(1, 8), contestants=contestants, scenario="latency")
    factors = {(each.network, each.batch, each.against): each.factor.value for each in pairs(summarize([given])[0])}
    ratios = {("a", "fused"): 20 / 7, ("b", "fused"): 20 / 7, ("a", "native"): 20, ("b", "native"): 22}
    assert factors == {
        (network, batch, against): pytest.approx(factor, rel=0.04)
        for (network, against), factor in ratios.items()
        for batch in (1, 8)
    }


def test_without_the_other_there_is_no_pair() -> None:
    given = results(batches=(1,), contestants=(NATIVE, replace(INT8, against=("gone",))))
    assert pairs(summarize([given])[0]) == ()
