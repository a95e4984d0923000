"""INT8 accuracy of trained networks, held to what is recorded of them image by image; see ``gate``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.accuracy.gate import Form, complaints
from tests.accuracy.measure import REAL, SHIPPED, Subject, in_a_process
from tests.accuracy.record import engine, recorded
from tests.requirements import requires

pytestmark = pytest.mark.timeout(900)


def recorded_forms() -> Iterator[Any]:
    for engine_, subjects in recorded().items():
        for subject, found in subjects.items():
            for form, each in found["forms"].items():
                yield pytest.param(each, found["images"], id=f"{engine_} {subject} {form}")


@pytest.fixture
def vnni(int8_engine: None) -> None:
    """A processor whose INT8 sums do not saturate: the record's."""
    requires("vnni")


def check(subject: Subject, **environment: str) -> None:
    wanted = recorded()[engine()][subject.name]
    found = in_a_process(subject.name, **environment)
    assert found["images"] == wanted["images"]
    assert found["forms"].keys() == wanted["forms"].keys()
    said = {name: complaints(wanted["forms"][name], form, found["images"]) for name, form in found["forms"].items()}
    assert not any(said.values()), "\n".join(f"{name}: {each}" for name, lines in said.items() for each in lines)


@pytest.mark.parametrize("subject", SHIPPED, ids=lambda subject: subject.name)
def test_the_networks_that_ship_are_as_good_as_recorded(subject: Subject, vnni: None) -> None:
    check(subject)


@pytest.mark.parametrize(
    "subject",
    [pytest.param(each, marks=[pytest.mark.long] if each.data == "imagenet" else []) for each in REAL],
    ids=lambda subject: subject.name,
)
def test_networks_on_real_images_are_as_good_as_recorded(subject: Subject, vnni: None, real_data: Path) -> None:
    requires("onednn")
    check(subject, QUANTKIT_REAL_DATA=str(real_data))


def moved(form: Form, images: int, new: int, gone: int) -> Form:
    """What a network would have that differs from FP32 about other images, and as large an error as that means."""
    differs = set(form["differs"])
    kept = sorted(differs)[min(gone, len(differs)) :]
    more = [number for number in range(images) if number not in differs][:new]
    share, now = max(1, len(differs)), len(kept) + len(more)
    growth = (max(share, now) / share) ** 2
    return {**form, "differs": kept + more, "one_less_cosine": form["one_less_cosine"] * growth}


@pytest.mark.parametrize(("form", "images"), recorded_forms())
def test_a_silent_loss_of_one_point_is_told_from_rounding(form: Form, images: int) -> None:
    assert complaints(form, form, images) == ()
    point = images // 100
    assert complaints(form, moved(form, images, point, 0), images)
    # Rounding moves images both ways.
    flips = min(5, len(form["differs"]))
    assert complaints(form, moved(form, images, point + flips, flips), images)
    assert complaints(form, moved(form, images, flips, flips), images) == ()
    # A loss of labels alone, with FP32's own predictions worse.
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(form["misses"]), np.uint8))
    bits[np.flatnonzero(bits == 0)[:point]] = 1
    assert complaints(form, {**form, "misses": np.packbits(bits).tobytes().hex()}, images)


SYNTHETIC: Form = {"differs": [*range(10)], "misses": bytes(125).hex(), "one_less_cosine": 1e-4}


def test_a_loss_that_only_the_outputs_show() -> None:
    """Of 1000 images 1 % differ, so half a point more is ((0.01 + 0.005) / 0.01)^2 = 2.25 times the error."""
    assert complaints(SYNTHETIC, {**SYNTHETIC, "one_less_cosine": 2.249e-4}, 1000) == ()
    (said,) = complaints(SYNTHETIC, {**SYNTHETIC, "one_less_cosine": 2.251e-4}, 1000)
    assert said.startswith("one less the cosine is 0.000225")


@pytest.mark.parametrize("what", ["differs", "misses"])
def test_a_loss_that_only_predictions_or_labels_show(what: str) -> None:
    """The same coin falls on one side 9 times in a row once in 512 times, and 10 times once in 1024."""

    def with_new(count: int) -> Form:
        new = range(10, 10 + count)
        bits = np.isin(np.arange(1000), new)
        values = {"differs": [*SYNTHETIC["differs"], *new], "misses": np.packbits(bits).tobytes().hex()}
        return {**SYNTHETIC, what: values[what]}

    assert complaints(SYNTHETIC, with_new(9), 1000) == ()
    (said,) = complaints(SYNTHETIC, with_new(10), 1000)
    assert "10 are new and 0 gone" in said


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_outputs_that_are_no_numbers_are_no_agreement(value: float) -> None:
    form = {"differs": [3], "misses": "00", "one_less_cosine": 1e-4}
    assert complaints(form, {**form, "one_less_cosine": value}, 1000)


def test_every_network_is_recorded_with_every_engine() -> None:
    known = recorded()
    assert known.keys() == {"mxnet 1.9.1", "mxnet 1.6.0"}
    for engine_, subjects in known.items():
        wanted = {subject.name: subject for subject in (*SHIPPED, *REAL)}
        assert set(subjects) >= {subject.name for subject in SHIPPED}
        assert engine_ != "mxnet 1.9.1" or set(subjects) == set(wanted)
        for name, found in subjects.items():
            assert set(found["forms"]) >= {"fp32", *wanted[name].presets}
