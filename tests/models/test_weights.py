"""The choice between trained, given and random weights."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.errors import ModelError, WeightsUnavailable
from quantkit.models.card import WeightSource
from quantkit.models.trust import read_record, record_file
from quantkit.models.weight_store import cached
from quantkit.models.weights import RandomWeightsWarning, resolve
from tests.models.weights import OTHER, VALUES, WANTED, assert_trained, card, params_file, random, upload


@pytest.mark.filterwarnings("ignore::quantkit.models.weight_store.TrustedWeightsWarning")
def test_the_next_source_is_tried_and_brings_its_preprocessing(hub: Path) -> None:
    second = replace(upload(hub, params_file(VALUES)), preprocess=OTHER)
    weights = resolve(card(hub, WeightSource("gluoncv", "none-1"), second), "auto", WANTED, random, quiet=True)
    assert_trained(weights.params)
    assert weights.preprocess == OTHER


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
