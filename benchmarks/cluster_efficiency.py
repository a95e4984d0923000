"""How much faster N workers of one core each are than one: calibration and evaluation on a cluster on this machine.

    python benchmarks/cluster_efficiency.py --out benchmarks/results/cluster-efficiency

Each round starts a cluster of every number of workers, in an order drawn anew, and ends it before the next one: idle
ones take some percent of a core. In each, all pieces of work run, after one that is not timed, which starts the
engines. The results are compared with those of one process. The efficiency is the speed-up over one worker divided by
the number of workers, in percent, with a bootstrap interval over rounds. Cores that are busy at the same time slow each
other down, by their clock, caches and memory: so clusters of one worker each, as many as there are workers, also do the
whole work apart from each other, at the same time. OUT.json has the seconds of every run, and how many cores were busy
meanwhile, whoever kept them so.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Optional

import numpy as np
from command_line import ROUNDS, Document, arguments, data_root, host_facts, rows_page, run, table, write_results

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

COLUMNS = ("work", "samples", "workers", "seconds", "samples/s", "speed-up", "efficiency", "apart", "busy cores")

WARM_UP = "calibrate cifar_resnet20_v1"
"""The piece of work that runs first in each cluster, untimed."""

Work = Callable[[Executor], object]


@dataclass(frozen=True)
class Run:
    """One run: its seconds, and how many cores were busy meanwhile; None where the system does not tell.

    ``apart``: each worker has done the whole work.
    """

    work: str
    samples: int
    workers: int
    round: int
    seconds: float
    busy: Optional[float]
    apart: bool = False


def main() -> None:
    """Measure every piece of work."""
    parser = arguments(__doc__)
    parser.add_argument("--workers", type=int, action="append", help="how many; may be repeated (1 and 2 unless given)")
    parser.add_argument("--rounds", type=ROUNDS, default=5, help="of all pieces of work with all numbers of workers")
    options = parser.parse_args()
    numbers = sorted({1, *(options.workers or (2,))})
    found: list[Run] = []
    every = works(data_root())
    wanted = {name: each for name, each in every.items() if _is_wanted(name, options.network)}
    for each in runs(wanted, every[WARM_UP][1], numbers, options.rounds):
        found.append(each)
        how = "apart" if each.apart else "together"
        print(f"{each.work}, {each.workers} workers {how}: {each.seconds:.2f} s", flush=True)
    figures = {"runs": [asdict(each) for each in found]}
    print("\n".join([*table(COLUMNS), *lines(figures)]))
    if options.out is not None:
        host = {**host_facts(), "cores": str(len(os.sched_getaffinity(0)))}
        command = f"python benchmarks/cluster_efficiency.py --rounds {options.rounds}"
        write_results(options.out, command, host, figures, page)


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
        WARM_UP: (2000, partial(_table, cifar, training, 2000)),
        "calibrate squeezenet1.0": (100, partial(_table, squeezenet, images, 100)),
        "evaluate cifar_resnet20_v1": (len(samples), evaluation),
    }


def _fused(root: Path, name: str) -> Any:
    return fuse_model(load_model(name, weights=root / "weights" / f"{name}-0000.params"))


def _table(fused: Any, data: str, samples: int, executor: Executor) -> object:
    return calibrate(fused, data, samples, executor=executor)


def runs(wanted: Mapping[str, tuple[int, Work]], warm_up: Work, numbers: Sequence[int], rounds: int) -> Iterator[Run]:
    """Run all pieces of work in all clusters, in turns.

    Raises:
        QuantkitError: a result is not that of one process.
    """
    shuffled = random.Random(0)
    expected = {name: work(in_this_process) for name, (_, work) in wanted.items()}
    groups = [*((workers, False) for workers in numbers), *((workers, True) for workers in numbers if workers > 1)]
    for number in range(1, rounds + 1):
        for workers, is_apart in shuffled.sample(groups, len(groups)):
            with ExitStack() as stack:
                cores = [[core] for core in range(workers)] if is_apart else [range(workers)]
                executors = [stack.enter_context(workers_of_one_core(each)) for each in cores]
                pool = stack.enter_context(ThreadPoolExecutor(len(executors)))
                list(pool.map(warm_up, executors))
                for name in shuffled.sample(list(wanted), len(wanted)):
                    samples, work = wanted[name]
                    before, begin = read_ticks(_STAT), perf_counter()
                    results = list(pool.map(work, executors))
                    seconds, after = perf_counter() - begin, read_ticks(_STAT)
                    if any(result != expected[name] for result in results):
                        raise QuantkitError(f"{name} with {workers} workers has another result than in one process")
                    load = load_between(before, after, os.sched_getaffinity(0), seconds)
                    busy = None if load is None else load.busy
                    yield Run(name, samples, workers, number, seconds, busy, is_apart)


@contextmanager
def workers_of_one_core(numbers: Sequence[int]) -> Iterator[ClusterExecutor]:
    """A cluster with a worker on each of the cores of these numbers; the client may use all.

    Raises:
        QuantkitError: there are not so many cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    if max(numbers) >= len(cores):
        raise QuantkitError(
            f"{max(numbers) + 1} workers need as many cores, and there are {len(cores)}; give fewer --workers"
        )
    with ExitStack() as stack:
        os.sched_setaffinity(0, [cores[number] for number in numbers])
        try:
            client = stack.enter_context(connected(f"local:{len(numbers)}"))
            executor = stack.enter_context(ClusterExecutor(client))
        finally:
            os.sched_setaffinity(0, cores)
        yield executor


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        "Medians over rounds. Workers have one core each; the client and the scheduler run beside them. Each result is "
        "that of one process, to the last bit. Efficiency is the speed-up by the number of workers. Apart: what the "
        "cores themselves leave of their speed when all are busy, measured with as many clusters of one worker, each "
        "of which does the whole work; more than that no cluster can reach. Intervals are of 95 %, over rounds."
    )
    return rows_page(document, COLUMNS, lines(document), note)


def lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table of a run's JSON."""
    found = [Run(**each) for each in figures["runs"]]
    for name in dict.fromkeys(each.work for each in found):
        own = [each for each in found if each.work == name]
        alone = _seconds(own, 1)
        for workers in sorted({each.workers for each in own}):
            these = [each for each in own if each.workers == workers and not each.apart]
            typical, busy = median(_seconds(own, workers)), [each.busy for each in these if each.busy is not None]
            shares = [
                "" if workers == 1 else _share(alone, _seconds(own, workers), workers),
                "" if workers == 1 else _share(alone, _seconds(own, workers, apart=True), 1),
            ]
            told = f"{median(busy):.1f}" if busy else "not told"
            yield (
                f"| {name} | {these[0].samples} | {workers} | {typical:.2f} | {these[0].samples / typical:.0f} | "
                f"{median(alone) / typical:.2f} | {' | '.join(shares)} | {told} |"
            )


def _seconds(runs: Sequence[Run], workers: int, apart: bool = False) -> list[float]:
    return [each.seconds for each in runs if (each.workers, each.apart) == (workers, apart)]


def _share(alone: Sequence[float], others: Sequence[float], workers: int) -> str:
    """The ratio of seconds for each worker, in percent with its interval."""
    return "{:.0f} % [{:.0f}, {:.0f}]".format(*(100 * each / workers for each in _ratio(alone, others)))


def _ratio(alone: Sequence[float], together: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of medians, and its 95 % percentile bootstrap interval over rounds (Efron 1979)."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(alone), (_RESAMPLES, len(alone)))
    ratios = np.median(np.asarray(alone)[picks], axis=1) / np.median(np.asarray(together)[picks], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return median(alone) / median(together), float(low), float(high)


if __name__ == "__main__":
    run(main)
