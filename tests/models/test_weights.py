"""The choice between trained, given and random weights."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import time
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, QuantkitError, UserError, WeightsUnavailable
from quantkit.formats.mxnet.params import write_params
from quantkit.models.card import Card, WeightSource
from quantkit.models.fit import Parameters, fit
from quantkit.models.trust import read_record, record_file
from quantkit.models.weight_store import DamagedWeightsWarning, TrustedWeightsWarning, cached
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


def test_a_damaged_cache_is_told_and_fetched_anew(hub: Path, published: WeightSource) -> None:
    place = cached(published)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"damaged")
    with pytest.warns(DamagedWeightsWarning, match=rf"{place.name} is damaged.*SHA-1"):
        assert_trained(resolve(card(hub, published), "auto", WANTED, random, quiet=True).params)
    assert hashlib.sha1(place.read_bytes()).hexdigest() == published.sha1


def test_a_damaged_cache_is_not_used_where_it_cannot_be_fetched_anew(hub: Path, published: WeightSource) -> None:
    resolve(card(hub, published), "auto", WANTED, random, quiet=True)
    (hub / "gluon" / "models" / "net-12345678.zip").unlink()
    place = cached(published)
    place.write_bytes(place.read_bytes()[:-1] + b"x")
    with pytest.warns(DamagedWeightsWarning), pytest.raises(WeightsUnavailable, match="404"):
        resolve(card(hub, published), "pretrained", WANTED, random, quiet=True)


def upload(hub: Path, content: bytes, location: str = "o/r/model.params", revision: str = "main") -> WeightSource:
    """Put a file into the hub; its source, without a hash."""
    owner, repository, file = location.split("/")
    folder = hub / owner / repository / "resolve" / revision
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(content)
    return WeightSource("huggingface", location, revision=None if revision == "main" else revision)


@pytest.mark.filterwarnings("ignore::quantkit.models.weight_store.TrustedWeightsWarning")
def test_the_next_source_is_tried_and_brings_its_preprocessing(hub: Path) -> None:
    second = replace(upload(hub, params_file(VALUES)), preprocess=OTHER)
    weights = resolve(card(hub, WeightSource("gluoncv", "none-1"), second), "auto", WANTED, random, quiet=True)
    assert_trained(weights.params)
    assert weights.preprocess == OTHER


def test_something_else_than_weights_is_neither_kept_nor_trusted(hub: Path, tmp_path: Path) -> None:
    source = upload(hub, b"<html>log in first</html>", "o/r/model.safetensors")
    with pytest.raises(WeightsUnavailable, match="safetensors"):
        resolve(card(hub, source), "pretrained", WANTED, random, quiet=True)
    left = [path.name for path in (tmp_path / "home" / "weights").rglob("*") if path.is_file()]
    assert left == [".model.safetensors.lock"]


BAD_ARCHIVES = {
    "encrypted": lambda whole: patched(whole, 6, 8, b"\1"),
    "unknown": lambda whole: patched(whole, 8, 10, b"\x63"),
    "cut": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
}


def patched(whole: bytes, local: int, central: int, value: bytes) -> bytes:
    changed, directory = bytearray(whole), whole.index(b"PK\1\2")
    changed[local : local + 1] = changed[directory + central : directory + central + 1] = value
    return bytes(changed)


@pytest.mark.parametrize("kind", BAD_ARCHIVES)
@pytest.mark.filterwarnings("ignore::quantkit.models.weight_store.TrustedWeightsWarning")
def test_an_odd_archive_does_not_keep_the_next_source_from_being_tried(
    hub: Path, published: WeightSource, kind: str
) -> None:
    archive = hub / "gluon" / "models" / "net-12345678.zip"
    archive.write_bytes(BAD_ARCHIVES[kind](archive.read_bytes()))
    second = upload(hub, params_file(VALUES))
    assert_trained(resolve(card(hub, published, second), "pretrained", WANTED, random, quiet=True).params)
    third = replace(second, location="o/r/none.params")
    with pytest.raises(WeightsUnavailable, match=r"(?s)net-12345678.*archive.*none\.params.*404"):
        resolve(card(hub, published, third), "pretrained", WANTED, random, quiet=True)


@pytest.mark.filterwarnings("ignore::quantkit.models.weight_store.TrustedWeightsWarning")
def test_weights_of_another_network_do_not_keep_the_next_source_from_being_tried(hub: Path) -> None:
    misfit = upload(hub, params_file({"x": np.ones(3, np.float32)}), "o/r/other.params")
    right = upload(hub, params_file(VALUES))
    assert_trained(resolve(card(hub, misfit, right), "auto", WANTED, random, quiet=True).params)
    assert read_record(record_file(cached(misfit))) is None
    # Where nothing else is left, random weights would hide that the network was asked for in another form.
    with pytest.raises(ModelError, match=r"(?s)other\.params lacks.*none-1"):
        resolve(card(hub, WeightSource("gluoncv", "none-1"), misfit), "auto", WANTED, random, quiet=True)


def test_what_has_no_hash_is_trusted_on_first_use_and_held_to_that(hub: Path) -> None:
    content = params_file(VALUES)
    source = upload(hub, content)
    place = cached(source)
    with pytest.warns(
        TrustedWeightsWarning, match=rf"(?s)no hash.*{hashlib.sha256(content).hexdigest()}.*trusted from now"
    ):
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    record = read_record(record_file(place))
    assert record is not None
    assert (record.source, record.size) == ("huggingface o/r/model.params", len(content))
    assert record.sha256 == hashlib.sha256(content).hexdigest()
    assert record.url.endswith("/o/r/resolve/main/model.params")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    # The same file is fetched again without a word; another one is not taken for it.
    place.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    place.unlink()
    other = params_file({**VALUES, "net0_b": np.zeros(2, np.float32)})
    upload(hub, other)
    for choice in ("auto", "pretrained"):
        with pytest.raises(
            ModelError, match=rf"(?s)delivers another file.*delete .*{record_file(place).name}.*--weights FILE"
        ):
            resolve(card(hub, source), choice, WANTED, random, quiet=True)
        assert not place.exists()
    record_file(place).unlink()
    with pytest.warns(TrustedWeightsWarning):
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    assert place.read_bytes() == other


def test_a_mirrors_login_is_neither_recorded_nor_shown(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", os.environ["HF_ENDPOINT"].replace("//", "//me:secret@"))
    source = upload(hub, params_file(VALUES))
    with pytest.warns(TrustedWeightsWarning) as told:
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    cached(source).unlink()
    upload(hub, params_file({**VALUES, "net0_b": np.zeros(2, np.float32)}))
    with pytest.raises(ModelError, match="delivers another file") as raised:
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    for text in (str(told[0].message), str(raised.value), record_file(cached(source)).read_text()):
        assert "secret" not in text


def test_a_trusted_file_that_changed_on_this_machine_is_told_and_fetched_again(hub: Path) -> None:
    content = params_file(VALUES)
    source = upload(hub, content)
    with pytest.warns(TrustedWeightsWarning):
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    place = cached(source)
    place.write_bytes(params_file({**VALUES, "net0_b": np.zeros(2, np.float32)}))
    with pytest.warns(DamagedWeightsWarning, match="not .* as on"):
        assert_trained(resolve(card(hub, source), "auto", WANTED, random, quiet=True).params)
    assert place.read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        {"format": 2},
        {"sha256": "0"},
        {"sha256": 3},
        {"more": 1},
        *({"size": wrong} for wrong in ("x", None, -1, 1.5, True, [1], float("nan"))),
        *({name: wrong} for name in ("source", "url", "revision", "etag", "date") for wrong in (None, 1, ["x"])),
        *({name: ...} for name in ("format", "source", "url", "revision", "etag", "size", "sha256", "date")),
    ],
)
def test_a_damaged_record_is_an_error_that_names_it(hub: Path, change: bytes | dict[str, object]) -> None:
    source = upload(hub, params_file(VALUES))
    with pytest.warns(TrustedWeightsWarning):
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)
    path = record_file(cached(source))
    if isinstance(change, bytes):
        path.write_bytes(change)
    else:
        record = {**json.loads(path.read_text()), **change}
        path.write_text(json.dumps({name: value for name, value in record.items() if value is not ...}))
    with pytest.raises(ModelError, match=rf"{path.name}.*delete it"):
        resolve(card(hub, source), "auto", WANTED, random, quiet=True)


def test_a_revision_and_a_hash_of_the_card_are_asked_for_and_need_no_trust(hub: Path) -> None:
    content = params_file(VALUES)
    source = replace(
        upload(hub, content, revision="a" * 40), size=len(content), sha256=hashlib.sha256(content).hexdigest()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_trained(resolve(card(hub, source), "auto", WANTED, random, quiet=True).params)
    assert not record_file(cached(source)).exists()
    for wrong, complaint in (
        ({"size": len(content) - 1}, "more than the"),
        ({"size": len(content) + 1}, "its size is"),
    ):
        cached(source).unlink()
        with pytest.raises(WeightsUnavailable, match=complaint):
            resolve(card(hub, replace(source, **wrong)), "pretrained", WANTED, random, quiet=True)  # type: ignore[arg-type]
        cached(source).touch()


def test_a_home_that_cannot_be_written_is_an_error_that_names_the_remedy(
    hub: Path, published: WeightSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    for home in ("/proc/quantkit", str(tmp_path / "file")):
        monkeypatch.setenv("QUANTKIT_HOME", home)
        with pytest.raises(QuantkitError, match="set QUANTKIT_HOME"):
            resolve(card(hub, published), "auto", WANTED, random, quiet=True)


def test_a_user_without_a_home_folder_is_told_the_remedy(
    hub: Path, published: WeightSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("MXNET_HOME")
    assert_trained(resolve(card(hub, published), "auto", WANTED, random, quiet=True).params)
    monkeypatch.delenv("QUANTKIT_HOME")
    with pytest.raises(UserError, match="set QUANTKIT_HOME"):
        resolve(card(hub, published), "auto", WANTED, random, quiet=True)


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
        ({"net0_w": None, "out.weight": np.zeros((2, 3)), "out.bias": np.zeros(2)}, "'net0_b' twice"),
    ],
)
def test_weights_that_do_not_fit(change: dict[str, np.ndarray | None], complaint: str) -> None:
    arrays = {name: value for name, value in {**VALUES, **change}.items() if value is not None}
    with pytest.raises(ModelError, match=complaint):
        fit(WANTED, arrays, "x")
