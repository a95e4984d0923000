"""MLPerf's LoadGen in a process of its own, which can be ended at any time.

LoadGen cannot be stopped: an exception that passes through it makes its next run abort the process. This file
needs the standard library and ``mlperf_loadgen`` alone. Its argument is a JSON object: ``path`` is where
``mlperf_loadgen`` lies, ``queries`` the inherited descriptor on which it writes the number of each query
when it is due, a line each, ``folder`` where LoadGen writes its logs, and ``rate`` (queries per second), ``bound``
(ms), ``seconds`` and ``seed`` are the test's. Standard input brings the number of each query that is completed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

_LIBRARY = [0]


def main(argument: str) -> None:
    """Run one test of the server scenario."""
    settings = json.loads(argument)
    sys.path.append(settings["path"])
    import mlperf_loadgen as loadgen

    os.dup2(2, 1)
    threading.Thread(target=_complete, args=(loadgen,), daemon=True).start()

    def issue(samples: list[Any]) -> None:
        os.write(settings["queries"], b"".join(b"%d\n" % sample.id for sample in samples))

    system = loadgen.ConstructSUT(issue, _nothing)
    library = loadgen.ConstructQSL(len(_LIBRARY), len(_LIBRARY), _nothing, _nothing)
    log = loadgen.LogSettings()
    log.log_output.outdir = settings["folder"]
    log.log_output.copy_summary_to_stdout = False
    # An audit.config in the current folder would change the test.
    audit = os.path.join(settings["folder"], "audit.config")
    loadgen.StartTestWithLogSettings(system, library, _test(loadgen, settings), log, audit)


def _test(loadgen: Any, settings: dict[str, Any]) -> Any:
    test = loadgen.TestSettings()
    test.scenario = loadgen.TestScenario.Server
    test.mode = loadgen.TestMode.PerformanceOnly
    test.server_target_qps = settings["rate"]
    test.server_target_latency_ns = int(settings["bound"] * 1e6)
    test.server_target_latency_percentile = 0.99
    test.min_duration_ms = int(settings["seconds"] * 1e3)
    test.min_query_count = 1
    test.schedule_rng_seed = settings["seed"]
    test.sample_index_rng_seed = test.qsl_rng_seed = settings["seed"]
    return test


def _complete(loadgen: Any) -> None:
    """Pass completed queries on; where the one who answers is gone, so is the reason to live."""
    with open(0, "rb", closefd=False) as answers:
        for line in answers:
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(int(line), 0, 0)])
    os._exit(1)


def _nothing(*_: Any) -> None:
    """LoadGen's samples need no loading."""


if __name__ == "__main__":
    main(sys.argv[1])
    # Python's end would wait for the thread that reads.
    os._exit(0)
