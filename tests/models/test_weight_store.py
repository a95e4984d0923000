"""Weights on disk: fetched once, kept, and fetched anew where they are damaged."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.errors import QuantkitError, UserError, WeightsUnavailable
from quantkit.models.card import WeightSource
from quantkit.models.trust import record_file
from quantkit.models.weight_store import DamagedWeightsWarning, cached
from quantkit.models.weights import resolve
from tests.models.weights import VALUES, WANTED, assert_trained, card, params_file, random, upload


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


def test_something_else_than_weights_is_neither_kept_nor_trusted(hub: Path, tmp_path: Path) -> None:
    source = upload(hub, b"<html>log in first</html>", "o/r/model.safetensors")
    with pytest.raises(WeightsUnavailable, match="safetensors"):
        resolve(card(hub, source), "pretrained", WANTED, random, quiet=True)
    left = [path.name for path in (tmp_path / "home" / "weights").rglob("*") if path.is_file()]
    assert left == [".model.safetensors.lock"]


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
    def no_home(path: Path) -> Path:
        if path.parts[0] == "~":
            raise RuntimeError("Could not determine home directory.")
        return path

    monkeypatch.setattr(Path, "expanduser", no_home)
    monkeypatch.delenv("MXNET_HOME")
    assert_trained(resolve(card(hub, published), "auto", WANTED, random, quiet=True).params)
    monkeypatch.delenv("QUANTKIT_HOME")
    with pytest.raises(UserError, match="set QUANTKIT_HOME"):
        resolve(card(hub, published), "auto", WANTED, random, quiet=True)
