"""What runs in Dask's workers: they keep engines, hand them shards, and tell how long each took."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock

import numpy as np

from quantkit.cluster.engine import Engine
from quantkit.cluster.job import Shard
from quantkit.cluster.node import Versions, this_node
from quantkit.errors import ClusterError, QuantkitError

# Seconds after which engines that nobody has used belong to nobody.
_ABANDONED = 600.0


@dataclass(frozen=True)
class Work:
    """Who computed a shard, and when.

    Attributes:
        title: what it belongs to, as the client shows it.
        received: bytes of the job, if the engine did not have it yet, and of samples that came with the shard.
        size: of the partial result in bytes.
        worker: the worker's address.
        host: the name of its host.
        began, ended: seconds since the epoch, by its host's clock.
    """

    title: str
    received: int
    size: int
    worker: str
    host: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclass(frozen=True)
class Session:
    """What all tasks of one client have in common.

    Attributes:
        name: tells it apart from others'.
        versions: what workers must have.
        threads: of each engine; sums over many values depend on their number.
        cpus: the hardware threads of each worker by its address; of others, all that they may use.
    """

    name: str
    versions: Versions
    threads: int
    cpus: Mapping[str, tuple[int, ...]]


class _Pool:
    """The engines of one session in this worker, one for each of its threads; they share its hardware threads."""

    def __init__(self, cpus: Sequence[int], slots: int, threads: int) -> None:
        self._cpus = [tuple(map(int, part)) or (cpus[0],) for part in np.array_split(cpus, slots)]
        self._threads = threads
        self._engines: dict[int, Engine] = {}
        self._idle = set(range(slots))
        self._changed = Condition()
        self._stopped = False
        self.used = time.monotonic()

    @property
    def idle(self) -> bool:
        """Whether no engine works."""
        return len(self._idle) == len(self._cpus)

    @contextmanager
    def engine(self, job: str) -> Iterator[Engine]:
        """An engine that nobody else uses meanwhile, one that has the job loaded if there is one.

        Raises:
            ClusterError: the session has ended.
            EngineError: no engine can be started.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._idle or self._stopped)
            if self._stopped:
                raise _ended()
            number = min(self._idle, key=lambda each: (each not in self._having(job), each not in self._engines, each))
            self._idle.remove(number)
        try:
            if number not in self._engines:
                self._engines[number] = Engine(self._cpus[number], self._threads)
            if self._stopped:
                self._engines[number].stop()
            yield self._engines[number]
        except QuantkitError:
            # What an engine does after a failure is not known.
            if (engine := self._engines.pop(number, None)) is not None:
                engine.stop()
            raise
        finally:
            with self._changed:
                self._idle.add(number)
                self.used = time.monotonic()
                self._changed.notify()

    def stop_busy(self) -> None:
        """End the engines that compute."""
        with self._changed:
            numbers = [number for number in self._engines if number not in self._idle]
            # None is offered again, whenever its shard ends.
            busy = [self._engines.pop(number) for number in numbers]
        for engine in busy:
            engine.stop()

    def stop(self) -> None:
        """End all engines, whatever they do."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for engine in list(self._engines.values()):
            engine.stop()

    def _having(self, job: str) -> set[int]:
        return {number for number, engine in self._engines.items() if engine.job == job}


_POOLS: dict[str, _Pool] = {}
_ENDED: set[str] = set()
_LOCK = Lock()


def run_shard(session: Session, name: str, title: str, content: bytes, shard: Shard) -> tuple[bytes, Work]:
    """The partial result of the job called ``name`` over a shard, as ``arrays.to_bytes`` writes it; who computed it.

    Raises:
        ClusterError: this worker has other versions than it must have, or the session has ended.
        QuantkitError: what the job raised.
    """
    from distributed import get_worker

    worker = get_worker()
    pool = _pool(session, str(worker.address), int(worker.state.nthreads))
    began = time.time()
    with pool.engine(name) as engine:
        received = 0 if engine.job == name else len(content)
        engine.load(name, content)
        result = engine.run(shard)
    received += sum(batch.data.nbytes for batch in shard) if isinstance(shard, list) else 0
    host = socket.gethostname()
    return result, Work(title, received, len(result), str(worker.address), host, began, time.time())


def end_session(name: str) -> None:
    """Stop the session's engines, whatever they do."""
    with _LOCK:
        _ENDED.add(name)
        pool = _POOLS.pop(name, None)
    if pool is not None:
        pool.stop()


def end_abandoned(name: str) -> None:
    """Stop the session's engines that still compute: nobody waits for them any more."""
    with _LOCK:
        pool = _POOLS.get(name)
    if pool is not None:
        pool.stop_busy()


def _pool(session: Session, address: str, slots: int) -> _Pool:
    with _LOCK:
        if session.name in _ENDED:
            raise _ended()
        if session.name not in _POOLS:
            # Of clients that died without a word.
            for name, pool in list(_POOLS.items()):
                if pool.idle and time.monotonic() - pool.used > _ABANDONED:
                    _POOLS.pop(name).stop()
            node = this_node()
            if (obstacle := node.versions.obstacle(session.versions, f"worker {address}")) is not None:
                raise ClusterError(obstacle)
            _POOLS[session.name] = _Pool(session.cpus.get(address, node.cpus), slots, session.threads)
        return _POOLS[session.name]


def _ended() -> ClusterError:
    return ClusterError("the client has ended its work")
