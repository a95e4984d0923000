"""Requests for inference and their responses."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantkit.deployment.serving.messages import JSON_LENGTH, read_request, request_schema, response
from quantkit.deployment.serving.tensors import BYTES, Tensor
from quantkit.errors import DataError

X = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, -1]}


def text(*inputs: dict[str, Any], **others: Any) -> bytes:
    return json.dumps({"inputs": inputs, **others}).encode()


def test_a_request_in_json() -> None:
    outputs = [{"name": "y", "parameters": {"classification": 3, "of another server": [1]}}]
    request, (tensor,) = read_request(text(X, id="7", outputs=outputs, parameters={"timeout": 5}, more=1))
    assert (request.id, request.given.timeout, request.wanted[0].given.classification) == ("7", 5, 3)
    np.testing.assert_array_equal(tensor.values, np.array([[0.5, -1]], np.float32))


def test_null_is_what_is_not_there() -> None:
    request, _ = read_request(text({**X, "parameters": None}, id=None, outputs=None, parameters=None))
    assert (request.wanted, request.id, request.given.timeout) == ((), None, 0)


def test_bytes_of_several_tensors_follow_the_json() -> None:
    first, second = np.float32([[1, 2]]), np.int64([3, 4, 5])
    head = text(
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}},
        {"name": "between", "datatype": BYTES, "shape": [1], "data": [b64encode(b"\xff").decode()]},
        {"name": "z", "datatype": "INT64", "shape": [3], "parameters": {"binary_data_size": 24}},
    )
    _, tensors = read_request(head + first.tobytes() + second.tobytes(), str(len(head)))
    np.testing.assert_array_equal(tensors[0].values, first)
    assert tensors[1].values == (b"\xff",)
    np.testing.assert_array_equal(tensors[2].values, second)


@pytest.mark.parametrize(
    ("body", "length", "message"),
    [
        (b"", None, "no request for inference: it: Invalid JSON"),
        (b"[" * 100_000, None, "no request for inference: it: Invalid JSON"),
        (b"\xff", None, "no request for inference: it: "),
        (b"{}", None, "inputs: Field required"),
        (b"{}", "3", f"the header {JSON_LENGTH} is '3', and the body has 2 bytes"),
        (b"{}", "-1", "is '-1'"),
        (b"{}", "1" * 5000, "is '1{40}', and"),
        (text({**X, "shape": [-1, 2]}), None, r"inputs.0.shape.0: Input should be greater than or equal to 0"),
        (text({**X, "shape": [1] * 40}), None, "inputs.0.shape: "),
        (text({**X, "shape": [1, "2"]}), None, "inputs.0.shape.1: Input should be a valid integer"),
        (text({**X, "name": 3}), None, "inputs.0.name: Input should be a valid string"),
        (text({**X, "data": None}), None, "'x' has neither data nor a binary_data_size"),
        (text({**X, "data": [float("nan"), "y"]}), None, "not all numbers"),
        (text({**X, "parameters": {"binary_data_size": 4}}), None, "binary_data_size 4, and the body 0 more"),
        (text({**X, "parameters": {"binary_data_size": -4}}), None, "greater than or equal to 0"),
        (text(X) + b"1234", str(len(text(X))), "the body has 4 bytes after the last tensor"),
        (text({**X, "datatype": BYTES, "data": ["?"]}), None, "is not base64"),
        (text({**X, "datatype": BYTES, "data": [1]}), None, "of type BYTES is of type int"),
        (text(X, parameters={"timeout": -1}), None, "timeout: Input should be greater"),
        (text(X, outputs=[{"name": "y", "parameters": {"classification": 0}}]), None, "classification: "),
    ],
)
def test_what_is_no_request(body: bytes, length: Optional[str], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_request(body, length)
    assert len(str(caught.value)) < 1000


@given(st.binary(max_size=60), st.text(max_size=3))
def test_no_body_does_more_than_be_refused(body: bytes, length: str) -> None:
    with pytest.raises(DataError):
        read_request(body, length)


def test_a_response_in_json_and_in_bytes() -> None:
    values = np.float32([[0.1, 2]])
    tensors = [Tensor("y", "FP32", (1, 2), values), Tensor("z", BYTES, (1,), (b"0.5:1:cat",))]
    request, _ = read_request(text(X, id="7", outputs=[{"name": "y"}, {"name": "z"}]))
    content, headers = response("net", "2", request, tensors)
    assert headers == {"content-type": "application/json"}
    document = json.loads(content)
    assert (document["model_name"], document["model_version"], document["id"]) == ("net", "2", "7")
    y, z = document["outputs"]
    assert np.float32(y.pop("data")).tolist() == values.ravel().tolist()
    assert y == {"name": "y", "datatype": "FP32", "shape": [1, 2]}
    assert z == {"name": "z", "datatype": BYTES, "shape": [1], "data": ["0.5:1:cat"]}

    outputs = [{"name": "y"}, {"name": "z", "parameters": {"binary_data": False}}]
    request, _ = read_request(text(X, outputs=outputs, parameters={"binary_data_output": True}))
    content, headers = response("net", "2", request, tensors)
    length = int(headers[JSON_LENGTH])
    y, z = json.loads(content[:length])["outputs"]
    assert (y["parameters"], z["data"]) == ({"binary_data_size": 8}, ["0.5:1:cat"])
    assert content[length:] == values.tobytes()


def test_requests_have_a_schema() -> None:
    schema = request_schema()
    # References would lead to the root of the document that it becomes a part of.
    assert "$ref" not in json.dumps(schema)
    assert schema["properties"]["inputs"]["items"]["required"] == ["name", "datatype", "shape"]
