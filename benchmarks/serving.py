"""What a server of `quantkit serve` bears: alone, at its capacity, and when twice as much is asked of it.

    python benchmarks/serving.py --out benchmarks/results/serving

Requests hold one preprocessed image as bytes, and come from hey on the same machine and cores. Alone: one caller, who
sends the next request when the last one is answered. At capacity: as many callers as the server takes requests at a
time (--max-requests). Overload: four times as many callers, who offer twice the rate of the capacity that was measured
just before, whatever is answered. In process: as many threads as callers at capacity call `predict` of a predictor with
the same instances. Each round measures all, in this order. Only what is answered with 200 has a latency. INT8 networks
with random weights, which are as fast as trained ones. OUT.json has the figures of every round. Nothing else may run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from command_line import ROUNDS, Document, arguments, at_least, described, host_facts, run, table, write_results
from offered_load import Answers, offer
from predicting import bundle_of
from turns import mean_ratio

import quantkit
from quantkit.deployment.serving.messages import JSON_LENGTH
from quantkit.errors import QuantkitError
from quantkit.files.folders import scratch_folder

NETWORKS = ("cifar_resnet20_v1", "mobilenet1.0", "resnet50_v1")
ALONE, CAPACITY, OVERLOAD, IN_PROCESS = "alone", "at capacity", "overload", "in process"

_REFUSED = 503

# Requests that the server takes at a time, and the callers of the overload.
_REQUESTS = 16
_CALLERS = 64

_COLUMNS = ("network", "load", "answered, requests/s", "refused, requests/s", "p50, ms", "p99, ms")
_RATIOS = ("network", "rounds", "capacity / in process", "overload / capacity", "p99: overload / capacity")


@dataclass(frozen=True)
class Level:
    """A load in one round: what was answered and refused per second, and percentiles of the answers' times in ms."""

    answered: float
    refused: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Row:
    """A network: its levels in each round."""

    network: str
    rounds: list[dict[str, Level]]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=ROUNDS, default=5)
    parser.add_argument("--seconds", type=at_least(1), default=8, help="of each load in a round")
    options = parser.parse_args()
    rows: list[Row] = []
    for name in NETWORKS:
        if not options.network or any(part in name for part in options.network):
            with scratch_folder() as scratch:
                rows.append(Row(name, measured(bundle_of(name, scratch / "net"), options.rounds, options.seconds)))
                print("\n".join(lines(rows[-1])), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        command = f"python benchmarks/serving.py{parts} --rounds {options.rounds} --seconds {options.seconds}"
        figures = {"rows": [asdict(row) for row in rows]}
        write_results(options.out, command, host_facts(), figures, page)


def measured(directory: Path, rounds: int, seconds: float) -> list[dict[str, Level]]:
    """All loads, round by round."""
    found = []
    for _ in range(rounds):
        with served(directory, ["--max-requests", str(_REQUESTS)]) as (url, _):
            predictor = quantkit.load(directory, allow_random_weights=True)
            image = np.random.default_rng(0).normal(size=(1, *predictor.input_shape)).astype(np.float32)
            body, headers = request(directory.parent, predictor.manifest.input.name, image)
            asked = f"{url}/v2/models/{directory.name}/infer"
            offer(asked, body, headers, _REQUESTS, 1.0)
            levels = {ALONE: level(offer(asked, body, headers, 1, seconds))}
            levels[CAPACITY] = level(offer(asked, body, headers, _REQUESTS, seconds))
            twice = 2 * levels[CAPACITY].answered
            levels[OVERLOAD] = level(offer(asked, body, headers, _CALLERS, seconds, twice))
        found.append({**levels, IN_PROCESS: level(in_process(directory, image, seconds))})
    return found


@contextmanager
def served(directory: Path, options: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The address of a server of a bundle, and the number of its process."""
    command = [sys.executable, "-m", "quantkit", "serve", str(directory), "--port", "0", "--quiet", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads("".join(_document(process.stdout)))["url"], process.pid
        finally:
            process.terminate()


def _document(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a JSON object that a process prints while it goes on."""
    for line in lines:
        yield line
        if line == "}\n":
            return


def request(folder: Path, name: str, image: np.ndarray) -> tuple[Path, dict[str, str]]:
    """A request for inference in a file, and its headers; the answer comes in bytes, too."""
    content = image.tobytes()
    tensor = {"name": name, "datatype": "FP32", "shape": image.shape, "parameters": {"binary_data_size": len(content)}}
    text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    (folder / "body").write_bytes(text + content)
    return folder / "body", {JSON_LENGTH: str(len(text))}


def in_process(directory: Path, image: np.ndarray, seconds: float) -> Answers:
    """As many threads as callers, who call a predictor with one instance."""
    latencies: list[float] = []

    def ask() -> None:
        while (begun := time.perf_counter()) < end:
            predictor.predict(image)
            latencies.append(1e3 * (time.perf_counter() - begun))

    with quantkit.load(directory, allow_random_weights=True, instances="1") as predictor:
        predictor.predict(np.repeat(image, 2 * _REQUESTS, axis=0))
        first = time.perf_counter()
        end = first + seconds
        threads = [threading.Thread(target=ask) for _ in range(_REQUESTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Answers(time.perf_counter() - first, latencies, {})


def level(answers: Answers) -> Level:
    """The figures of a load.

    Raises:
        QuantkitError: requests were answered with another status than 200 and 503, or none with 200.
    """
    if not answers.latencies or set(answers.others) - {_REFUSED}:
        found = f"{len(answers.latencies)} requests were answered, and others had the status {dict(answers.others)}"
        raise QuantkitError(f"the server fails: {found}")
    p50, p99 = np.percentile(answers.latencies, [50, 99])
    return Level(answers.rate, sum(answers.others.values()) / answers.seconds, float(p50), float(p99))


def page(document: Document) -> str:
    """The page of a run's JSON."""
    rows = [
        Row(row["network"], [{name: Level(**each) for name, each in one.items()} for one in row["rounds"]])
        for row in document["rows"]
    ]
    parts = (
        described(document),
        f"Medians over rounds. The server takes {_REQUESTS} requests at a time and has one process of the network on "
        "all cores; the load is generated on the same cores. In process, threads call `predict` instead.",
        "\n".join([*table(_COLUMNS), *(line for row in rows for line in lines(row))]),
        "Ratios of each round: their geometric mean, and its 95 % interval over rounds.",
        "\n".join([*table(_RATIOS), *map(ratios_line, rows)]),
    )
    return "\n\n".join(parts) + "\n"


def lines(row: Row) -> list[str]:
    """A network's rows in the first table."""
    found = []
    for name in row.rounds[0]:
        levels = [one[name] for one in row.rounds]
        figures = [median(each.answered for each in levels), median(each.refused for each in levels)]
        times = [median(each.p50 for each in levels), median(each.p99 for each in levels)]
        told = [*(f"{figure:.0f}" for figure in figures), *(f"{time:.1f}" for time in times)]
        found.append(f"| {' | '.join((row.network, name, *told))} |")
    return found


def ratios_line(row: Row) -> str:
    """A network's row in the second table."""
    told = [
        mean_ratio([one[CAPACITY].answered / one[IN_PROCESS].answered for one in row.rounds], 2),
        mean_ratio([one[OVERLOAD].answered / one[CAPACITY].answered for one in row.rounds], 2),
        mean_ratio([one[OVERLOAD].p99 / one[CAPACITY].p99 for one in row.rounds], 2),
    ]
    return f"| {' | '.join((row.network, str(len(row.rounds)), *told))} |"


if __name__ == "__main__":
    run(main)
