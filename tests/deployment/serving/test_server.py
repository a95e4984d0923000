"""A server that listens: what it answers, and what it refuses."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from quantkit.deployment.serving.bearer import read_token
from quantkit.deployment.serving.listener import Address, listening
from quantkit.deployment.serving.messages import JSON_LENGTH
from quantkit.deployment.serving.models import ModelPlace, Models, loaded_models
from quantkit.errors import UserError
from tests.deployment.serving.conftest import PATIENCE, Answer, Held, ask, started

INFER = "/v2/models/digits/infer"
TOKEN = "0123456789abcdef"

Serve = Callable[..., str]


def request(values: np.ndarray, datatype: str = "FP32", **others: Any) -> dict[str, Any]:
    tensor = {"name": "data", "datatype": datatype, "shape": values.shape, "data": values.ravel().tolist()}
    return {"inputs": [tensor], **others}


def outputs(answer: Answer) -> np.ndarray:
    assert answer.status == 200, answer.content
    (output,) = answer.document["outputs"]
    return np.float32(output["data"]).reshape(output["shape"])


def file_of(pixels: np.ndarray, format: str = "PNG") -> bytes:
    content = BytesIO()
    Image.fromarray(pixels).save(content, format)
    return content.getvalue()


def of_files(*files: bytes, **parameters: Any) -> tuple[bytes, str]:
    """The body of a request with files, and how many bytes of it are JSON."""
    content = b"".join(len(file).to_bytes(4, "little") + file for file in files)
    head = {
        "inputs": [
            {
                "name": "data",
                "datatype": "BYTES",
                "shape": [len(files)],
                "parameters": {"binary_data_size": len(content)},
            }
        ],
        **parameters,
    }
    text = json.dumps(head).encode()
    return text + content, str(len(text))


def test_it_is_there_and_says_what_it_is(server: str) -> None:
    assert ask(server, "/v2/health/live").status == ask(server, "/v2/health/ready").status == 200
    assert ask(server, "/v2").document["extensions"] == ["binary_tensor_data", "classification"]
    assert ask(server, "/v2/models/digits/ready").status == 200


def test_it_tells_the_tensors_of_a_model(server: str, models: Models) -> None:
    told = ask(server, "/v2/models/digits").document
    assert told["versions"] == ["1", "2"]
    assert told["platform"] == "quantkit_mxnet"
    (data,), (scores,) = told["inputs"], told["outputs"]
    assert (data["name"], data["datatype"], data["shape"]) == ("data", "FP32", [-1, 3, 32, 32])
    assert scores["name"] == models["digits"]["2"].predictor.manifest.outputs[0].name
    assert scores["parameters"]["labels"] == list("0123456789")


@pytest.mark.parametrize("version", ["1", "2"])
def test_it_answers_as_the_predictor_does(server: str, models: Models, pixels: np.ndarray, version: str) -> None:
    predictor = models["digits"][version].predictor
    path = f"/v2/models/digits/versions/{version}/infer"
    expected = predictor.predict(pixels)
    np.testing.assert_allclose(outputs(ask(server, path, request(pixels, "UINT8"))), expected, rtol=1e-4, atol=1e-5)
    body, length = of_files(*map(file_of, pixels))
    found = ask(server, path, body, **{JSON_LENGTH: length})
    np.testing.assert_allclose(outputs(found), expected, rtol=1e-4, atol=1e-5)
    floats = np.random.default_rng(0).normal(size=(3, 3, 32, 32)).astype(np.float32)
    np.testing.assert_allclose(
        outputs(ask(server, path, request(floats))), predictor.predict(floats), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("batch", [1, 100])
def test_bytes_of_small_and_large_requests(server: str, models: Models, batch: int) -> None:
    predictor = models["digits"]["2"].predictor
    floats = np.random.default_rng(2).normal(size=(batch, 3, 32, 32)).astype(np.float32)
    tensor = {
        "name": "data",
        "datatype": "FP32",
        "shape": floats.shape,
        "parameters": {"binary_data_size": floats.nbytes},
    }
    text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    answer = ask(server, INFER, text + floats.tobytes(), **{JSON_LENGTH: str(len(text))})
    assert answer.status == 200
    content = answer.content[
        int({name.lower(): value for name, value in answer.headers.items()}[JSON_LENGTH.lower()]) :
    ]
    found = np.frombuffer(content, np.float32).reshape(batch, 10)
    np.testing.assert_allclose(found, predictor.predict(floats), rtol=1e-4, atol=1e-5)


def test_the_last_version_is_meant_where_none_is_named(server: str, pixels: np.ndarray) -> None:
    assert ask(server, INFER, request(pixels, "UINT8")).document["model_version"] == "2"


def test_classes_are_told_as_triton_does(server: str, models: Models, pixels: np.ndarray) -> None:
    predictor = models["digits"]["2"].predictor
    name = predictor.manifest.outputs[0].name
    asked = [{"name": name, "parameters": {"classification": 2}}]
    (output,) = ask(server, INFER, request(pixels, "UINT8", outputs=asked)).document["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [2, 2])
    scores = predictor.predict(pixels)
    for row, told in zip(scores, np.reshape(output["data"], (2, 2))):
        best = np.argsort(-row)[:2]
        assert [text.split(":")[1:] for text in told] == [[str(index), str(index)] for index in best]
        assert [float(text.split(":")[0]) for text in told] == pytest.approx(row[best], abs=1e-4)


def test_no_samples_have_no_outputs(server: str) -> None:
    assert outputs(ask(server, INFER, request(np.empty((0, 3, 32, 32), np.float32)))).shape == (0, 10)


FLOATS = np.zeros((1, 3, 32, 32), np.float32)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (request(FLOATS[:, :2]), "shape"),
        (request(FLOATS[0]), r"first axis must be that of the batch"),
        (request(np.float32(0)), "'data' has no batch axis"),
        (request(np.full_like(FLOATS, np.nan)), "NaN"),
        (request(FLOATS, "FP64"), "float64"),
        ({"inputs": []}, "the request has the inputs none; the model reads 'data'"),
        ({"inputs": request(FLOATS)["inputs"] * 2}, "has the inputs 'data', 'data'; the model reads 'data'"),
        (request(FLOATS, outputs=[{"name": "z"}]), "the model has no output 'z', but '"),
        ({}, "inputs: Field required"),
    ],
)
def test_bad_input_is_refused_with_the_reason(server: str, body: dict[str, Any], message: str) -> None:
    answer = ask(server, INFER, body)
    assert answer.status == 400
    assert message in answer.error
    assert "/" not in answer.error.replace("/v2", ""), "a path is shown"


@pytest.mark.parametrize(
    ("file", "message"),
    ids=("none", "truncated", "large"),
    argvalues=[
        (b"no image", "it is none of BMP, GIF"),
        (file_of(np.random.default_rng(0).integers(0, 256, (32, 32, 3)).astype(np.uint8))[:900], "image 0"),
        (file_of(np.zeros((400, 400, 3), np.uint8)), "the images have more than 100000 pixels together"),
    ],
)
def test_files_that_are_no_images_are_refused(server: str, file: bytes, message: str) -> None:
    body, length = of_files(file)
    answer = ask(server, INFER, body, **{JSON_LENGTH: length})
    assert answer.status == 400
    assert message in answer.error


def test_images_count_together(server: str) -> None:
    large = file_of(np.zeros((250, 250, 3), np.uint8))
    body, length = of_files(large)
    assert ask(server, INFER, body, **{JSON_LENGTH: length}).status == 200
    body, length = of_files(large, large)
    assert ask(server, INFER, body, **{JSON_LENGTH: length}).status == 400


def test_what_does_not_exist(server: str) -> None:
    assert ask(server, "/v2/models/other").error == "there is no model 'other'; there are digits"
    answer = ask(server, "/v2/models/digits/versions/7/infer", {})
    assert (answer.status, answer.error) == (404, "model 'digits' has no version '7'; it has 1, 2")
    assert ask(server, "/nowhere").status == 404
    assert ask(server, INFER).status == 405


def test_a_token_is_asked_for_but_for_health(served: Serve) -> None:
    closed = served(token=TOKEN)
    assert ask(closed, "/v2/health/ready").status == 200
    for path in ("/v2", "/metrics", "/docs", "/openapi.json", "/v2/models/digits"):
        answer = ask(closed, path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert ask(closed, path, Authorization=f"Bearer {TOKEN}").status == 200
    assert ask(closed, "/v2", Authorization=f"bearer  {TOKEN}").status == 200
    for wrong in (TOKEN, f"Bearer {TOKEN}0", f"Basic {TOKEN}", "Bearer \xe9"):
        assert ask(closed, INFER, request(FLOATS), Authorization=wrong).status == 401
    assert ask(closed, INFER, request(FLOATS), Authorization=f"Bearer {TOKEN}").status == 200


def test_figures_for_prometheus(served: Serve, models: Models) -> None:
    url = served()
    before = sum(models["digits"]["2"].predictor.status().batches.values())
    for batch in (1, 2):
        assert ask(url, INFER, request(np.repeat(FLOATS, batch, axis=0))).status == 200
    ask(url, INFER, {})
    told = figures(url)
    for line in (
        'quantkit_requests_total{model="digits",status="200",version="2"} 2.0',
        'quantkit_requests_total{model="digits",status="400",version="2"} 1.0',
        'quantkit_request_seconds_count{model="digits",version="2"} 2.0',
        'quantkit_waiting_samples{model="digits",version="2"} 0.0',
        f'quantkit_batch_size_count{{model="digits",version="2"}} {before + 2:.1f}',
        "quantkit_requests_running 0.0",
    ):
        assert line in told
    assert "process_open_fds" in told


def test_refusals_are_counted_whatever_was_asked_for(served: Serve) -> None:
    url, allowed = served(token=TOKEN), {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/secret", "/v2/models/digits"):
        assert ask(url, path).status == 401
    for path in ("/nowhere", "/v2/models/other", "/v2/models/digits/versions/7", "/static-offline-docs/none"):
        assert ask(url, path, **allowed).status == 404
    assert ask(url, "/v2/models/other/infer", request(FLOATS), **allowed).status == 404
    assert ask(url, INFER, **allowed).status == 405
    told = ask(url, "/metrics", **allowed).content.decode()
    assert [line for line in told.splitlines() if line.startswith("quantkit_refused_requests_total")] == [
        'quantkit_refused_requests_total{status="401"} 2.0',
        'quantkit_refused_requests_total{status="404"} 5.0',
        'quantkit_refused_requests_total{status="405"} 1.0',
    ]
    assert "quantkit_requests_total{" not in told


def test_it_describes_its_interface_without_the_internet(server: str) -> None:
    described = ask(server, "/openapi.json").document
    assert "/v2/models/{name}/infer" in described["paths"]
    page = ask(server, "/docs").content.decode()
    assert "http://" not in page
    assert "https://" not in page
    assert ask(server, "/static-offline-docs/swagger-ui-bundle.js").status == 200


def test_a_model_that_fails_is_not_ready(bundle: Any) -> None:
    place = ModelPlace("net", "1", bundle.directory)
    with loaded_models([place], None, None, (), 1) as models, started(models) as url:
        assert ask(url, "/v2/health/ready").status == 200
        models["net"]["1"].predictor.close()
        for path in ("/v2/health/ready", "/v2/models/net/ready"):
            assert ask(url, path).status == 503
        answer = ask(url, "/v2/models/net/infer", request(FLOATS))
        assert (answer.status, answer.error) == (500, "the model failed; the server's log says why")


def test_many_clients_at_once_get_their_own_answers(server: str, models: Models) -> None:
    inputs = np.random.default_rng(1).normal(size=(40, 1, 3, 32, 32)).astype(np.float32)
    expected = [models["digits"]["2"].predictor.predict(each) for each in inputs]
    with ThreadPoolExecutor(8) as executor:
        found = executor.map(lambda each: outputs(ask(server, INFER, request(each))), inputs)
        for answer, wanted in zip(found, expected):
            np.testing.assert_allclose(answer, wanted, rtol=1e-4, atol=1e-5)


def test_requests_in_flight_are_answered_at_the_end(models: Models, held: Held) -> None:
    with ThreadPoolExecutor(1) as executor:
        with started(models) as url:
            answer = executor.submit(ask, url, INFER, request(FLOATS))
            assert held.entered.wait(PATIENCE)
            threading.Timer(0.3, held.free.set).start()
        assert answer.result().status == 200
    with pytest.raises(OSError):
        ask(url, "/v2")


def test_a_port_in_use_is_refused(server: str) -> None:
    port = int(urlsplit(server).port or 0)
    taken = pytest.raises(UserError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use")
    with taken, listening(Address(port=port)):
        pass


@pytest.mark.parametrize("host", ["256.1.1.1", "no such host", "x" * 300])
def test_hosts_that_do_not_exist_are_refused(host: str) -> None:
    with pytest.raises(UserError, match="cannot listen on"), listening(Address(host, 0)):
        pass


def test_tokens_are_long_enough(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    for content in (b"", b"short", b"with spaces in between", b"\xff" * 30):
        file.write_bytes(content)
        with pytest.raises(UserError, match="write one of at least 16 letters and digits"):
            read_token(file)
    with pytest.raises(UserError, match=r"cannot read the token in .*missing"):
        read_token(tmp_path / "missing")


def head(line: str) -> bytes:
    return f"POST {INFER} HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n".encode()


def opened(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=PATIENCE)


def figures(url: str) -> str:
    return ask(url, "/metrics").content.decode()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
