"""Requests for inference, within limits; whatever happens, each gets an answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from math import prod
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.messages import JSON_LENGTH, read_request, response
from quantkit.deployment.serving.metrics import Metrics
from quantkit.deployment.serving.refusal import refusal
from quantkit.deployment.serving.served import Served
from quantkit.deployment.serving.tensors import BYTES
from quantkit.errors import DataError, DeadlineExceeded, QuantkitError

Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)

# What takes less time than to hand it to a thread and back: JSON of up to three digits of bytes before tensors of so
# many bytes, and so few values of outputs.
_SHORT, _SMALL, _FEW = 4, 1 << 20, 10_000
_BYTES = BYTES.encode()

# What nginx writes where the client did not wait; nobody reads it.
_GONE = 499


class Inference:
    """Answers the requests of one server."""

    def __init__(self, limits: Limits, metrics: Metrics, threads: ThreadPoolExecutor) -> None:
        """Begin with none; ``threads`` read JSON and decode images."""
        self._limits, self._metrics, self._threads = limits, metrics, threads
        self._running = self._held = 0

    async def answer(self, model: Served, request: Request) -> Response:
        """The response to a request."""
        begun = time.monotonic()
        held = _Held(self)
        try:
            # What is sent to be refused is not read for it.
            self._check_room()
            async with asyncio.timeout(self._limits.seconds):
                body = await self._read(request, held)
                with self._admitted():
                    answered = await _unless_gone(request, self._inferred(model, request, body, held, begun))
        except HTTPException as error:
            answered = refusal(error.status_code, error.detail)
        except (DeadlineExceeded, TimeoutError):
            answered = refusal(504, "the request was not answered in its time")
        except ClientDisconnect:
            answered = Response(status_code=_GONE)
        except asyncio.CancelledError:
            answered = refusal(503, "the server ends")
        except DataError as error:
            answered = refusal(400, str(error))
        except Exception as error:  # whatever it is, the client gets an answer, and the log the reason
            _LOG.error("%s: %s", model.name, error, exc_info=None if isinstance(error, QuantkitError) else error)
            answered = refusal(500, "the model failed; the server's log says why")
        finally:
            held.release()
        self._metrics.answered(model, answered.status_code, time.monotonic() - begun)
        return answered

    def _check_room(self) -> None:
        if self._running >= self._limits.requests:
            raise HTTPException(503, "as many requests as this server takes are being served; try again later")

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        """Count a request that is being served.

        Raises:
            HTTPException: as many as allowed are.
        """
        self._check_room()
        self._running += 1
        self._metrics.running(self._running)
        try:
            yield
        finally:
            self._running -= 1
            self._metrics.running(self._running)

    async def _inferred(self, model: Served, request: Request, body: bytes, held: _Held, begun: float) -> Response:
        length = request.headers.get(JSON_LENGTH)
        is_short = length is not None and len(length) < _SHORT and len(body) <= _SMALL and _BYTES not in body[:1000]
        asked, tensors = await self._made(is_short, lambda: read_request(body, length, self._limits.json))
        model.check(asked, tensors)
        held.add(model.size(tensors))
        batches = await self._made(is_short and model.takes_as_it_is(tensors), lambda: model.batches(tensors))
        left = self._limits.seconds - (time.monotonic() - begun)
        # Triton's parameter, in microseconds.
        wanted = asked.given.timeout / 1e6
        outputs = await model.outputs(asked, batches, max(0.0, min(left, wanted) if wanted else left))
        size = sum(prod(tensor.shape) for tensor in outputs)
        content, headers = await self._made(size <= _FEW, lambda: response(model.name, model.version, asked, outputs))
        return Response(content, headers=headers)

    async def _made(self, at_once: bool, work: Callable[[], Result]) -> Result:
        """What a function returns, at once or in a thread; where this is cancelled, the thread ends first."""
        if at_once:
            return work()
        job = self._threads.submit(work)
        running = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if not job.cancel():
                await asyncio.wait({running})
                # Nobody is left to hear of it.
                running.exception()
            raise

    async def _read(self, request: Request, held: _Held) -> bytes:
        """Read a request's body.

        Raises:
            HTTPException: it is too large, is compressed, or all requests together take too much memory.
        """
        if request.headers.get("content-encoding", "identity") != "identity":
            raise HTTPException(415, "requests must not be compressed")
        most = self._limits.body
        told = request.headers.get("content-length", "0")
        with suppress(ValueError):
            if int(told[:20]) > most:
                raise HTTPException(413, f"the request has {told[:20]} bytes; this server takes {most}")
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise HTTPException(413, f"the request has more than {most} bytes")
            held.add(len(part))
            parts.append(part)
        return b"".join(parts)

    def hold(self, size: int) -> None:
        """Count bytes of memory; negative ones are free again.

        Raises:
            HTTPException: they are too many.
        """
        if size > 0 and self._held + size > self._limits.memory:
            large = size > self._limits.memory // 2
            raise HTTPException(
                413 if large else 503, "the request takes too much memory; send fewer samples at a time"
            )
        self._held += size


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """What ``work`` gives, unless the client goes away meanwhile.

    Raises:
        ClientDisconnect: it has; the work is cancelled.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        leaving.cancel()
        if working.cancel():
            await asyncio.wait({working})
            if not working.cancelled() and (error := working.exception()):
                _LOG.error("a request that nobody waited for: %s", error)


class _Held:
    """The memory of one request."""

    def __init__(self, inference: Inference) -> None:
        self._inference, self._size = inference, 0

    def add(self, size: int) -> None:
        self._inference.hold(size)
        self._size += size

    def release(self) -> None:
        self._inference.hold(-self._size)
        self._size = 0
