from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from quantkit.models.card import WeightSource
from tests.models.weights import VALUES, params_file


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that both hubs' addresses lead to, and an empty cache."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    folder = tmp_path / "hub"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("MXNET_GLUON_REPO", "HF_ENDPOINT"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "mxnet"))
    yield folder
    server.shutdown()
    server.server_close()


@pytest.fixture
def published(hub: Path) -> WeightSource:
    """A source in GluonCV's store, as it stands there: a zip of parameters by structured names."""
    content = params_file({"out.weight": VALUES["net0_w"], "out.bias": VALUES["net0_b"]})
    (hub / "gluon" / "models").mkdir(parents=True)
    with zipfile.ZipFile(hub / "gluon" / "models" / "net-12345678.zip", "w") as archive:
        archive.writestr("net-12345678.params", content)
    return WeightSource("gluoncv", "net-12345678", sha1=hashlib.sha1(content).hexdigest())
