"""Weights without a published hash: trusted at their first use, and held to that."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from quantkit.errors import ModelError
from quantkit.models.trust import read_record, record_file
from quantkit.models.weight_store import DamagedWeightsWarning, TrustedWeightsWarning, cached
from quantkit.models.weights import resolve
from tests.models.weights import VALUES, WANTED, assert_trained, card, params_file, random, upload


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
