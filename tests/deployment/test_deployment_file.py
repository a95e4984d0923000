"""``deployment.toml``: what is written is read, and only where it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.registry import MXNET
from quantkit.bundle import Bundle
from quantkit.deployment import deployment_file
from quantkit.deployment.deployment_file import (
    DEPLOYMENT,
    Deployment,
    TunedBundle,
    deployment_text,
    read_deployment,
    this_host,
)
from quantkit.deployment.instances import Instances
from quantkit.deployment.loading import DeploymentWarning, load
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.streams import Streams
from quantkit.errors import UserError


@pytest.fixture
def tuned(bundle: Bundle) -> Deployment:
    return Deployment(
        TunedBundle(bundle.manifest.name, bundle.manifest.kind, bundle.sha256),
        this_host(),
        MXNET.name,
        MXNET.installed_version(),
        Instances("1x1", batch=4, window=0.001, runtime=Runtime(blocktime=0)),
        3,
        {"goal": "throughput", "p99_ms": 15.0},
        {"images_per_second": 100.5, "over_default": [1.2, 1.1, 1.3]},
    )


@pytest.fixture
def file(tuned: Deployment, tmp_path: Path) -> Path:
    (tmp_path / DEPLOYMENT).write_text(deployment_text(tuned))
    return tmp_path / DEPLOYMENT


def test_what_is_written_is_read(tuned: Deployment, file: Path, tmp_path: Path) -> None:
    assert read_deployment(file) == tuned
    in_process = replace(tuned, spread=None, goal={}, evidence={}, host=replace(tuned.host, cpu_quota=1.5))
    (tmp_path / "other.toml").write_text(deployment_text(in_process))
    assert read_deployment(tmp_path / "other.toml") == in_process
    streams = replace(tuned, engine="openvino", spread=Streams(2, batch=4, window=0.001))
    (tmp_path / "streams.toml").write_text(deployment_text(streams))
    assert read_deployment(tmp_path / "streams.toml") == streams


def test_a_bundle_runs_as_its_deployment_says(
    directory: Path, file: Path, tuned: Deployment, inputs: np.ndarray
) -> None:
    with load(directory, deployment=file) as predictor:
        assert "1 instance" in repr(predictor) and predictor.engine == MXNET.name
        found = predictor.predict(inputs)
        assert predictor._inputs.workers == 3
    with load(directory, deployment=file, workers=5) as predictor:
        assert predictor._inputs.workers == 5
    file.write_text(deployment_text(replace(tuned, spread=None, workers=None)))
    with load(directory, deployment=file) as predictor:
        assert "instance" not in repr(predictor)
        np.testing.assert_allclose(predictor.predict(inputs), found, rtol=0, atol=1e-5)
        assert predictor._inputs.workers is None


def test_an_engine_that_was_updated_is_told(directory: Path, file: Path, tuned: Deployment) -> None:
    file.write_text(deployment_text(replace(tuned, spread=None, engine_version="0.1")))
    with pytest.warns(DeploymentWarning, match=r"was measured with MXNet 0\.1, and .* is installed; tune it again"):
        load(directory, deployment=file).close()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cpu": "another"}, "the processor another instead of"),
        ({"usable_cores": 999}, "usable cores 999 instead of"),
        ({"cpu_quota": 0.25}, "a quota of cores 0.25 instead of"),
        ({"id": "another"}, "the machine another instead of"),
    ],
)
def test_other_hosts_are_refused(
    directory: Path, file: Path, tuned: Deployment, change: dict[str, object], told: str
) -> None:
    file.write_text(deployment_text(replace(tuned, host=replace(tuned.host, **change))))
    with pytest.raises(UserError, match=rf"measured on another host \({told}.*quantkit tune BUNDLE --retune"):
        load(directory, deployment=file)


def test_other_bundles_are_refused(directory: Path, file: Path, tuned: Deployment) -> None:
    file.write_text(deployment_text(replace(tuned, bundle=replace(tuned.bundle, sha256="0" * 64))))
    with pytest.raises(UserError, match="is of another bundle, called"):
        load(directory, deployment=file)


def test_a_deployment_leaves_nothing_to_choose(directory: Path, file: Path) -> None:
    for given in ({"engine": "mxnet"}, {"instances": 1}, {"threads": 1}):
        with pytest.raises(UserError, match="leave engine, instances and threads out"):
            load(directory, deployment=file, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "other", "told"),
    [
        ("version = 1", "version = 2", "version"),
        ("[runtime]", "[streams]\nnumber = 2\n[runtime]", "both instances and streams"),
        ("version = 1", "version = 2026-01-01", "is no TOML of texts, numbers and tables"),
        ('engine = "mxnet"', 'engine = "reference"', "no engine 'reference'"),
        ("batch = 4", "batch = 0", "instances.batch"),
        ("batch = 4", "batch = 4\nmore = 1", "instances.more: there is no such key"),
        ("window = 0.001", "window = nan", "instances.window"),
        ('placement = "1x1"', 'placement = "1x1; reboot"', "instances.placement"),
        ('openmp = "gnu"', 'openmp = "gnu"\nLD_PRELOAD = "x.so"', "runtime.LD_PRELOAD: there is no such key"),
        ("blocktime = 0", "blocktime = 7", "GNU's OpenMP takes only 0"),
        ('format = "quantkit-deployment"', "", "format"),
        ("workers = 3", "workers = 0", "workers"),
        ("workers = 3", "workers = 257", "workers"),
        ("workers = 3", "workers = true", "workers"),
    ],
)
def test_files_that_are_no_deployment(file: Path, line: str, other: str, told: str) -> None:
    text = file.read_text()
    assert line in text
    file.write_text(text.replace(line, other))
    with pytest.raises(UserError, match=told):
        read_deployment(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the deployment .*No such file.*write one with quantkit tune"):
        read_deployment(tmp_path / "none.toml")


def test_a_quota_that_cannot_be_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(deployment_file.read_limits(), cpu_quota=3.0)
    monkeypatch.setattr(deployment_file, "read_limits", lambda: limits)
    assert this_host().cpu_quota == 3.0
    monkeypatch.setattr(deployment_file, "read_limits", lambda: replace(limits, unreadable="cpu.max"))
    assert this_host().cpu_quota is None


def test_the_text_is_toml_that_people_read(tuned: Deployment) -> None:
    text = deployment_text(tuned)
    assert 'placement = "1x1"' in text and "[evidence]" in text and "over_default = [1.2, 1.1, 1.3]" in text
