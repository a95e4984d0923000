"""A server of the digits network, in FP32 as version 1 and in INT8 as version 2, and a client."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union
from urllib.parse import urlsplit

import numpy as np
import pytest

from quantkit.bundle import Bundle
from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.listener import Address, listening
from quantkit.deployment.serving.models import ModelPlace, Models, loaded_models
from quantkit.deployment.serving.served import Served
from quantkit.deployment.serving.server import serving

FREE = Address(port=0)

# Longer than anything here takes on a busy machine.
PATIENCE = 30.0


class Answer(NamedTuple):
    """What a server has answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.content)

    @property
    def error(self) -> str:
        return str(self.document["error"])


def ask(url: str, path: str, body: Union[bytes, dict[str, Any], None] = None, **headers: str) -> Answer:
    """Ask a server: GET, or POST with a body. Underscores in names of headers stand for hyphens."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    try:
        content = json.dumps(body) if isinstance(body, dict) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET" if body is None else "POST", path, content, named)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.headers), answer.read())
    finally:
        connection.close()


@contextmanager
def started(
    models: Models, limits: Optional[Limits] = None, token: Optional[str] = None, address: Address = FREE
) -> Iterator[str]:
    """A server on a free port: its address."""
    with listening(address) as listener, serving(models, listener, limits or Limits(), token):
        yield listener.url


@pytest.fixture(scope="session")
def models(int8_engine: None, bundle: Bundle, digits_onnx: Path) -> Iterator[Models]:
    places = [ModelPlace("digits", "1", bundle.directory), ModelPlace("digits", "2", digits_onnx)]
    with loaded_models(places, None, None, (), 100_000) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def server(models: Models) -> Iterator[str]:
    with started(models) as url:
        yield url


@pytest.fixture
def served(models: Models) -> Iterator[Callable[..., str]]:
    """Start further servers with other limits."""
    with ExitStack() as stack:

        def start(limits: Optional[Limits] = None, token: Optional[str] = None) -> str:
            return stack.enter_context(started(models, limits, token))

        yield start


@pytest.fixture(scope="session")
def pixels() -> np.ndarray:
    """Two images as pixels."""
    return np.random.default_rng(3).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)


class Held:
    """Keeps a model from answering until it is told to."""

    def __init__(self) -> None:
        self.entered, self.free = threading.Event(), threading.Event()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    state, outputs = Held(), Served.outputs

    async def waiting(*given: Any) -> Any:
        state.entered.set()
        while not state.free.is_set():
            await asyncio.sleep(0.005)
        return await outputs(*given)

    monkeypatch.setattr(Served, "outputs", waiting)
    yield state
    state.free.set()
