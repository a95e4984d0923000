"""``quantkit tune``: its files, its refusals, and that what it writes is used."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.bundle import read_bundle, write_float_bundle
from quantkit.deployment.deployment_file import deployment_text, read_deployment
from quantkit.deployment.loading import load
from quantkit.fusion.fused_model import FusedModel
from tests.cli.conftest import Run
from tests.requirements import requires

requires("onnx", "onnxruntime", "openvino")

BUDGET = ("--budget", "0.02")


@pytest.fixture(scope="module")
def bundle(digits_fused: FusedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_float_bundle(digits_fused, tmp_path_factory.mktemp("tuned") / "net")


@pytest.fixture(scope="module")
def tuned(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuning of the bundle."""
    from click.testing import CliRunner

    from quantkit.cli.main import cli

    out = tmp_path_factory.mktemp("tuned") / "out"
    done = CliRunner().invoke(cli, ["tune", str(bundle), *BUDGET, "--out", str(out), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return out


def refused(run: Run, *arguments: object) -> str:
    """What is told of a request that is wrong as given, on one line."""
    done = run("tune", *arguments)
    assert done.exit_code == 2
    return " ".join(done.stderr.split())


def test_what_is_written(tuned: Path, bundle: Path) -> None:
    assert {path.name for path in tuned.iterdir()} == {"deployment.toml", "index.html", "tuning.json"}
    document = json.loads((tuned / "tuning.json").read_text())
    names = [each["name"] for each in document["finalists"]]
    assert names[0] == "MXNet, in one process" and "MXNet by itself, its default session" in names
    assert document["winner"] in names and all(len(each["rounds"]) >= 4 for each in document["finalists"])
    page = (tuned / "index.html").read_text()
    for text in ("Throughput against latency", "The last comparison", "systemd", "limits: {cpu:", "deployment.toml"):
        assert text in page
    deployment = read_deployment(tuned / "deployment.toml")
    with load(bundle, deployment=tuned / "deployment.toml") as predictor:
        assert predictor.engine == deployment.engine
        assert predictor.predict(np.zeros((1, *predictor.input_shape), np.float32)).shape[0] == 1


@pytest.mark.long
def test_threads_that_decode_are_chosen_beside_the_network(run: Run, bundle: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 48)).save(tmp_path / "a.jpg")
    given = (bundle, *BUDGET, "--images", tmp_path / "a.jpg", "--out", "net")
    done = run("tune", *given)
    assert done.exit_code == 0, done.stderr
    assert "threads that decode" in done.stdout
    document = json.loads((tmp_path / "net/tuning.json").read_text())
    assert all(len(each["rounds"]) >= 4 for each in document["decoding"]) and len(document["decoding"]) > 1
    assert "Decoding images" in (tmp_path / "net/index.html").read_text()
    assert read_deployment(tmp_path / "net/deployment.toml").workers == document["workers"]
    assert "there is no image" in run("tune", bundle, *BUDGET, "--images", tmp_path / "none").stderr


@pytest.mark.long
def test_what_is_tuned_already_is_not_measured_again(run: Run, tuned: Path, bundle: Path, tmp_path: Path) -> None:
    told = refused(run, bundle, "--out", tuned)
    assert "is tuned already, for this host" in told and "--retune" in told
    other = shutil.copytree(tuned, tmp_path / "other")
    stored = read_deployment(other / "deployment.toml")
    elsewhere = replace(stored, host=replace(stored.host, usable_cores=999))
    (other / "deployment.toml").write_text(deployment_text(elsewhere))
    told = refused(run, bundle, "--out", other)
    assert "usable cores 999 instead of" in told and "--retune" in told
    (other / "deployment.toml").write_text("damaged")
    assert "--retune" in refused(run, bundle, "--out", other)
    of_another = replace(stored, bundle=replace(stored.bundle, sha256="0" * 64))
    (other / "deployment.toml").write_text(deployment_text(of_another))
    assert "holds a tuning already; replace it with --retune" in refused(run, bundle, "--out", other)
    assert run("tune", bundle, "--out", other, "--retune", *BUDGET).exit_code == 0
    assert read_deployment(other / "deployment.toml").host == stored.host


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--p99", "fast"), "is not a time such as 15ms"),
        (("--rate", "often"), "is not a rate such as 200/s"),
        (("--memory", "4"), "is not a size such as 4GB"),
        (("--agreement", "120%"), "is not a share such as 99%"),
        (("--budget", "0"), "is not a number of minutes above zero"),
        (("--goal", "latency", "--p99", "5ms"), "leave one of them out"),
    ],
)
def test_options_that_cannot_be_used(run: Run, bundle: Path, options: tuple[str, ...], told: str) -> None:
    assert told in refused(run, bundle, *options)


def test_packages_that_are_missing_are_told_before_anything_is_measured(
    run: Run, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[object] = []
    monkeypatch.setattr("quantkit.deployment.tuning.search.tune", lambda *given, **options: measured.append(given))
    for package, extra in (("matplotlib", "report"), ("jinja2", "report"), ("scipy", "benchmark")):
        with monkeypatch.context() as patch:
            patch.setattr("quantkit.extras.find_spec", lambda name, package=package: None if name == package else name)
            assert f"pip install 'quantkit[{extra}]'" in refused(run, bundle, *BUDGET)
    assert not measured


def test_bundles_that_agree_too_little_are_left_out(run: Run, bundle: Path, digits_onnx: Path) -> None:
    told = refused(run, digits_onnx, "--agreement", "100%", "--p99", "0.0001ms", *BUDGET)
    reached = read_bundle(digits_onnx).manifest.agreement
    assert reached is not None and reached.top1 is not None
    wanted = "nothing that was tried keeps" if reached.top1 == 1 else "no bundle agrees with FP32 so well"
    assert wanted in told


def test_folders_that_hold_something_else_are_left_alone(run: Run, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not empty and not a tuning" in refused(run, bundle, "--out", tmp_path, "--retune")
    assert "is no bundle" in refused(run, tmp_path)
