"""`quantkit serve`: a process that answers until it is told to end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pytest

from quantkit.backends.registry import MXNET
from quantkit.bundle import Bundle, read_bundle, write_float_bundle
from quantkit.deployment.deployment_file import Deployment, TunedBundle, deployment_text, this_host
from quantkit.deployment.instances import Instances
from quantkit.deployment.watching.history import read_events
from quantkit.fusion.fused_model import FusedModel
from quantkit.host.children import descendants
from tests.bundle.conftest import edit as edit
from tests.cli.conftest import PROMPTLY, Run, start
from tests.cli.test_ending import assert_ended
from tests.deployment.serving.conftest import ask
from tests.deployment.serving.process import make_certificate
from tests.deployment.serving.test_server import opened

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def net(digits_fused: FusedModel, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return read_bundle(write_float_bundle(digits_fused, tmp_path_factory.mktemp("served") / "net-fp32"))


@contextmanager
def begun(folder: Path, *words: object) -> Iterator[tuple[subprocess.Popen[str], dict]]:
    """A server on a free port, and what it says of itself."""
    process = start(folder, "serve", *words, "--port", "0", "--json")
    assert process.stdout is not None
    try:
        said = ""
        while line := process.stdout.readline():
            said += line
            if line == "}\n":
                break
        assert said, process.communicate()[1]
        yield process, json.loads(said)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_until_it_is_told_to_end(net: Bundle, tmp_path: Path, number: int) -> None:
    with begun(tmp_path, net.directory, f"again/3={net.directory}") as (process, said):
        assert said["models"] == ["net-fp32/1", "again/3"]
        data = {"name": "data", "datatype": "FP32", "shape": [1, 3, 32, 32], "data": [0.0] * 3072}
        for name in ("net-fp32", "again"):
            assert ask(said["url"], f"/v2/models/{name}/infer", {"inputs": [data]}).status == 200
        family = descendants(process.pid)
        assert len(family) >= 2
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
        assert_ended(family)


def test_two_signals_end_it_at_once(net: Bundle, tmp_path: Path) -> None:
    with begun(tmp_path, net.directory) as (process, said):
        family = descendants(process.pid)
        with opened(said["url"]) as connection:
            connection.sendall(b"POST /v2/models/net-fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
            ask(said["url"], "/v2")
            process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                # It waits for the other half.
                process.wait(1.0)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=PROMPTLY) == 143
        assert_ended(family)


def test_a_deployment_says_how_its_bundle_runs(net: Bundle, tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    of = TunedBundle(net.manifest.name, net.manifest.kind, net.sha256)
    file.write_text(
        deployment_text(Deployment(of, this_host(), "mxnet", MXNET.installed_version(), Instances("2", batch=4)))
    )
    (tmp_path / "token").write_text(TOKEN)
    words = (f"net={net.directory}", "--deployment", file, "--token-file", "token")
    with begun(tmp_path, *words) as (process, said):
        assert len(descendants(process.pid)) >= 2
        assert ask(said["url"], "/v2/models/net").status == 401
        assert ask(said["url"], "/v2/models/net", Authorization=f"Bearer {TOKEN}").status == 200


def test_what_a_deployment_says_cannot_be_asked_for_beside_it(run: Run, net: Bundle, tmp_path: Path) -> None:
    of = TunedBundle(net.manifest.name, net.manifest.kind, net.sha256)
    tuned = Deployment(of, this_host(), "mxnet", MXNET.installed_version(), None)
    (tmp_path / "deployment.toml").write_text(deployment_text(tuned))
    for option in (("--instances", "2"), ("--engine", "mxnet")):
        result = run("serve", "--port", "0", net.directory, "--deployment", "deployment.toml", *option)
        assert result.exit_code == 2
        assert "each bundle has a deployment, which says engine and instances" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "nothing is no bundle"),
        (["net", "net"], "two bundles are called net, version 1; give them names, such as net/2=BUNDLE"),
        (["a b=net"], "'a b' cannot be part of an address"),
        (["a/=net"], "'' cannot be part of an address"),
        (["net="], "names no bundle"),
        (["net", "--timeout", "7200s"], "allow at most 3600"),
        (["net", "--max-body", "600MiB"], "allow at most 536870912"),
        (["..=net"], "'..' cannot be part of an address"),
        (["net", "--token-file", "missing"], "cannot read the token in missing: No such file"),
        (["net", "--key", "missing"], "TLS needs both a certificate and its key"),
        (["net", "--certificate", "missing", "--key", "missing"], "the certificate missing and the key missing cannot"),
        (["net", "--host", "no such host"], "cannot listen on no such host port 0"),
        (["net", "--deployment", "missing"], "cannot read the deployment missing"),
        (["net", "--max-body", "many"], "'many' is not a size"),
        (["net", "--timeout", "0"], "'0' is not a time"),
        (["net", "--shadow", "10"], "--shadow is for a monitor; give --monitor as well"),
        (["net", "--monitor"], "is an FP32 bundle, which was not calibrated"),
        (["net", "--monitor", "--reference", "missing"], "missing is no bundle"),
        (["net", "--monitor", "--fp32-below", "2"], "2.0 is not in the range"),
        (["net", "--monitor", "--fp32-below", "0.1"], "net needs its network in FP32 for --fp32-below"),
        (["net", "--port", "70000"], "70000 is not in the range"),
    ],
)
def test_what_is_wrong_is_said_at_once(run: Run, net: Bundle, tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "net").symlink_to(net.directory)
    result = run("serve", "--port", "0", *words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.long
def test_a_monitor_tells_what_drifts(net: Bundle, digits_usual: Path, tmp_path: Path) -> None:
    words = (f"net={digits_usual}", "--monitor", "--events", "told", "--reference", net.directory, "--shadow", "1")
    with begun(tmp_path, *words) as (process, said):
        data = {"name": "data", "datatype": "FP32", "shape": [1, 3, 32, 32], "data": [9.0] * 3072}
        # Until sixteen were watched, which takes a hundred times as long as watching them.
        number, figures = 0, ""
        while 'quantkit_drift{model="net",signal="input.mean"' not in figures:
            number += 1
            assert ask(said["url"], "/v2/models/net/infer", {"inputs": [data]}).status == 200
            figures = ask(said["url"], "/metrics").content.decode()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert 'quantkit_drift{model="net",signal="input.mean",version="1"} 1.0' in figures
    assert 'quantkit_drift_distance{model="net",signal="input.mean",version="1"} 1.0' in figures
    for name in ("seen", "compared"):
        assert f'quantkit_{name}_samples_total{{model="net",version="1"}} {number}.0' in figures
    assert 'quantkit_watched_samples_total{model="net",version="1"} 16.0' in figures
    assert ": input.mean drifts: mean 9" in err
    (run,) = read_events(tmp_path / "told" / "net" / "1.jsonl").runs
    assert run.ended
    assert "input.mean" in run.drifting


@pytest.mark.long
def test_what_cannot_be_watched_is_served_all_the_same(net: Bundle, digits_usual: Path, tmp_path: Path) -> None:
    with begun(tmp_path, f"net/1={net.directory}", f"net/2={digits_usual}", "--monitor") as (process, said):
        data = {"name": "data", "datatype": "FP32", "shape": [1, 3, 32, 32], "data": [9.0] * 3072}
        for version in "12":
            assert ask(said["url"], f"/v2/models/net/versions/{version}/infer", {"inputs": [data]}).status == 200
        figures = ask(said["url"], "/metrics").content.decode()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert f"{net.directory} is not watched: it does not say" in " ".join(err.split())
    assert 'quantkit_seen_samples_total{model="net",version="2"} 1.0' in figures
    assert 'quantkit_seen_samples_total{model="net",version="1"}' not in figures


def test_fp32_bundles_of_other_networks_are_refused(
    run: Run, digits_usual: Path, net: Bundle, edit: Callable[..., None], tmp_path: Path
) -> None:
    copytree(net.directory, tmp_path / "other")
    edit(tmp_path / "other", lambda document: document["source"].update(sha256="0" * 64))
    result = run("serve", "--port", "0", digits_usual, "--monitor", "--reference", tmp_path / "other")
    assert result.exit_code == 2
    assert "is of the network of none of these bundles" in result.stderr


def test_deployments_of_other_bundles_are_refused(run: Run, net: Bundle, tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    file.write_text(deployment_text(Deployment(TunedBundle("a", "int8", "0" * 64), this_host(), "mxnet", "1", None)))
    result = run("serve", "--port", "0", net.directory, "--deployment", file)
    assert result.exit_code == 2
    assert "is of none of these bundles; give its own bundle as well" in result.stderr


def test_others_are_told_of_without_a_token(run: Run, net: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("serve", net.directory, "--host", "192.0.2.1")
    assert result.exit_code == 2
    assert "Warning: whoever reaches 192.0.2.1 may send requests; --token-file asks them for a token" in result.stderr


def test_tls(net: Bundle, tmp_path: Path) -> None:
    import ssl
    from http.client import HTTPSConnection
    from urllib.parse import urlsplit

    make_certificate(tmp_path)
    with begun(tmp_path, f"net={net.directory}", "--certificate", "cert.pem", "--key", "key.pem") as (_, said):
        assert said["url"].startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        connection = HTTPSConnection(urlsplit(said["url"]).netloc, context=context, timeout=30)
        connection.request("GET", "/v2")
        assert json.loads(connection.getresponse().read())["name"] == "quantkit"
