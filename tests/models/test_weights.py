"""The choice between trained, given and random weights."""

from __future__ import annotations

import hashlib
import io
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, WeightsUnavailable
from quantkit.graph.params import write_params
from quantkit.models.card import Card, WeightSource
from quantkit.models.fit import Parameters, fit
from quantkit.models.weights import RandomWeightsWarning, resolve

WANTED = Parameters({"net0_w": (2, 3), "net0_b": (2,)}, {"net0_w": "out.weight", "net0_b": "out.bias"})
VALUES = {"net0_w": np.arange(6, dtype=np.float32).reshape(2, 3), "net0_b": np.ones(2, np.float32)}
OTHER = Preprocess(None, None, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def random() -> dict[str, np.ndarray]:
    return {name: np.zeros(shape, np.float32) for name, shape in WANTED.shapes.items()}


def params_file(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    write_params(file, arrays)
    return file.getvalue()


def card(folder: Path, *sources: WeightSource, params: str | None = None) -> Card:
    return Card("net", folder, (3, 8, 8), 2, network="net", sources=sources, params=params)


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


def assert_trained(params: dict[str, np.ndarray]) -> None:
    assert set(params) == set(VALUES)
    for name, value in VALUES.items():
        np.testing.assert_array_equal(params[name], value)


def test_published_weights_are_fetched_once(hub: Path, published: WeightSource) -> None:
    for _ in range(2):
        weights = resolve(card(hub, published), "pretrained", WANTED, random, quiet=True)
        assert_trained(weights.params)
        assert (weights.source.weights, weights.source.location) == ("pretrained", "net-12345678")
        (hub / "gluon" / "models" / "net-12345678.zip").unlink(missing_ok=True)


def test_a_damaged_cache_is_fetched_anew(hub: Path, published: WeightSource, tmp_path: Path) -> None:
    cached = tmp_path / "home" / "weights" / "gluoncv" / "net-12345678.params"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"damaged")
    assert_trained(resolve(card(hub, published), "auto", WANTED, random, quiet=True).params)


def test_the_next_source_is_tried_and_brings_its_preprocessing(hub: Path) -> None:
    (hub / "o" / "r" / "resolve" / "main").mkdir(parents=True)
    (hub / "o" / "r" / "resolve" / "main" / "model.params").write_bytes(params_file(VALUES))
    sources = WeightSource("gluoncv", "none-1"), WeightSource("huggingface", "o/r/model.params", preprocess=OTHER)
    weights = resolve(card(hub, *sources), "auto", WANTED, random, quiet=True)
    assert_trained(weights.params)
    assert weights.preprocess == OTHER


def test_something_else_than_weights_is_not_kept(hub: Path, tmp_path: Path) -> None:
    (hub / "o" / "r" / "resolve" / "main").mkdir(parents=True)
    (hub / "o" / "r" / "resolve" / "main" / "model.safetensors").write_text("<html>log in first</html>")
    source = WeightSource("huggingface", "o/r/model.safetensors")
    with pytest.raises(WeightsUnavailable, match="safetensors"):
        resolve(card(hub, source), "pretrained", WANTED, random, quiet=True)
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]


def test_no_source_falls_back_to_random_with_a_warning(hub: Path) -> None:
    sources = WeightSource("gluoncv", "none-1"), WeightSource("url", "http://127.0.0.1:1/x.params")
    began = time.monotonic()
    with pytest.warns(RandomWeightsWarning, match=r"(?s)404.*127\.0\.0\.1:1.*RANDOM"):
        weights = resolve(card(hub, *sources), "auto", WANTED, random, quiet=True)
    assert weights.source.weights == "random"
    assert time.monotonic() - began < 10


def test_pretrained_makes_that_an_error_that_names_every_source(hub: Path) -> None:
    sources = WeightSource("gluoncv", "none-1"), WeightSource("gluoncv", "none-2", sha1="0" * 40)
    with pytest.raises(WeightsUnavailable, match=r"none-1.*none-2"):
        resolve(card(hub, *sources), "pretrained", WANTED, random, quiet=True)


def test_random_asks_no_source(hub: Path, published: WeightSource) -> None:
    weights = resolve(card(hub, published), "random", WANTED, random, quiet=True)
    assert weights.source.weights == "random"
    assert not weights.params["net0_w"].any()


@pytest.mark.parametrize("kind", ["params", "npz"])
def test_a_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"own.{kind}"
    path.write_bytes(params_file(VALUES)) if kind == "params" else np.savez(path, **VALUES)
    weights = resolve(card(tmp_path), str(path), WANTED, random)
    assert_trained(weights.params)
    assert (weights.source.weights, weights.source.location) == ("file", path.name)
    assert weights.source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["none.params", "bad.params", "bad.npz", "bad.safetensors", "bad.pth"])
def test_an_unusable_file_is_an_error_even_for_auto(tmp_path: Path, name: str) -> None:
    if name.startswith("bad"):
        (tmp_path / name).write_bytes(b"PK\3\4 not weights")
    for own, choice in ((card(tmp_path), str(tmp_path / name)), (card(tmp_path, params=name), "auto")):
        with pytest.raises(ModelError, match=name):
            resolve(own, choice, WANTED, random)


def test_a_damaged_local_source_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "own.params").write_bytes(b"damaged")
    for source in (WeightSource("file", "own.params"), WeightSource("file", "own.params", sha256="0" * 64)):
        with pytest.raises(ModelError, match=r"own\.params"):
            resolve(card(tmp_path, source), "auto", WANTED, random)


@pytest.mark.parametrize(
    "arrays",
    [
        VALUES,
        {"arg:net0_w": VALUES["net0_w"], "aux:net0_b": VALUES["net0_b"]},
        {"out.weight": VALUES["net0_w"], "out.bias": VALUES["net0_b"]},
        {"net7_w": VALUES["net0_w"], "net7_b": VALUES["net0_b"]},
        {"w": VALUES["net0_w"], "b": VALUES["net0_b"]},
        {name: value.astype(np.float64) for name, value in VALUES.items()},
    ],
)
def test_namings(arrays: dict[str, np.ndarray]) -> None:
    fitted = fit(WANTED, arrays, "x")
    assert_trained(fitted)
    assert all(value.dtype == np.float32 for value in fitted.values())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"net0_b": None}, "lacks 'net0_b'"),
        ({"net0_x": np.ones(1)}, "holds 'net0_x', which the network lacks"),
        ({"net0_b": np.ones(3, np.float32)}, r"'net0_b' has shape \(3,\), the network wants \(2,\)"),
        ({"net0_b": np.ones(2, np.int8)}, "int8, not floating-point"),
        ({"net0_b": np.array([1, np.nan], np.float32)}, "NaN, infinity"),
    ],
)
def test_weights_that_do_not_fit(change: dict[str, np.ndarray | None], complaint: str) -> None:
    arrays = {name: value for name, value in {**VALUES, **change}.items() if value is not None}
    with pytest.raises(ModelError, match=complaint):
        fit(WANTED, arrays, "x")
