"""The suite of convolutions in groups: its forms compute the same network."""

from __future__ import annotations

from dataclasses import asdict


def test_a_convolution_for_each_group_computes_as_the_whole_does(int8_engine: None) -> None:
    from grouped import _COLUMNS, Shape, _line, _rows

    rows = list(_rows(Shape("net", 16, 4, 3, 8), rounds=2, runs=1))
    assert [row.batch for row in rows] == [1, 16]
    for row in rows:
        noise = row.decibels
        # Both round the same weights in the same way, and a scale for all channels is coarser.
        assert abs(noise["quantkit"] - noise["side by side"]) < 1
        assert noise["quantkit"] > 25
        assert noise["weights of quantkit"] > noise["weights of one scale"]
        assert _line(asdict(row)).count("|") == len(_COLUMNS) + 1
