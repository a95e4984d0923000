"""The process of an instance of a training.

    python -m quantkit.training.instance_process SETTINGS

SETTINGS is a JSON object: a ``Job``, ``instances`` (of all machines), ``local_size`` (of its own), ``leads`` (it is the
first of its machine), ``cpus``, ``nodes`` and ``channel``. The one that leads writes the checkpoint, and tells its
steps and epochs; each tells at the end that it is done, or what stopped it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from quantkit.benchmark.workers.worker import bind, die_first
from quantkit.deployment.child_messages import send, send_error
from quantkit.progress import T

# Seconds between two messages on steps.
_TELL_EVERY = 0.2


def main(text: str) -> None:
    """Bind first, so that all threads and memory of libraries are in their place."""
    settings = json.loads(text)
    die_first()
    cpus, nodes, descriptor = (settings.pop(name) for name in ("cpus", "nodes", "channel"))
    bind(cpus, None)
    with suppress(OSError):
        bind(None, nodes)
    os.dup2(2, 1)
    with Connection(descriptor) as channel, suppress(EOFError, ConnectionError):
        try:
            _train(settings, channel)
        except Exception as error:  # whatever it is, the parent must hear of it
            send_error(channel, error)
        else:
            send(channel, done=True)
        # The parameter server ends with the first instance that ends; the parent ends them all.
        channel.recv_bytes()


def _train(settings: dict[str, Any], channel: Connection) -> None:
    from quantkit.backends.mxnet.checkpoint import read_checkpoint as read_graph
    from quantkit.data.samples import skipping
    from quantkit.data.sources import load_data
    from quantkit.host.threads import threads_asked
    from quantkit.models.load import load_model
    from quantkit.training.augmentation import Augmentation
    from quantkit.training.checkpoint import read_checkpoint
    from quantkit.training.communication import Alone, Communication
    from quantkit.training.config import TrainingConfig
    from quantkit.training.epoch import Epoch
    from quantkit.training.feed import readable_in_any_order
    from quantkit.training.feed_workers import feed_workers
    from quantkit.training.finetune import trainable_classifier
    from quantkit.training.horovod import Horovod
    from quantkit.training.horovod_cycle import cycle_time
    from quantkit.training.kvstore import KVStore
    from quantkit.training.loop_inputs import LoopInputs
    from quantkit.training.quantization_aware import teacher_of
    from quantkit.training.spinning import load_for_training
    from quantkit.training.team import Job, Simulated
    from quantkit.training.trainable import Trainable
    from quantkit.training.validation import share_of

    instances, local_size, leads = (settings.pop(name) for name in ("instances", "local_size", "leads"))
    simulated = settings.pop("simulated")
    job = Job(**settings, simulated=Simulated(**simulated) if simulated else None)
    load_for_training(job.train)
    options = {**job.config, "augmentation": Augmentation(**job.config["augmentation"])}
    model, config = load_model(job.card), TrainingConfig(**options)
    loaded = skipping(load_data(job.train), job.skip_bad[0])
    workers = feed_workers(job.workers, loaded, model.input_shape).number
    samples = readable_in_any_order(loaded, local_size)
    communication: Communication = Alone()
    if instances > 1 and job.kvstore == "horovod":
        own_batch, threads = config.batch_size // instances, threads_asked() or 1
        communication = Horovod(job.compress, cycle_time(model, own_batch, threads))
    elif instances > 1:
        communication = KVStore()
    validation = None
    if job.validation is not None:
        everything = skipping(load_data(job.validation), job.skip_bad[1])
        validation = share_of(model, everything, communication.rank, communication.instances, local_size)
    path = Path(job.checkpoint)
    inputs = LoopInputs(samples, validation, config, workers, path if leads else None, communication, job.identity)
    if job.simulated is None:
        loop = inputs.loop(model, trainable_classifier(model, config))
    else:
        graph = read_graph(Path(job.simulated.symbol), Path(job.simulated.params))
        learned = frozenset(json.loads(Path(job.simulated.learned).read_text("utf-8")))
        loop = inputs.loop(model, Trainable(graph, learned), teacher_of(model), job.simulated.distill)
    begun = None if job.anew else read_checkpoint(path, job.identity)

    heard = 0.0

    def progress(stream: Iterable[T], total: int, title: str) -> Iterator[T]:
        nonlocal heard
        for step, item in enumerate(stream, 1):
            yield item
            if leads and time.monotonic() - heard > _TELL_EVERY:
                heard = time.monotonic()
                send(channel, step=step)

    def tell(epoch: Epoch) -> None:
        if leads:
            send(channel, epoch=asdict(epoch))

    def heartbeat() -> None:
        nonlocal heard
        if leads and time.monotonic() - heard > _TELL_EVERY:
            heard = time.monotonic()
            send(channel, step=0)

    # All have met.
    heartbeat()
    replace(loop, heartbeat=heartbeat).run(begun, progress, tell)
    # Other machines may still ask the server of this one.
    communication.leave()


if __name__ == "__main__":
    main(sys.argv[1])
