"""Results with everything that a report can show."""

from __future__ import annotations

from dataclasses import replace

from quantkit.benchmark.results.results import LeftOut, Machine, Network, Published, PublishedSource, Results
from tests.report.synthetic import CONTESTANTS, INT8, NATIVE, SPEED, failed, results, served

HOSTILE = "<script>alert(1)</script>\"'&$x^2$|`[a](javascript:b)\u202eevil\n# x {{ 7 * 7 }}"


def complete() -> Results:
    """Accuracy, published figures, random weights, a failure, a left-out cell, warnings, the server scenario."""
    given = results(("good", "drawn"), (1, 8), CONTESTANTS, speed={**SPEED, "fused": 5.0})
    networks = (
        Network("good", "trained", 10**9, accuracy={"top1": 0.972, "cosine": 0.9991}),
        Network("drawn", "random", 10**9, "sequence", {"top1": 0.1}),
    )
    cells = [each for each in given.cells if (each.network, each.batch, each.contestant) != ("drawn", 8, INT8)]
    cells.append(failed("drawn", 8, INT8, "instance 1 was killed by signal 9", ["first line", "<b>last</b> line"]))
    cells += [served("good", replace(INT8, name="INT8 server"), 90.0)]
    noisy = replace(cells[0], rounds=tuple(replace(turn, stolen=0.25) for turn in cells[0].rounds))
    contestants = (*CONTESTANTS, replace(INT8, name="INT8 server"))
    run = replace(
        given.run,
        networks=networks,
        contestants=contestants,
        published=(
            Published("good", 8, "INT8", "throughput", "speedup", 28.25, "article"),
            Published("good", 8, "INT8", "throughput", "throughput", 1297.5),
        ),
        source="a table",
        sources=(PublishedSource("article", "an article", Machine("a server", 48, "AVX512")),),
        left_out=(LeftOut("drawn", 64, "native", "needs 6.4 minutes"),),
        warnings=("the processor slowed down for heat 3 times",),
    )
    return Results(run, (noisy, *cells[1:]))


def hostile() -> Results:
    """Names that are markup in every format of a report."""
    evil = replace(INT8, name=HOSTILE)
    given = results((HOSTILE, "=1+1"), (1, 2), (NATIVE, evil), {"native": 1.0, HOSTILE: 3.0})
    run = replace(
        given.run,
        title=HOSTILE,
        source=HOSTILE,
        left_out=(LeftOut(HOSTILE, 8, HOSTILE, HOSTILE),),
        warnings=(HOSTILE,),
        host={**given.run.host, HOSTILE: HOSTILE},
    )
    return Results(run, (*given.cells, failed(HOSTILE, 4, evil, HOSTILE, [HOSTILE, "```", "</pre>", "\x1b[31mred"])))
