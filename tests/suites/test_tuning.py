"""The suite of tuning: what its page says of the winner over others."""

from __future__ import annotations

from typing import Any


def other(name: str, mode: str | None, ratio: float, p99: float = 1.0) -> dict[str, Any]:
    return {"name": name, "mode": mode, "rate": 100 / ratio, "p99": p99, "ratio": [ratio, ratio, ratio]}


def row(network: str, bound: float | None, *others: dict[str, Any]) -> dict[str, Any]:
    figures = {"winner": "MXNet, streams", "rate": 100.0, "p99": 4.0, "rounds": 9}
    return {"network": network, "bound": bound, **figures, "others": list(others)}


def test_means_are_over_cases_and_the_smallest_is_named() -> None:
    from tuning import page

    document = {
        "command": "python x",
        "host": {"cpu": "y"},
        "rows": [
            row("one", None, other("MXNet by itself", "default", 4.0), other("OpenVINO hint", "THROUGHPUT", 1.0)),
            row("two", None, other("MXNet by itself", "default", 1.0), other("quantkit's", None, 0.5)),
            row("two", 5.0, other("MXNet by itself", "default", 2.0, 4.0), other("ORT by itself", "default", 0.9, 9.0)),
            {**row("one", 3.0), "problem": "nothing keeps the bounds"},
        ],
    }
    written = page(document).splitlines()
    assert "| MXNet by itself, without a bound | 2 of 2 | 2.000 [2.000, 2.000] | 1.000 (two) |" in written
    assert "| the best of all modes, without a bound | 2 of 2 | 1.000 [1.000, 1.000] | 1.000 (one) |" in written
    # One that breaks the bound is none of the best.
    assert "| the best default session, under a bound | 1 of 2 | 2.000 [2.000, 2.000] | 2.000 (two) |" in written
    assert "| two | 5.0 | MXNet, streams | 100.0 | 4.0 | MXNet by itself | 2.000 [2.000, 2.000] | 4.0 |" in written
    assert "|  |  |  |  |  | ORT by itself | 0.900 [0.900, 0.900] | 9.0 |" in written
    assert "| one | 3.0 | nothing keeps the bounds |  |  |  |  |  |" in written
