"""The page of what a cluster's results are compared with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Optional

HOST = {"cpu": "a processor", "vnni": "no", "mxnet": "1.9.1", "python": "3.11.7", "threads": "all"}


def test_a_result_that_is_another_is_told() -> None:
    from cluster_identity import Result, differing, page

    def result(workers: Optional[int], preset: str, bundle: str = "b", evaluation: str = "e") -> Result:
        return Result(workers, 8 if workers == 1 else None, "mse", preset, f"{bundle} {preset}", evaluation)

    found = [
        *(result(workers, preset) for workers in (None, 1) for preset in ("none", "fast")),
        result(2, "none", evaluation="other"),
        result(2, "fast"),
        result(4, "none"),
        result(4, "fast", bundle="other"),
    ]
    assert differing(found) == [found[4], found[7]]
    document = {"command": "it", "host": HOST, "network": "net", "samples": 20}
    lines = page({**document, "results": [asdict(each) for each in found]}).splitlines()
    assert lines[-3:] == [
        "| 1 | 8 | mse | 2 of 2 the same |",
        "| 2 | fewer towards the end | mse | other with none |",
        "| 4 | fewer towards the end | mse | other with fast |",
    ]
