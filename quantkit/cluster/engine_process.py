"""The process that runs networks for one worker: it has an environment and a share of the processor of its own.

Frames of bytes come on standard input and leave on the descriptor that standard output had; whatever libraries print
goes to standard error. The process ends with its standard input, so that it does not outlive its worker.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any, Optional

_LENGTH_BYTES = 8
_CHUNK = 1 << 20


def write_frame(stream: IO[bytes], content: bytes) -> None:
    """Write one frame."""
    stream.write(len(content).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Optional[bytes]:
    """The next frame; None at the end of the stream."""
    head = _exactly(stream, _LENGTH_BYTES)
    return None if head is None else _exactly(stream, int.from_bytes(head, "little"))


def _exactly(stream: IO[bytes], size: int) -> Optional[bytes]:
    content = bytearray()
    while len(content) < size:
        part = stream.read(min(size - len(content), _CHUNK))
        if not part:
            return None
        content += part
    return bytes(content)


def main(arguments: Sequence[str]) -> None:
    """Serve until standard input ends; ``arguments``: the hardware threads to run on."""
    os.sched_setaffinity(0, {int(cpu) for cpu in arguments})
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    server = _Server()
    while True:
        write_frame(out, server.answer(requests.get()))


def _receive(stream: IO[bytes], requests: queue.Queue[bytes]) -> None:
    while (frame := read_frame(stream)) is not None:
        requests.put(frame)
    # An engine that computes at the moment is not waited for: nobody is left to read what it says.
    os._exit(0)


class _Server:
    """Carries out one job at a time, shard by shard."""

    def __init__(self) -> None:
        self._job: Any = None
        self._stream: Any = None

    def answer(self, request: bytes) -> bytes:
        """The reply to a request, pickled: ("done", arrays), or ("failed", name of quantkit's error, message)."""
        from quantkit.errors import QuantkitError

        try:
            verb, content = pickle.loads(request)
            return pickle.dumps(("done", getattr(self, f"_{verb}")(content)))
        except QuantkitError as error:
            return pickle.dumps(("failed", type(error).__name__, str(error)))
        except Exception as error:
            return pickle.dumps(("failed", "EngineError", f"{type(error).__name__}: {error}"))

    def _load(self, content: bytes) -> bytes:
        """Take up a job; what the one before has bound goes first."""
        self._job = self._stream = None
        self._job = pickle.loads(content)
        self._stream = self._job.open()
        return b""

    def _run(self, shard: Any) -> bytes:
        """The partial result over a shard, as ``arrays.to_bytes`` writes it."""
        from quantkit.cluster.arrays import to_bytes
        from quantkit.cluster.job import partial_of

        return to_bytes(partial_of(self._job.aggregation, self._stream, shard))


if __name__ == "__main__":
    main(sys.argv[1:])
