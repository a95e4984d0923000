"""The process of a contestant of tuning: it loads a bundle's network, and runs it under the loads that it is asked for.

    python -m quantkit.deployment.tuning.contestant_process SETTINGS

SETTINGS is a JSON object, see ``Settings``. Each message is JSON. The first that it sends says how many requests it
serves at a time, or why it cannot; each later one answers for a load.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle, takewhile
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from typing import Any, Optional

import numpy as np

from quantkit.benchmark.measuring.dispatch import Serve
from quantkit.benchmark.measuring.server import closed_loop
from quantkit.benchmark.workers.worker import die_first
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.read import read_bundle
from quantkit.deployment.child_messages import send, send_error
from quantkit.deployment.inputs import LARGEST_BATCH, InputReader
from quantkit.deployment.instances import Instances
from quantkit.deployment.network import open_network
from quantkit.deployment.pool import Pool
from quantkit.deployment.predictions import image_files
from quantkit.deployment.runner import Runner, Turns
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.stream_pool import StreamPool
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning.arrivals import at_random
from quantkit.deployment.tuning.own_session import own_session
from quantkit.deployment.tuning.point import FILES
from quantkit.errors import BundleError

Callers = Callable[[np.ndarray, int], list[Serve]]
"""A function for each of so many callers, which sends a batch and returns when it is answered."""

# Seconds after a measurement; Intel's OpenMP is tried with threads that spin for 0.2 s.
_REST = 0.25

# The share of a measurement's seconds that it runs before, uncounted.
_WARM_UP = 0.2


@dataclass(frozen=True)
class Settings:
    """What runs, as JSON values; see ``Contestant``."""

    bundle: str
    sha256: str
    engine: str
    instances: Optional[dict[str, Any]]
    streams: Optional[dict[str, Any]]
    own: Optional[str]
    images: Optional[str]
    channel: int


def main(text: str) -> None:
    """Answer for loads until the channel closes."""
    settings = Settings(**json.loads(text))
    die_first()
    # Without its parent, nobody is left to answer.
    with Connection(settings.channel) as channel, suppress(EOFError, ConnectionError):
        try:
            bundle = read_bundle(settings.bundle)
            if bundle.sha256 != settings.sha256:
                raise BundleError(f"{settings.bundle} was replaced while it was tuned; tune it again")
            opened = _opened(bundle, settings)
            files = [] if settings.images is None else image_files([Path(settings.images)])
        except Exception as error:  # whatever it is, the parent must hear of it
            send_error(channel, error)
            return
        send(channel, parallel=opened.parallel)
        while True:
            asked = json.loads(channel.recv_bytes())
            try:
                if "workers" in asked and opened.runner is not None:
                    answer = decode(bundle, opened.runner, files, **asked)
                else:
                    answer = measure(opened.callers(_images(bundle, asked["batch"]), asked["callers"]), **asked)
            except Exception as error:  # see above
                send_error(channel, error)
            else:
                send(channel, **answer)


def measure(serve: list[Serve], batch: int, callers: int, rate: Optional[float], seconds: float) -> dict[str, float]:
    """The fields of a ``Point``: what so many callers with requests of a batch are served in so many seconds.

    Raises:
        QuantkitError: a request fails.
    """
    closed_loop(serve, _WARM_UP * seconds)
    found = closed_loop(serve, seconds) if rate is None else at_random(serve, rate, seconds)
    # Idle threads of engines spin for a while, which would disturb whoever is measured next.
    time.sleep(_REST)
    p50, p99 = np.percentile(found.latencies, (50, 99))
    return {"rate": batch * found.rate, "p50": float(p50), "p99": float(p99), "requests": len(found.latencies)}


def decode(bundle: Bundle, runner: Runner, files: Sequence[Path], workers: int, seconds: float) -> dict[str, float]:
    """The fields of a ``Point``: files are decoded again and again by so many threads, and run.

    Raises:
        DataError: a file cannot be read.
        QuantkitError: the network cannot be run.
    """
    reader = InputReader(bundle.manifest.input.shape, bundle.preparation, quantizer=runner.quantizer, workers=workers)
    ended = Event()
    outputs = iter(runner.outputs(reader.batches(takewhile(lambda _: not ended.is_set(), cycle(files)))))
    try:
        return measure([lambda: next(outputs)], **asdict(FILES), seconds=seconds)
    finally:
        ended.set()
        # What was read ahead is not left to the next measurement.
        deque(outputs, maxlen=0)


@dataclass(frozen=True, eq=False)
class _Opened:
    """What makes callers, how many requests are served at a time, and the runner; None: the engine runs by itself."""

    callers: Callers
    parallel: int
    runner: Optional[Runner] = None


def _opened(bundle: Bundle, settings: Settings) -> _Opened:
    if settings.own is not None:
        session = own_session(bundle, settings.engine, settings.own)
        return _Opened(lambda data, number: [session.caller(each, data) for each in range(number)], session.parallel)
    runner: Runner
    if settings.instances is not None:
        spread = settings.instances
        runner = Pool(bundle, settings.engine, Instances(**{**spread, "runtime": Runtime(**spread["runtime"])}))
    elif settings.streams is not None:
        runner = StreamPool(bundle, settings.engine, Streams(**settings.streams))
    else:
        runner = Turns(open_network(bundle, settings.engine))

    def serve(data: np.ndarray) -> object:
        # In batches as predictors hand them over.
        return [*runner.outputs(data[start : start + LARGEST_BATCH] for start in range(0, len(data), LARGEST_BATCH))]

    parallel = max(1, runner.instances, runner.streams)
    return _Opened(lambda data, number: [lambda: serve(data)] * number, parallel, runner)


def _images(bundle: Bundle, number: int) -> np.ndarray:
    """Preprocessed samples: the bundle's stored one, again and again."""
    sample = bundle.sample.input
    return np.ascontiguousarray(np.resize(sample, (number, *sample.shape[1:])), np.float32)


if __name__ == "__main__":
    main(sys.argv[1])
