"""``--cluster`` from the outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.cluster.connect import connected
from quantkit.host.children import descendants
from tests.cli.conftest import SHAPE, Run
from tests.cluster.certificates import write_certificates
from tests.cluster.nodes import scheduler_and_worker

pytestmark = pytest.mark.requires("cluster")


@pytest.mark.long
def test_results_are_those_without_a_cluster(run: Run, checkpoint: Path, samples: Path) -> None:
    options = [checkpoint, "--input-shape", SHAPE]
    on_two = ["--cluster", "local:2", "--shard-size", "5"]
    calibrating = ["calibrate", *options, "--calib-data", samples, "--calib", "20"]
    assert run(*calibrating, "--out", "one.json").exit_code == 0
    told = run(*calibrating, "--out", "two.json", *on_two, "--cluster-report", "page.html")
    assert told.exit_code == 0 and "cluster: page.html tells which worker computed what" in told.stderr
    assert Path("page.html").read_text().count("calibrating (mse)") >= 2
    assert "connecting to local:2 ...\ncluster: 2 workers on 1 host, " in told.stderr
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    evaluating = ["evaluate", *options, "--data", samples, "--json"]
    one, two = (run(*evaluating, *more) for more in ([], on_two))
    assert json.loads(one.stdout) == json.loads(two.stdout) and one.exit_code == 0


@pytest.mark.long
def test_an_analysis_is_that_without_a_cluster(run: Run, int8_engine: None) -> None:
    quantizing = ["quantize", "digits_resnet20_v2", "--calib-data", "digits:train", "--calib", "8", "--preset", "fast"]
    assert run(*quantizing, "--no-latency", "--out", "digits").exit_code == 0
    analyzing = ["analyze", "digits", "--data", "digits:test", "--num-samples", "100"]
    assert run(*analyzing, "--out", "one").exit_code == 0
    shared = run(*analyzing, "--out", "two", "--cluster", "local:2", "--shard-size", "1")
    # Batches are of 64 images.
    assert shared.exit_code == 0 and "cluster: 2 shards on 2 workers" in shared.stderr
    assert Path("one/analysis.json").read_bytes() == Path("two/analysis.json").read_bytes()


def test_a_page_that_cannot_be_written_costs_no_result(run: Run, checkpoint: Path, samples: Path) -> None:
    calibrating = ["calibrate", checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--calib", "20"]
    same = run(*calibrating, "--out", "same.json", "--cluster", "local:1", "--cluster-report", "same.json")
    assert same.exit_code == 2 and "same.json exists already; remove it" in same.stderr
    json.loads(Path("same.json").read_text())


def test_a_damaged_image_ends_as_without_a_cluster(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"\x89PNG no image")
    calibrating = ["calibrate", checkpoint, "--input-shape", SHAPE, "--calib-data", tmp_path / "images", "--calib", "1"]
    for on_cluster in ([], ["--cluster", "local:1"]):
        ended = run(*calibrating, "--fit", "stretch", "--out", "table.json", *on_cluster)
        assert ended.exit_code == 2 and "a.png" in ended.stderr, ended.stderr


def test_what_was_not_computed_is_on_no_page(run: Run) -> None:
    quantizing = ["quantize", "digits_resnet20_v2", "--preset", "none", "--no-latency", "--out", "digits"]
    shipped = run(*quantizing, "--cluster", "local:1", "--cluster-report", "page.html")
    assert shipped.exit_code == 0 and "so there is nothing to tell in page.html" in shipped.stderr
    assert not Path("page.html").exists()


def test_ctrl_c_ends_all_processes(checkpoint: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.npz"
    np.savez(many, x=np.random.default_rng(0).normal(size=(4000, 3, 16, 16)).astype(np.float32))
    command = [
        sys.executable,
        "-m",
        "quantkit",
        "calibrate",
        str(checkpoint),
        "--input-shape",
        SHAPE,
        "--calib",
        "4000",
    ]
    process = subprocess.Popen(
        [
            *command,
            "--calib-data",
            str(many),
            "--calib",
            "4000",
            "--out",
            str(tmp_path / "table.json"),
            "--cluster",
            "local:2",
        ],
        # Where quantkit lies in a checkout: its own folder is searched for code all the same.
        cwd=Path(quantkit.__file__).parents[1],
        env={**os.environ, "QUANTKIT_HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    told: list[str] = []
    for line in process.stderr:
        told.append(line)
        if line.startswith("calibrating"):
            break
    started = descendants(process.pid)
    # As a terminal does: to all processes of the command.
    os.killpg(process.pid, signal.SIGINT)
    told += process.stderr.readlines()
    assert process.wait(30) == 130, told
    assert not [line for line in told if "Traceback" in line or "Error" in line], told
    assert len(started) >= 2
    deadline = time.monotonic() + 20
    while alive := [pid for pid in started if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.2)
    assert not (tmp_path / "table.json").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--shard-size", "8"], "--shard-size is about clusters; give a --cluster"),
        (["--tls", "a", "b", "c"], "--tls is about clusters"),
        (["--dashboard"], "--dashboard is about clusters"),
        (["--cluster-report", "page.html"], "--cluster-report is about clusters"),
        (["--cluster", "local:2", "--cluster-report", "no/page.html"], "there is no folder no; make it, or choose"),
        (["--cluster", "local:none"], "'local:none' names no number of workers"),
        (["--cluster", "nowhere"], "'nowhere' is no cluster; give local:N"),
        (["--cluster", "cluster.json"], "there is no scheduler file cluster.json"),
        (["--cluster", "tls://127.0.0.1:1", "--tls", "a", "b", "c"], "there is no file a; give the certificates"),
    ],
)
def test_requests_that_make_no_sense(run: Run, checkpoint: Path, samples: Path, options: list[str], told: str) -> None:
    result = run("evaluate", checkpoint, "--input-shape", SHAPE, "--data", samples, *options)
    assert result.exit_code == 2 and told in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["smoke", "--tls", "a", "b", "c"], "--tls is about clusters; give --cluster or --hosts"),
        (["digits_resnet20_v2", "--hosts", "cluster.json"], "--hosts measures a SUITE, and digits_resnet20_v2 is none"),
        (["smoke", "--hosts", "cluster.json"], "there is no scheduler file cluster.json"),
        (["smoke", "--hosts", "local:2"], "--hosts local:2 is this host alone"),
    ],
)
def test_hosts_that_make_no_sense(run: Run, words: list[str], told: str) -> None:
    result = run("benchmark", *words)
    assert result.exit_code == 2 and told in result.stderr


@pytest.mark.long
@pytest.mark.parametrize("network", ["digits_ssd", "digits_fcn"])
def test_tasks_are_judged_as_without_a_cluster(run: Run, network: str) -> None:
    judging = ["evaluate", network, "--data", "scenes:test", "--num-samples", "40", "--reference", network, "--json"]
    one, two = (run(*judging, *more) for more in ([], ["--cluster", "local:2", "--shard-size", "16"]))
    assert json.loads(one.stdout) == json.loads(two.stdout) and one.exit_code == two.exit_code == 0
    assert json.loads(one.stdout)["scores"]["network"][0]["value"] > 0.5
    assert "3 shards on 2 workers" in two.stderr


@pytest.mark.long
def test_nodes_with_certificates_of_a_user(run: Run, checkpoint: Path, samples: Path, tmp_path: Path) -> None:
    own, others = write_certificates(tmp_path / "own"), write_certificates(tmp_path / "others")
    calibrating = ["calibrate", checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--calib", "20"]
    assert run(*calibrating, "--out", "one.json").exit_code == 0
    options = ["--tls-ca-file", own.authority, "--tls-cert", own.certificate, "--tls-key", own.key]
    with scheduler_and_worker(tmp_path, "--protocol", "tls", *map(str, options)):
        with connected("cluster.json", own) as client:
            client.wait_for_workers(1, timeout=60)
        address = json.loads(Path("cluster.json").read_text())["address"]
        on_it = [*calibrating, "--out", "two.json", "--cluster"]
        for cluster, files, code, told in [
            (address, None, 2, f"the cluster at {address} talks over TLS; give the certificates (--tls CA CERT KEY)"),
            (address.replace("tls:", "tcp:"), None, 1, "no scheduler answers at tcp://"),
            (address, others, 1, "give one that begins with tls:// and the certificates that it was started with"),
            (address, replace(others, authority=own.authority), 1, f"no scheduler answers at {address} "),
            (address, replace(own, key=others.key), 2, "key values mismatch (_ssl"),
            (address, replace(own, authority=samples), 2, f"{samples}, {own.certificate} and {own.key} cannot be used"),
        ]:
            tls = [] if files is None else ["--tls", files.authority, files.certificate, files.key]
            result = run(*on_it, cluster, *tls)
            assert result.exit_code == code and told in result.stderr, result.stderr
        assert not Path("two.json").exists()
        assert run(*on_it, address, "--tls", own.authority, own.certificate, own.key).exit_code == 0
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
