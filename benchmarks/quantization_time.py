"""What quantization costs: seconds and memory of `quantkit quantize` from start to end, by network and preset.

    python benchmarks/quantization_time.py --out benchmarks/results/quantization-time

Every run is the command in a process of its own, with random weights, 32 of the built-in samples and without the
measurement of latency; all networks and presets take turns, in random order. OUT.json has of every run the seconds on
the clock, those of the processors, the largest resident memory in MiB, and how many cores other processes kept busy
meanwhile: on a busy machine the seconds on the clock say little.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Optional

from command_line import Document, arguments, host_facts, rows_page, run, table, write_results

from quantkit.errors import QuantkitError
from quantkit.host.load import load_between, read_ticks

NETWORKS = ("resnet50", "mobilenetv2_1.0", "squeezenet1.0", "cifar_resnet20_v1")
PRESETS = ("fast", "balanced")
_SAMPLES = 32
_STAT = Path("/proc/stat")

_COLUMNS = (
    "network",
    "preset",
    "runs",
    "seconds",
    "least",
    "seconds of the processors",
    "memory, MiB",
    "others, cores",
)


@dataclass(frozen=True)
class Cost:
    """One run: seconds on the clock and of the processors, and the peak of resident memory in MiB.

    ``others`` is how many cores other processes kept busy; None where the system does not tell.
    """

    network: str
    preset: str
    seconds: float
    cpu_seconds: float
    peak_mib: float
    others: Optional[float]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--preset", action="append", choices=PRESETS, help="only this one; may be repeated")
    parser.add_argument("--runs", type=int, default=3, help="of each network and preset")
    options = parser.parse_args()
    networks = [name for name in NETWORKS if not options.network or any(part in name for part in options.network)]
    found: list[Cost] = []
    for cost in costs(networks, options.preset or PRESETS, options.runs):
        found.append(cost)
        print(f"{cost.network} {cost.preset}: {cost.seconds:.1f} s, {cost.cpu_seconds:.1f} s of the processors, "
              f"{cost.peak_mib:.0f} MiB, others {_cores(cost.others)}", flush=True)  # fmt: skip
    print("\n".join([*table(_COLUMNS), *_lines(found)]))
    if options.out is not None:
        host = {**host_facts(), "cores": str(len(os.sched_getaffinity(0)))}
        parts = "".join(f" --network {part}" for part in options.network or ())
        parts += "".join(f" --preset {preset}" for preset in options.preset or ())
        command = f"python benchmarks/quantization_time.py{parts} --runs {options.runs}"
        write_results(options.out, command, host, {"runs": [asdict(each) for each in found]}, page)


def costs(networks: Sequence[str], presets: Sequence[str], runs: int) -> Iterator[Cost]:
    """Run each network and preset so many times, in turns."""
    shuffled = random.Random(0)
    cells = list(product(networks, presets))
    for _ in range(runs):
        for network, preset in shuffled.sample(cells, len(cells)):
            yield cost_of(network, preset)


def cost_of(network: str, preset: str) -> Cost:
    """Quantize a network once.

    Raises:
        QuantkitError: the command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "quantkit", "quantize", network, "--weights", "random", "--preset", preset,
            "--calib", str(_SAMPLES), "--no-latency", "--quiet", "--out", str(Path(folder) / "int8"),
        ]  # fmt: skip
        with tempfile.TemporaryFile() as said:
            before, begin = read_ticks(_STAT), perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds, after = perf_counter() - begin, read_ticks(_STAT)
            said.seek(0)
            errors = said.read().decode(errors="replace")
    if process.returncode:
        raise QuantkitError(f"{' '.join(command[1:])} ended with {process.returncode}: {errors.strip()}")
    own = used.ru_utime + used.ru_stime
    load = load_between(before, after, os.sched_getaffinity(0), seconds)
    others = None if load is None else max(0.0, load.of_others(own).busy)
    return Cost(network, preset, seconds, own, used.ru_maxrss / 1024, others)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    # Early documents have, in place of what others used, a load average that counts the run before.
    found = [Cost(**{field.name: each.get(field.name) for field in fields(Cost)}) for each in document["runs"]]
    return rows_page(document, _COLUMNS, _lines(found))


def _lines(found: Sequence[Cost]) -> Iterator[str]:
    """A row for each network and preset: medians over runs, but for the peak of memory, which is the largest."""
    for network, preset in product(NETWORKS, PRESETS):
        own = [each for each in found if (each.network, each.preset) == (network, preset)]
        if own:
            seconds, others = [each.seconds for each in own], [each.others for each in own if each.others is not None]
            yield (
                f"| {network} | {preset} | {len(own)} | {median(seconds):.1f} | {min(seconds):.1f} | "
                f"{median(each.cpu_seconds for each in own):.1f} | {max(each.peak_mib for each in own):.0f} | "
                f"{_cores(median(others) if others else None)} |"
            )


def _cores(others: Optional[float]) -> str:
    return "not told" if others is None else f"{others:.1f}"


if __name__ == "__main__":
    run(main)
