"""How much faster N workers of one core each are than one: calibration and evaluation on a cluster on this machine.

    python benchmarks/cluster_efficiency.py --out benchmarks/results/cluster-efficiency

Each piece of work runs with every number of workers in turns, in an order drawn anew each round, after an untimed run
that starts the engines. The results are compared with those of one process. The efficiency is the speed-up over one
worker divided by the number of workers, in percent, with a bootstrap interval over rounds. OUT.json has the seconds of
every run, and how many cores were busy meanwhile, whoever kept them so.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Optional

import numpy as np
from command_line import Document, arguments, data_root, host_facts, rows_page, run, table, write_results

from quantkit.bundle.network import network_of
from quantkit.cluster.connect import connected
from quantkit.cluster.executor import ClusterExecutor
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.sources import load_data
from quantkit.errors import QuantkitError
from quantkit.evaluation.evaluate import evaluate_networks
from quantkit.fusion.fused_model import fuse_model
from quantkit.host.load import load_between, read_ticks
from quantkit.models.load import load_model
from quantkit.quantization.calibrate import calibrate

_STAT = Path("/proc/stat")
_RESAMPLES = 10_000

_COLUMNS = ("work", "samples", "workers", "seconds", "samples/s", "speed-up", "efficiency", "busy cores")

Work = Callable[[Executor], object]


@dataclass(frozen=True)
class Run:
    """One run: its seconds, and how many cores were busy meanwhile; None where the system does not tell."""

    work: str
    samples: int
    workers: int
    round: int
    seconds: float
    busy: Optional[float]


def main() -> None:
    """Measure every piece of work."""
    parser = arguments(__doc__)
    parser.add_argument("--workers", type=int, action="append", help="how many; may be repeated (1 and 2 unless given)")
    parser.add_argument("--rounds", type=int, default=5, help="of all pieces of work with all numbers of workers")
    options = parser.parse_args()
    numbers = sorted({1, *(options.workers or (2,))})
    found: list[Run] = []
    wanted = {name: each for name, each in works(data_root()).items() if _is_wanted(name, options.network)}
    for each in runs(wanted, numbers, options.rounds):
        found.append(each)
        print(f"{each.work}, {each.workers} workers: {each.seconds:.2f} s", flush=True)
    print("\n".join([*table(_COLUMNS), *_lines(found)]))
    if options.out is not None:
        host = {**host_facts(), "cores": str(len(os.sched_getaffinity(0)))}
        command = f"python benchmarks/cluster_efficiency.py --rounds {options.rounds}"
        write_results(options.out, command, host, {"runs": [asdict(each) for each in found]}, page)


def _is_wanted(name: str, parts: Optional[Sequence[str]]) -> bool:
    return not parts or any(part in name for part in parts)


def works(root: Path) -> dict[str, tuple[int, Work]]:
    """The pieces of work by name, with their numbers of samples."""
    cifar = _fused(root, "cifar_resnet20_v1")
    squeezenet = _fused(root, "squeezenet1.0")
    training, test = (str(root / "cifar10" / f"{name}.npz") for name in ("train-2000", "test-even"))
    images, samples = f"{root / 'imagenet'}:calib", load_data(test)
    networks: Any = {"network": network_of(cifar.model)}

    def evaluation(executor: Executor) -> object:
        return evaluate_networks(networks, samples, executor=executor).document

    return {
        "calibrate cifar_resnet20_v1": (2000, partial(_table, cifar, training, 2000)),
        "calibrate squeezenet1.0": (100, partial(_table, squeezenet, images, 100)),
        "evaluate cifar_resnet20_v1": (len(samples), evaluation),
    }


def _fused(root: Path, name: str) -> Any:
    return fuse_model(load_model(name, weights=root / "weights" / f"{name}-0000.params"))


def _table(fused: Any, data: str, samples: int, executor: Executor) -> object:
    return calibrate(fused, data, samples, executor=executor)


def runs(wanted: Mapping[str, tuple[int, Work]], numbers: Sequence[int], rounds: int) -> Iterator[Run]:
    """Run all pieces of work in all clusters, in turns.

    Raises:
        QuantkitError: a result is not that of one process.
    """
    shuffled = random.Random(0)
    expected = {name: work(in_this_process) for name, (_, work) in wanted.items()}
    cells = [(name, workers) for name in wanted for workers in numbers]
    with ExitStack() as stack:
        executors = {workers: stack.enter_context(workers_of_one_core(workers)) for workers in numbers}
        for number in range(rounds + 1):
            for name, workers in shuffled.sample(cells, len(cells)):
                samples, work = wanted[name]
                before, begin = read_ticks(_STAT), perf_counter()
                result = work(executors[workers])
                seconds, after = perf_counter() - begin, read_ticks(_STAT)
                if result != expected[name]:
                    raise QuantkitError(f"{name} with {workers} workers has another result than in one process")
                load = load_between(before, after, os.sched_getaffinity(0), seconds)
                if number:
                    yield Run(name, samples, workers, number, seconds, None if load is None else load.busy)


@contextmanager
def workers_of_one_core(number: int) -> Iterator[ClusterExecutor]:
    """A cluster of so many workers on one core each; the client may use all."""
    cores = sorted(os.sched_getaffinity(0))
    if number > len(cores):
        raise QuantkitError(f"{number} workers need as many cores, and there are {len(cores)}; give fewer --workers")
    with ExitStack() as stack:
        os.sched_setaffinity(0, cores[:number])
        try:
            client = stack.enter_context(connected(f"local:{number}"))
            executor = stack.enter_context(ClusterExecutor(client))
        finally:
            os.sched_setaffinity(0, cores)
        yield executor


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        "Medians over rounds. Workers have one core each; the client and the scheduler run beside them. Each result is "
        "that of one process, to the last bit."
    )
    return rows_page(document, _COLUMNS, _lines([Run(**each) for each in document["runs"]]), note)


def _lines(found: Sequence[Run]) -> Iterator[str]:
    for name in dict.fromkeys(each.work for each in found):
        own = [each for each in found if each.work == name]
        alone = [each.seconds for each in own if each.workers == 1]
        for workers in sorted({each.workers for each in own}):
            these = [each for each in own if each.workers == workers]
            seconds = [each.seconds for each in these]
            typical, busy = median(seconds), [each.busy for each in these if each.busy is not None]
            speed_up, low, high = _ratio(alone, seconds)
            share = (
                ""
                if workers == 1
                else (f"{100 * speed_up / workers:.0f} % [{100 * low / workers:.0f}, {100 * high / workers:.0f}]")
            )
            yield (
                f"| {name} | {these[0].samples} | {workers} | {typical:.2f} | {these[0].samples / typical:.0f} | "
                f"{speed_up:.2f} | {share} | {f'{median(busy):.1f}' if busy else 'not told'} |"
            )


def _ratio(alone: Sequence[float], together: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of medians, and its 95 % percentile bootstrap interval over rounds (Efron 1979)."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(alone), (_RESAMPLES, len(alone)))
    ratios = np.median(np.asarray(alone)[picks], axis=1) / np.median(np.asarray(together)[picks], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return median(alone) / median(together), float(low), float(high)


if __name__ == "__main__":
    run(main)
