"""The choice of the fastest engine: measured in turns, remembered under QUANTKIT_HOME, and only where it holds."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from quantkit.bundle import Bundle, read_bundle, verify_bundle
from quantkit.deployment import fastest
from quantkit.deployment.fastest import EngineSkippedWarning, median_milliseconds, open_fastest
from quantkit.deployment.network import RunningNetwork
from quantkit.deployment.predictor import Predictor
from quantkit.errors import EngineError, QuantkitError, UserError
from quantkit.files.files import home
from quantkit.host import timing

VERSIONS = {"mxnet": "1.9.1", "onnxruntime": "1.31.1", "openvino": "2026.4.1"}


class Clock:
    """Time that passes only while a network runs."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def running(self, milliseconds: float) -> Callable[[np.ndarray], list[np.ndarray]]:
        def run(batch: np.ndarray) -> list[np.ndarray]:
            self.now += milliseconds / 1e3
            return [batch]

        return run


def test_medians_are_those_of_the_runs_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter", clock)
    networks = {name: RunningNetwork(name, clock.running(ms)) for name, ms in (("slow", 12.0), ("fast", 4.0))}
    assert median_milliseconds(networks, np.zeros((1, 1)), 0.4) == pytest.approx({"slow": 12.0, "fast": 4.0})


def test_what_runs_longer_than_its_turn_runs_in_every_round() -> None:
    runs = 0

    def counted(batch: np.ndarray) -> list[np.ndarray]:
        nonlocal runs
        runs += 1
        return [batch]

    median_milliseconds({"one": RunningNetwork("one", counted)}, np.zeros((1, 1)), 0.0)
    assert runs == 3 + 5 * 2


def kept(bundle: Bundle) -> Path:
    """The file of the bundle's measurements."""
    manifest = (bundle.directory / "manifest.json").read_bytes()
    return home() / "engines" / f"{hashlib.sha256(manifest).hexdigest()}.json"


@pytest.fixture
def bundle(digits_onnx: Path, tmp_path: Path) -> Bundle:
    return read_bundle(shutil.copytree(digits_onnx, tmp_path / "bundle"))


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """What the next measurements find; engines that are not installed open as well."""
    coming: list[dict[str, float]] = []
    monkeypatch.setattr(fastest, "_kept", {})
    monkeypatch.setattr(fastest, "usable_engines", lambda _: VERSIONS)
    monkeypatch.setattr(fastest, "open_network", lambda _, engine: RunningNetwork(engine, Clock().running(0)))
    monkeypatch.setattr(fastest, "median_milliseconds", lambda *_: coming.pop(0))
    return coming


def test_the_fastest_is_measured_once_and_remembered(bundle: Bundle, measurements: list[dict[str, float]]) -> None:
    measurements.append({"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 2.5})
    assert [open_fastest(bundle).engine for _ in range(2)] == ["onnxruntime", "onnxruntime"]
    (found,) = json.loads(kept(bundle).read_text())
    assert found["versions"] == VERSIONS
    assert found["milliseconds"]["openvino"] == 2.5
    assert verify_bundle(bundle.directory).ok


def test_copies_of_a_bundle_share_what_was_measured(
    bundle: Bundle, measurements: list[dict[str, float]], tmp_path: Path
) -> None:
    measurements.append({"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 2.5})
    copy = read_bundle(shutil.copytree(bundle.directory, tmp_path / "copy"))
    assert [open_fastest(each).engine for each in (bundle, copy)] == ["onnxruntime", "onnxruntime"]


def test_another_bundle_is_measured_by_itself(
    bundle: Bundle, measurements: list[dict[str, float]], edit: Callable[..., None]
) -> None:
    measurements += [{"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 2.5}, {"mxnet": 1.0, "onnxruntime": 2.0}]
    open_fastest(bundle)
    edit(bundle.directory, lambda manifest: manifest.update(quantkit="another"))
    assert open_fastest(read_bundle(bundle.directory)).engine == "mxnet"


def test_the_oldest_measurements_go(
    bundle: Bundle, measurements: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        measurements.append({"mxnet": 3.0, "onnxruntime": 2.0, "openvino": float(number)})
        versions = {**VERSIONS, "openvino": str(number)}
        monkeypatch.setattr(fastest, "usable_engines", lambda _, versions=versions: versions)
        open_fastest(bundle)
    assert [each["versions"]["openvino"] for each in json.loads(kept(bundle).read_text())] == [
        str(number) for number in range(8, 40)
    ]


@pytest.mark.parametrize("other", [{"threads": 999}, {"cpu": "another"}, {"versions": {**VERSIONS, "mxnet": "1.6.0"}}])
def test_elsewhere_it_is_measured_again(
    bundle: Bundle, measurements: list[dict[str, float]], other: dict[str, object]
) -> None:
    path = kept(bundle)
    measurements += [
        {"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 2.5},
        {"mxnet": 1.0, "onnxruntime": 2.0, "openvino": 2.5},
    ]
    open_fastest(bundle)
    path.write_text(json.dumps([{**json.loads(path.read_text())[0], **other}]))
    assert open_fastest(bundle).engine == "mxnet"
    assert len(json.loads(path.read_text())) == 2


def test_what_another_process_measured_meanwhile_is_kept(
    bundle: Bundle, measurements: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    measurements.append({"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 2.5})
    open_fastest(bundle)
    path = kept(bundle)
    (own,) = json.loads(path.read_text())
    path.unlink()

    def meanwhile(*_: object) -> dict[str, float]:
        path.write_text(json.dumps([{**own, "cpu": "another"}]))
        return {"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 2.5}

    monkeypatch.setattr(fastest, "median_milliseconds", meanwhile)
    open_fastest(bundle)
    assert json.loads(path.read_text()) == [{**own, "cpu": "another"}, own]


@pytest.mark.parametrize("content", ["", "{}", '[{"cpu": 1}]'])
def test_a_damaged_file_is_measured_anew(bundle: Bundle, measurements: list[dict[str, float]], content: str) -> None:
    measurements.append({"mxnet": 1.0, "onnxruntime": 2.0, "openvino": 2.5})
    kept(bundle).parent.mkdir(parents=True)
    kept(bundle).write_text(content)
    assert open_fastest(bundle).engine == "mxnet"
    assert len(json.loads(kept(bundle).read_text())) == 1


def test_where_home_cannot_be_written_it_is_remembered_in_the_process(
    bundle: Bundle, measurements: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise QuantkitError("a read-only place")

    monkeypatch.setattr(fastest, "writing", refused)
    measurements.append({"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 1.0})
    assert [open_fastest(bundle).engine for _ in range(2)] == ["openvino", "openvino"]
    assert not kept(bundle).exists()


def test_a_user_without_a_home_is_remembered_for_in_the_process(
    bundle: Bundle, measurements: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise UserError("this user has no home folder")

    monkeypatch.setattr(fastest, "home", homeless)
    measurements.append({"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 1.0})
    assert [open_fastest(bundle).engine for _ in range(2)] == ["openvino", "openvino"]


@pytest.mark.parametrize("milliseconds", [{}, {"mxnet": 1.0}])
def test_what_does_not_speak_of_all_engines_is_measured_again(
    bundle: Bundle, measurements: list[dict[str, float]], milliseconds: dict[str, float]
) -> None:
    path = kept(bundle)
    measurements += [{"mxnet": 3.0, "onnxruntime": 2.0, "openvino": 2.5}] * 2
    open_fastest(bundle)
    path.write_text(json.dumps([{**json.loads(path.read_text())[0], "milliseconds": milliseconds}]))
    assert open_fastest(bundle).engine == "onnxruntime"
    assert not measurements


def refusing(engines: Sequence[str]) -> Callable[[Bundle, str], RunningNetwork]:
    def opened(_: Bundle, engine: str) -> RunningNetwork:
        if engine in engines:
            raise EngineError(f"{engine} cannot load it")
        return RunningNetwork(engine, Clock().running(0))

    return opened


def test_an_engine_that_refuses_the_network_is_left_out_and_told_of_once(
    bundle: Bundle, measurements: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastest, "open_network", refusing(["openvino"]))
    measurements.append({"mxnet": 3.0, "onnxruntime": 2.0})
    with pytest.warns(EngineSkippedWarning, match="openvino is not considered: openvino cannot load it"):
        assert open_fastest(bundle).engine == "onnxruntime"
    (found,) = json.loads(kept(bundle).read_text())
    # Reasons name folders, such as that of a library that is missing.
    assert found["refused"] == ["openvino"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_fastest(bundle).engine == "onnxruntime"


def test_an_engine_that_loads_the_network_and_cannot_run_it_is_left_out(
    bundle: Bundle, measurements: list[dict[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(batch: np.ndarray) -> list[np.ndarray]:
        raise EngineError("no memory")

    monkeypatch.setattr(
        fastest,
        "open_network",
        lambda _, name: RunningNetwork(name, failing if name == "mxnet" else Clock().running(0)),
    )
    measurements.append({"onnxruntime": 2.0, "openvino": 1.0})
    with pytest.warns(EngineSkippedWarning, match="mxnet"):
        assert open_fastest(bundle).engine == "openvino"


def test_where_all_refuse_the_reasons_are_told(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest, "usable_engines", lambda _: VERSIONS)
    monkeypatch.setattr(fastest, "open_network", refusing(list(VERSIONS)))
    with pytest.raises(EngineError, match="mxnet cannot load it; onnxruntime cannot load it; openvino cannot load it"):
        open_fastest(bundle)
    assert not kept(bundle).exists()


def test_auto_predicts(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastest, "_SECONDS", 0.1)
    predictor = Predictor(bundle, engine="auto")
    assert predictor.engine in VERSIONS
    sample = bundle.sample
    np.testing.assert_allclose(predictor.predict(sample.input), sample.outputs[0], atol=3 / 127 * 20)
