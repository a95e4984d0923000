"""How far a cluster scales: what a real scheduler bears, and what follows for many workers.

    python benchmarks/cluster_scale.py --tasks 100000 --out benchmarks/results/cluster-scale

First, tasks of the size of a shard's that compute nothing go through a real scheduler with two workers, as
``ClusterExecutor`` sends them: a few for each worker at a time. That gives tasks per second, the seconds of the
scheduler's process and the bytes on the wire for each task. Then a model of the time of an evaluation of 50,000 images
by 200 networks follows for 8, 64 and 512 workers, from these and from figures of one worker in
``cluster-efficiency.json``. The same model's time for two workers stands beside what was measured with two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from command_line import Document, arguments, host_facts, rows_page, run, table, write_results

from quantkit.cluster.connect import connected
from quantkit.cluster.node import this_node
from quantkit.cluster.shards import most_samples, spans
from quantkit.cluster.worker import Session, Work
from quantkit.errors import QuantkitError

IMAGES, NETWORKS = 50_000, 200
WORKERS = (8, 64, 512)
_BATCH = 8
_SHARD = 256

# Bytes of a partial result: the measures of 256 images, compressed.
_RESULT = 4096

# Of ResNet-50's weights, which go to each worker once for each network.
_WEIGHTS = 100e6
# Bytes a second that a node's network card takes: 10 Gbit/s.
_CARD = 1.25e9

COLUMNS = (
    "workers", "shards", "computing, h", "sending weights, h", "scheduler, h", "time, h", "efficiency", "bottleneck"
)  # fmt: skip


@dataclass(frozen=True)
class Scheduler:
    """What tasks cost: how many were sent, seconds on the clock and of the client's process, bytes on the wire.

    The scheduler runs in the client's process.
    """

    tasks: int
    seconds: float
    cpu_seconds: float
    wire: int

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return self.tasks / self.seconds


@dataclass(frozen=True)
class Times:
    """The parts of the time of some work, in seconds, were each alone."""

    computing: float
    sending: float
    scheduling: float

    @property
    def total(self) -> float:
        """Tasks are scheduled while others compute; weights are sent before."""
        return max(self.computing, self.scheduling) + self.sending

    @property
    def bottleneck(self) -> str:
        """What takes the longest."""
        parts = {"computing": self.computing, "sending weights": self.sending, "scheduler": self.scheduling}
        return max(parts, key=lambda name: parts[name])


def main() -> None:
    """Measure the scheduler, and apply the model."""
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=100_000, help="how many empty tasks are sent")
    parser.add_argument(
        "--efficiency", type=Path, default=Path("benchmarks/results/cluster-efficiency.json"), help="measured before"
    )
    options = parser.parse_args()
    try:
        measured = json.loads(options.efficiency.read_text())["runs"]
    except OSError as error:
        raise QuantkitError(f"cannot read {options.efficiency}: {error.strerror}; run cluster_efficiency.py") from error
    scheduler = empty_tasks(options.tasks)
    figures = {"scheduler": asdict(scheduler), "efficiency": measured}
    print("\n".join([*table(COLUMNS), *lines(figures)]))
    if options.out is not None:
        host = {**host_facts(), "cores": str(len(os.sched_getaffinity(0)))}
        write_results(options.out, f"python benchmarks/cluster_scale.py --tasks {options.tasks}", host, figures, page)


def empty_tasks(number: int) -> Scheduler:
    """Send so many empty tasks through a scheduler with two workers."""
    from distributed import as_completed

    with connected("local:2") as client:
        session = Session("empty", this_node().versions, 1, dict.fromkeys(client.nthreads(), (0, 1)))
        (content,) = client.scatter([b""], broadcast=True, hash=False)
        shards = iter(range(number))

        def submit(shard: int) -> Any:
            positions = range(shard * _SHARD, (shard + 1) * _SHARD)
            return client.submit(
                nothing, session, "0" * 64, content, positions, key=f"quantkit-{'0' * 97}-{shard}", pure=False
            )

        begun, used, wire = perf_counter(), process_time(), _wire()
        done = as_completed([submit(shard) for shard in (next(shards) for _ in range(4))], loop=client.loop)
        for _ in done:
            for shard in shards:
                done.add(submit(shard))
                break
        return Scheduler(number, perf_counter() - begun, process_time() - used, _wire() - wire)


def nothing(session: Session, name: str, content: bytes, shard: range) -> tuple[bytes, Work]:
    """A task that computes nothing, with a result of the usual size."""
    return bytes(_RESULT), Work("", 0, _RESULT, "tls://192.168.100.100:40000", "host", 0.0, 0.0)


def _wire() -> int:
    """The bytes that have gone over the loopback."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, colon, numbers = line.partition(":")
        if colon and name.strip() == "lo":
            return int(numbers.split()[0])
    raise QuantkitError("/proc/net/dev has no loopback")


def times(images: int, networks: int, workers: int, per_image: float, scheduler: Scheduler, shards: int) -> Times:
    """The model's times of evaluating networks on images.

    Args:
        images: how many each network reads.
        networks: how many.
        workers: of one core each, on a host of their own.
        per_image: seconds of one core for one image.
        scheduler: what tasks cost.
        shards: of each network's images.
    """
    # The last shards of a network leave workers idle, unless another network's follow at once.
    computing = networks * images * per_image / workers
    # Workers pass the weights on to each other, each to one other at a time, in twice as many places after each step.
    steps = workers.bit_length()
    return Times(computing, networks * steps * _WEIGHTS / _CARD, networks * shards / scheduler.rate)


def _shards(images: int, workers: int) -> int:
    return len(spans(images, _BATCH, most_samples(_BATCH), workers))


def _per_image(runs: Sequence[Mapping[str, Any]], work: str, workers: int) -> float:
    own = [each for each in runs if (each["work"], each["workers"], each.get("apart", False)) == (work, workers, False)]
    return float(median(each["seconds"] for each in own)) / int(own[0]["samples"])


def page(document: Document) -> str:
    """The page of a run's JSON."""
    scheduler, runs = Scheduler(**document["scheduler"]), document["efficiency"]
    checks = []
    for work in dict.fromkeys(each["work"] for each in runs):
        samples = next(each["samples"] for each in runs if each["work"] == work)
        found = _per_image(runs, work, 2) * samples
        model = times(samples, 1, 2, _per_image(runs, work, 1), scheduler, _shards(samples, 2))
        seconds = max(model.computing, model.scheduling)
        checks.append(f"{work} with 2 workers: {seconds:.1f} s by the model, {found:.1f} s measured")
    note = (
        f"A scheduler and two workers bore {scheduler.tasks} empty tasks at {scheduler.rate:.0f} tasks/s, with "
        f"{1000 * scheduler.cpu_seconds / scheduler.tasks:.1f} ms of the processor (client and scheduler) and "
        f"{scheduler.wire / scheduler.tasks / 1000:.1f} kB on the wire for each. {'; '.join(checks)}.\n\n"
        f"The table is a model: {IMAGES} images by {NETWORKS} networks of 100 MB, at "
        f"{1000 * _typical(document):.0f} ms of one core for an image, in shards of {_SHARD} at most, on hosts with "
        "10 Gbit/s. "
        f"The scheduler would have more tasks than it bears from {_most_workers(document)} workers on."
    )
    return rows_page(document, COLUMNS, lines(document), note)


def _typical(document: Mapping[str, Any]) -> float:
    """Seconds of one core for a photograph."""
    return _per_image(document["efficiency"], "calibrate squeezenet1.0", 1)


def _most_workers(document: Mapping[str, Any]) -> int:
    """How many workers finish as many shards as the scheduler bears."""
    scheduler, per_image = Scheduler(**document["scheduler"]), _typical(document)
    for workers in count(1):
        model = times(IMAGES, NETWORKS, workers, per_image, scheduler, _shards(IMAGES, workers))
        if model.scheduling > model.computing:
            break
    return workers


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table of a run's JSON."""
    scheduler, per_image = Scheduler(**document["scheduler"]), _typical(document)
    for workers in WORKERS:
        shards = _shards(IMAGES, workers)
        model = times(IMAGES, NETWORKS, workers, per_image, scheduler, shards)
        hours = [each / 3600 for each in (model.computing, model.sending, model.scheduling, model.total)]
        yield (
            f"| {workers} | {NETWORKS * shards} | {' | '.join(f'{each:.2f}' for each in hours)} | "
            f"{100 * model.computing / model.total:.0f} % | {model.bottleneck} |"
        )


if __name__ == "__main__":
    run(main)
