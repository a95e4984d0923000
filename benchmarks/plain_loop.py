"""The harness against a plain timing loop over the same checkpoint in the same build, in turns.

    python benchmarks/plain_loop.py resnet50 --build onednn --variant int8

The plain loop is what one would write by hand: load the checkpoint, bind, warm up, and time each forward pass
with ``perf_counter``. It runs in a process of its own, pinned and threaded as the harness does its instances.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
from command_line import ROUNDS
from scipy.stats import bootstrap

from quantkit.benchmark.builds.environments import open_build
from quantkit.benchmark.measuring.binding import launch
from quantkit.benchmark.measuring.team import Launch, Team
from quantkit.benchmark.placement.placement import place
from quantkit.benchmark.suites.suite import Subject
from quantkit.benchmark.workloads.workload import Workload, prepare
from quantkit.files.files import writing
from quantkit.host.cpu import read_cpu
from quantkit.host.limits import read_limits
from quantkit.host.machine import describe
from quantkit.host.placeholders import command
from quantkit.host.revision import own_revision
from quantkit.host.topology import read_topology

LOOP = """
import json, sys, time
import numpy as np
for kind in (bool, int, float, object, complex, str):
    if kind.__name__ not in np.__dict__:
        setattr(np, kind.__name__, kind)
if "requests" not in sys.modules:
    sys.modules["requests"] = type(sys)("requests")
import mxnet as mx
symbol, params, data, name, seconds = sys.argv[1:]
values = mx.nd.load(params)
arguments = {key[4:]: value for key, value in values.items() if key.startswith("arg:")}
auxiliary = {key[4:]: value for key, value in values.items() if key.startswith("aux:")}
arguments[name] = mx.nd.array(np.load(data))
network = mx.sym.load(symbol).bind(mx.cpu(), args=arguments, aux_states=auxiliary, grad_req="null")
for line in sys.stdin:
    times = []
    until = time.perf_counter() + float(seconds)
    while time.perf_counter() < until:
        begun = time.perf_counter()
        network.forward(is_train=False)
        mx.nd.waitall()
        times.append((time.perf_counter() - begun) * 1e3)
    print("TIMES", json.dumps(times), flush=True)
"""


def main() -> None:
    """Measure both in turns; print the medians in ms and the interval of their ratio over rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--build", default="onednn")
    parser.add_argument("--variant", default="int8")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=ROUNDS, default=20)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path, help="Write figures, raw times and host facts to this JSON file.")
    options = parser.parse_args()

    workload = prepare(Subject(options.model, model=options.model), [options.variant])
    topology = read_topology()
    (placement,) = place("machine", topology)
    launched = launch(open_build(options.build, print), options.variant, placement)
    checkpoint = workload.checkpoint(options.variant)
    ours: list[list[float]] = []
    plain: list[list[float]] = []
    with Team([launched]) as team, plain_loop(launched, workload, options) as loop:
        team.load(checkpoint.files, 600)
        team.bind(workload.input_name, workload.inputs(options.batch), 600)
        turns: list[Callable[[], None]] = [
            lambda: ours.append(_ours(team, options.seconds)),
            lambda: plain.append(_plain(loop)),
        ]
        for turn in turns:  # the first round of each warms up
            turn()
        ours.clear()
        plain.clear()
        random = np.random.default_rng(0)
        for _ in range(options.rounds):
            for number in random.permutation(2):
                turns[number]()
    medians = [float(np.median(np.concatenate(each))) for each in (ours, plain)]
    per_round = np.log([np.median(each) for each in ours]) - np.log([np.median(each) for each in plain])
    interval = np.exp(bootstrap((per_round,), np.mean, random_state=0).confidence_interval)
    result = {
        "model": options.model, "build": options.build, "variant": options.variant, "batch": options.batch,
        "harness_ms": medians[0], "plain_ms": medians[1], "ratio": medians[0] / medians[1],
        "interval": interval.tolist(),
        "host": describe(read_cpu(), read_limits(), topology),
        "command": command("benchmarks/plain_loop.py", sys.argv[1:]), "revision": asdict(own_revision()),
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    if options.out:
        with writing(options.out) as file:
            file.write(json.dumps({**result, "harness_rounds_ms": ours, "plain_rounds_ms": plain}).encode() + b"\n")


def _ours(team: Team, seconds: float) -> list[float]:
    (ticks,) = team.measure(seconds, 600).instances
    return [(end - start) / 1e6 for start, end in zip(ticks.starts, ticks.ends)]


def _plain(loop: subprocess.Popen[str]) -> list[float]:
    assert loop.stdin is not None and loop.stdout is not None
    loop.stdin.write("go\n")
    loop.stdin.flush()
    line = next(line for line in loop.stdout if line.startswith("TIMES "))
    times: list[float] = json.loads(line.partition(" ")[2])
    return times


@contextmanager
def plain_loop(launched: Launch, workload: Workload, options: argparse.Namespace) -> Iterator[subprocess.Popen[str]]:
    """The loop in a process that is placed as the harness's instance is."""
    checkpoint = workload.checkpoint(options.variant)
    files = [*checkpoint.files.values(), workload.inputs(options.batch)]
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(LOOP)
        script.flush()
        started = [*launched.command, "-I", script.name, *map(str, files), workload.input_name, str(options.seconds)]
        process = subprocess.Popen(
            started, env=dict(launched.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
