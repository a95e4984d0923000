"""The process of an instance: a bundle's network on some hardware threads, for the batches that lie in shared memory.

    python -m quantkit.deployment.instance_process SETTINGS

SETTINGS is a JSON object, see ``Settings``. Each message is JSON. The first that it sends tells how long a full slot
takes and what quantizes the input, or why the network cannot run; each later one answers for a slot. It ends with its
channel.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.workers.worker import bind, die_first
from quantkit.deployment.child_messages import send, send_error
from quantkit.errors import QuantkitError

if TYPE_CHECKING:
    from quantkit.lowering.input_quantizer import InputQuantizer

Run = Callable[[int, int], None]
"""Computes the first samples of a slot."""


@dataclass(frozen=True)
class Settings:
    """How an instance runs, as JSON values.

    Attributes:
        bundle: the bundle's directory.
        sha256: the bundle's hash; another one is refused.
        engine: the engine's name.
        cpus, nodes: the hardware threads and memory nodes to bind to; None: any.
        batch: the most samples that the network computes at once.
        most: the most samples in a slot.
        channel, memory: descriptors of the channel and of the memory of the ``Slots``.
    """

    bundle: str
    sha256: str
    engine: str
    cpus: Optional[list[int]]
    nodes: Optional[list[int]]
    batch: int
    most: int
    channel: int
    memory: int


def main(text: str) -> None:
    """Bind first, so that all threads and memory of libraries are in their place."""
    settings = Settings(**json.loads(text))
    die_first()
    bind(settings.cpus, None)
    # Where the system does not let it, pages are where they are first touched, on the nearest node.
    with suppress(OSError):
        bind(None, settings.nodes)
    os.dup2(2, 1)
    # Without its parent, nobody is left to answer.
    with Connection(settings.channel) as channel, suppress(EOFError, ConnectionError):
        _serve(settings, channel)


def _serve(settings: Settings, channel: Connection) -> None:
    try:
        run, quantizer = _opened(settings)
        seconds = _warm(run, settings)
    except Exception as error:  # whatever it is, the parent must hear of it
        send_error(channel, error)
        return
    send(channel, seconds=seconds, quantizer=None if quantizer is None else asdict(quantizer))
    while True:
        slot, size = json.loads(channel.recv_bytes())
        try:
            run(slot, size)
        except QuantkitError as error:
            send_error(channel, error)
        else:
            send(channel)


def _opened(settings: Settings) -> tuple[Run, Optional[InputQuantizer]]:
    """The network, and what quantizes its input before it lies in a slot."""
    from quantkit.bundle.read import read_bundle
    from quantkit.deployment.network import open_network
    from quantkit.deployment.slots import Slots
    from quantkit.errors import BundleError

    bundle = read_bundle(settings.bundle)
    if bundle.sha256 != settings.sha256:
        raise BundleError(f"{settings.bundle} was replaced since it was loaded; load it again")
    network = open_network(bundle, settings.engine)
    shapes = [output.shape for output in bundle.manifest.outputs]
    slots = Slots(settings.memory, settings.most, bundle.manifest.input.shape, shapes)
    inputs = slots.inputs_of("float32" if network.quantizer is None else network.quantizer.dtype)

    def run(slot: int, size: int) -> None:
        for start in range(0, size, settings.batch):
            batch = slice(start, min(start + settings.batch, size))
            for place, output in zip(slots.outputs[slot], network.run(inputs[slot][batch])):
                place[batch] = output

    return run, network.quantizer


def _warm(run: Run, settings: Settings) -> float:
    """Run batches of all sizes that engines prepare a network for; seconds of a full slot once it is prepared."""
    size = 1
    while size < settings.batch:
        run(0, size)
        size *= 2
    run(0, settings.batch)
    begun = time.monotonic()
    run(0, settings.most)
    return time.monotonic() - begun


if __name__ == "__main__":
    main(sys.argv[1])
