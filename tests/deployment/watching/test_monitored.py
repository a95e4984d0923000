"""Deployments that are watched: the digits network on its own images, and on others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

import quantkit
from quantkit import Monitor
from quantkit.bundle import Bundle, read_bundle
from quantkit.bundle.file_names import SIGNALS
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.deployment.instances import Instances
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.streams import Streams
from quantkit.deployment.watching.drift_watch import SIZES
from quantkit.deployment.watching.history import read_events
from quantkit.errors import BundleError, DeadlineExceeded, UserError
from tests.requirements import requires

ALL = Monitor(share=1.0)


def night(images: np.ndarray) -> np.ndarray:
    return (images // 3).astype(np.uint8)


def noise(images: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, images.shape, np.uint8)


def unscaled(images: np.ndarray) -> np.ndarray:
    """What is handed to the network without its preprocessing."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).astype(np.float32)


def reddish(images: np.ndarray) -> np.ndarray:
    return (images * np.array([1.0, 0.7, 0.7])).astype(np.uint8)


def drifting(predictor: Predictor, images: np.ndarray) -> set[str]:
    """The signals that drift after these images, one by one."""
    for image in images:
        predictor.predict(image)
    status = predictor.monitor_status()
    assert status is not None
    return set(status.drifting)


def test_its_own_images_do_not_drift(usual: Bundle, images: np.ndarray) -> None:
    with Predictor(usual, monitor=ALL) as predictor:
        assert drifting(predictor, np.concatenate([images] * 3)) == set()
        status = predictor.monitor_status()
    assert status is not None
    assert status.seen == status.watched == 3 * len(images)


@pytest.mark.parametrize("shift", [night, noise, unscaled, reddish])
def test_shifts_are_told_by_the_second_test(
    usual: Bundle, images: np.ndarray, shift: Callable[[np.ndarray], np.ndarray]
) -> None:
    with Predictor(usual, monitor=ALL) as predictor:
        assert drifting(predictor, images[: SIZES[2]]) == set()
        assert drifting(predictor, shift(images[SIZES[2] :][: SIZES[1]]))


@pytest.mark.parametrize("spread", [Instances(1), Streams(1)])
def test_instances_and_streams_are_watched(usual: Bundle, images: np.ndarray, spread: Any) -> None:
    requires("onnxruntime")
    with Predictor(usual, engine="onnxruntime", instances=spread, monitor=ALL) as predictor:
        expected = Predictor(usual, engine="onnxruntime").predict(images[:50])
        np.testing.assert_allclose(predictor.predict(images[:50]), expected, atol=1e-4)
        np.testing.assert_allclose(asyncio.run(predictor.predict_async(images[:50])), expected, atol=1e-4)
        assert "input.mean" in drifting(predictor, night(images[:56]))
        status = predictor.monitor_status()
    assert status is not None
    # Batches have 16 images at most, of which one is watched.
    assert (status.seen, status.watched) == (156, 64)


def test_threads_share_a_watcher(usual: Bundle, images: np.ndarray) -> None:
    with Predictor(usual, monitor=ALL) as predictor, ThreadPoolExecutor(4) as threads:
        list(threads.map(predictor.predict, np.split(images[:320], 40)))
        status = predictor.monitor_status()
    assert status is not None
    assert (status.seen, status.watched) == (320, 40)


def test_pixels_and_their_values_have_the_same_signals(usual: Bundle, images: np.ndarray) -> None:
    """The network is handed integers, or values, and rounding is of no account."""
    with Predictor(usual, monitor=ALL) as one, Predictor(usual, monitor=ALL) as other:
        drifting(one, images[:64])
        drifting(other, np.concatenate(list(replace(other._inputs, quantizer=None).batches(images[:64]))))
        first, second = one.monitor_status(), other.monitor_status()
    assert first is not None and second is not None
    assert set(second.signals) - set(first.signals) == {"input.beyond"}
    for name in first.signals:
        assert first.signals[name].mean == pytest.approx(second.signals[name].mean, abs=0.01), name


def test_last_events_are_written_without_closing(usual: Bundle, images: np.ndarray, events: Path) -> None:
    predictor = Predictor(usual, monitor=Monitor(share=1.0, events=events))
    predictor.predict(images[0])
    del predictor
    gc.collect()
    (run,) = read_events(events).runs
    assert run.ended
    assert run.last.seen == 1


def test_fp32_answers_where_int8_is_not_sure_and_is_compared(
    usual: Bundle, bundle: Bundle, images: np.ndarray, events: Path
) -> None:
    monitor = Monitor(reference=bundle.directory, shadow=1, fp32_below=0.9, events=events)
    exact, integer = Predictor(bundle).predict(images), Predictor(usual).predict(images)
    with quantkit.load(usual.directory, monitor=monitor) as predictor:
        found = predictor.predict(images)
        again = asyncio.run(predictor.predict_async(images))
    ordered = np.sort(np.exp(integer - integer.max(axis=1, keepdims=True)), axis=1)
    unsure = (ordered[:, -1] - ordered[:, -2]) / ordered.sum(axis=1) < 0.9
    assert 0 < unsure.sum() < len(images)
    for outputs in (found, again):
        # Pixels are not rounded to the network's integers before FP32 sees them.
        np.testing.assert_allclose(outputs[unsure], exact[unsure], atol=1e-4)
        np.testing.assert_allclose(outputs[~unsure], integer[~unsure], atol=1e-4)
    (run,) = read_events(events).runs
    assert run.ended
    assert run.shadow.compared == 2 * len(images)
    assert run.shadow.answered == 2 * unsure.sum()
    assert run.shadow.agreeing == 2 * (exact.argmax(axis=1) == integer.argmax(axis=1)).sum()


def test_agreement_that_falls_below_that_of_calibration_is_told(
    usual: Bundle, bundle: Bundle, images: np.ndarray, events: Path
) -> None:
    with Predictor(usual, monitor=Monitor(reference=bundle.directory, shadow=1, events=events)) as predictor:
        predictor.predict(images[:320])
        assert predictor.monitor_status().signals["output.agreement"].mean > 0.9  # type: ignore[union-attr]
        watcher: Any = predictor._watcher
        run = watcher._shadow._run
        watcher._shadow._run = lambda batch, deadline: [np.roll(each, 1, axis=1) for each in run(batch, deadline)]
        predictor.predict(images[:64])
        assert "output.agreement" in predictor.monitor_status().drifting  # type: ignore[union-attr]
    (run,) = read_events(events).runs
    assert [(each.event, each.signal) for each in run.changes] == [("drift", "output.agreement")]
    assert run.started.calibration["output.agreement"][0] == usual.manifest.agreement.top1  # type: ignore[union-attr]
    measured = usual.manifest.agreement
    assert measured is not None
    unmeasured = replace(usual, manifest=replace(usual.manifest, agreement=replace(measured, images=0)))
    Predictor(unmeasured, monitor=Monitor(reference=bundle.directory, shadow=1)).close()
    with Predictor(usual, monitor=Monitor(reference=bundle.directory, shadow=0, fp32_below=0.5)) as predictor:
        assert "output.agreement" not in predictor._watcher._drift.smallest_distances  # type: ignore[union-attr]


def test_fp32_has_the_time_of_the_request(usual: Bundle, bundle: Bundle, images: np.ndarray) -> None:
    with Predictor(usual, monitor=Monitor(reference=bundle.directory, fp32_below=1.0)) as predictor:
        watcher: Any = predictor._watcher
        run = watcher._shadow._run
        watcher._shadow._run = lambda batch, deadline: run(batch, deadline - 60.0)
        with pytest.raises(DeadlineExceeded):
            predictor.predict(images[:1], timeout=50.0)
        watcher._shadow._run = run
        predictor.predict(images[:1], timeout=50.0)


def test_without_a_monitor_nothing_is_watched(usual: Bundle) -> None:
    assert Predictor(usual).monitor_status() is None


def test_bundles_that_do_not_say_what_is_usual_are_refused(
    bundle: Bundle, digits_int8: QuantizedModel, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="FP32 bundle"):
        Predictor(bundle, monitor=True)
    few = read_bundle(digits_int8.save(tmp_path / "few"))
    with pytest.raises(UserError, match="8 calibration samples, too few"):
        Predictor(few, monitor=True)
    older = replace(digits_int8, drift=None).save(tmp_path / "older")
    assert not (older / SIGNALS).exists()
    with pytest.raises(UserError, match="does not say what its network usually reads"):
        quantkit.load(older, monitor=True)


def test_the_built_in_photographs_are_nobodys_usual_images(int8_engine: None) -> None:
    quantized = quantkit.quantize(
        quantkit.load_model("mobilenetv2_0.25", weights="random"),
        config=quantkit.QuantizationConfig(num_samples=2, preset="none"),
    )
    assert quantized.agreement is not None
    assert quantized.drift is None


def test_other_networks_are_no_reference(
    usual: Bundle, digits_onnx: Path, bundle: Bundle, edit: Callable[..., None], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="is an INT8 bundle"):
        Predictor(usual, monitor=Monitor(reference=digits_onnx))
    other = tmp_path / "other"
    copytree(bundle.directory, other)
    edit(other, lambda document: document["source"].update(sha256="0" * 64))
    with pytest.raises(UserError, match="is not the network of"):
        Predictor(usual, monitor=Monitor(reference=other))


def test_damaged_signals_are_told(usual: Bundle, resign: Callable[[Path], None], tmp_path: Path) -> None:
    copytree(usual.directory, tmp_path / "damaged")
    file = tmp_path / "damaged" / SIGNALS
    file.write_bytes(file.read_bytes()[:-30])
    resign(tmp_path / "damaged")
    with pytest.raises(BundleError, match=f"{SIGNALS} cannot be used"):
        quantkit.load(tmp_path / "damaged", monitor=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share": 0}, "share is 0"),
        ({"share": 2}, "share is 2"),
        ({"share": True}, "share is True"),
        ({"share": float("nan")}, "share is nan"),
        ({"shadow": -1}, "shadow is -1"),
        ({"fp32_below": -0.1}, "fp32_below is -0.1"),
        ({"fp32_below": 0.1}, "needs the network in FP32"),
        ({"shadow": 10}, "needs the network in FP32"),
        ({"events": 3}, "events"),
        ({"reference": b"x"}, "reference"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Monitor(**given)


def test_a_monitor_is_a_monitor(usual: Bundle) -> None:
    with pytest.raises(UserError, match="monitor is of type str"):
        quantkit.load(usual.directory, monitor="yes")  # type: ignore[arg-type]
