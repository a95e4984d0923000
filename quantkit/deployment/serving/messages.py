"""Messages of the Open Inference Protocol, version 2, with its extensions for binary tensors and classification.

A request is JSON, or JSON followed by the bytes of tensors: the header ``Inference-Header-Content-Length`` then tells
how long the JSON is, and a tensor's ``binary_data_size`` how many bytes are its own, in the order of the inputs. See
https://github.com/kserve/open-inference-protocol and Triton's documents of the extensions of the same names.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Optional

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from quantkit.deployment.serving.tensors import BYTES, Tensor, tensor_bytes, tensor_of_bytes, tensor_of_list
from quantkit.errors import DataError
from quantkit.files.schema import FirstFaultOnly, Many, first_fault
from quantkit.files.text import LARGEST_DOCUMENT

JSON_LENGTH = "Inference-Header-Content-Length"
"""The header that tells how many bytes of a body are JSON."""

# Other parameters and keys are allowed, as the protocol says.
_OPEN = ConfigDict(extra="ignore", strict=True)

_Name = Annotated[str, Field(max_length=200)]
_Side = Annotated[int, Field(ge=0, lt=1 << 31)]
_Shape = Annotated[tuple[_Side, ...], Field(max_length=16), FirstFaultOnly()]


@dataclass(frozen=True)
class Parameters:
    """The parameters of requests, inputs and outputs that mean something here."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    binary_data: Optional[bool] = None
    binary_data_size: Optional[Annotated[int, Field(ge=0)]] = None
    binary_data_output: bool = False
    classification: Optional[Annotated[int, Field(ge=1, le=1 << 20)]] = None
    timeout: Annotated[int, Field(ge=0, lt=1 << 63)] = 0


_NONE = Parameters()


@dataclass(frozen=True)
class Input:
    """A tensor of a request, as JSON has it."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    name: _Name
    datatype: _Name
    shape: _Shape
    data: Optional[list[Any]] = None
    parameters: Optional[Parameters] = None

    @property
    def size(self) -> Optional[int]:
        """The bytes after the JSON that are its own; None if its values are in the JSON."""
        return None if self.parameters is None else self.parameters.binary_data_size


@dataclass(frozen=True)
class Output:
    """An output that a request asks for."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    name: _Name
    parameters: Optional[Parameters] = None

    @property
    def given(self) -> Parameters:
        """Its parameters."""
        return self.parameters or _NONE


@dataclass(frozen=True)
class InferenceRequest:
    """The JSON of a request for inference."""

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN

    inputs: Many[Input]
    outputs: Optional[Many[Output]] = None
    id: Optional[_Name] = None
    parameters: Optional[Parameters] = None

    @property
    def wanted(self) -> tuple[Output, ...]:
        """The outputs that it asks for; empty: all."""
        return self.outputs or ()

    def as_bytes(self, name: str) -> bool:
        """Whether it asks for an output after the JSON, as bytes."""
        asked = next((output.given.binary_data for output in self.wanted if output.name == name), None)
        return self.given.binary_data_output if asked is None else asked

    @property
    def given(self) -> Parameters:
        """Its parameters."""
        return self.parameters or _NONE


def read_request(
    body: bytes, json_length: Optional[str] = None, most: int = LARGEST_DOCUMENT
) -> tuple[InferenceRequest, tuple[Tensor, ...]]:
    """A request and its tensors.

    Args:
        body: JSON, or JSON and the bytes of tensors.
        json_length: the value of the header ``JSON_LENGTH``; None: all of it is JSON.
        most: bytes of the JSON.

    Raises:
        DataError: it is no such request; the message tells the first thing that is wrong.
    """
    length = _length(json_length, len(body))
    if length > most:
        raise DataError(
            f"the JSON of the request has {length} bytes, and this server reads {most}; send tensors as bytes"
        )
    content = memoryview(body)
    try:
        request = _schema().validate_json(bytes(content[:length]))
    except ValidationError as error:
        where, what = first_fault(error)
        raise DataError(
            f"this is no request for inference: {where or 'it'}: {what}; one with bytes needs the header {JSON_LENGTH}"
        ) from error
    tensors, place = [], length
    for given in request.inputs:
        size = given.size or 0
        if size > len(body) - place:
            raise DataError(f"input {given.name!r} has binary_data_size {size}, and the body {len(body) - place} more")
        tensors.append(_tensor(given, content[place : place + size]))
        place += size
    if place != len(body):
        raise DataError(f"the body has {len(body) - place} bytes after the last tensor")
    return request, tuple(tensors)


@cache
def _schema() -> TypeAdapter[InferenceRequest]:
    """It takes longer to make than to use."""
    return TypeAdapter(InferenceRequest)


def request_schema() -> dict[str, Any]:
    """The JSON schema of a request, whole in itself, as OpenAPI needs it."""
    schema = _schema().json_schema()
    inlined: dict[str, Any] = _inlined(schema, schema.pop("$defs"))
    return inlined


def _inlined(part: Any, definitions: Mapping[str, Any]) -> Any:
    """A part of a schema with the definitions that it refers to in their places; none refers to itself."""
    if isinstance(part, dict):
        if "$ref" in part:
            return _inlined(definitions[part["$ref"].rpartition("/")[2]], definitions)
        return {name: _inlined(value, definitions) for name, value in part.items()}
    return [_inlined(value, definitions) for value in part] if isinstance(part, list) else part


def _length(told: Optional[str], most: int) -> int:
    if told is None:
        return most
    if not (told.isascii() and told.isdecimal() and len(told) <= len(str(most)) and int(told) <= most):
        raise DataError(f"the header {JSON_LENGTH} is {told[:40]!r}, and the body has {most} bytes")
    return int(told)


def _tensor(given: Input, content: memoryview) -> Tensor:
    if given.size is not None:
        return tensor_of_bytes(given.name, given.datatype, given.shape, content)
    if given.data is None:
        raise DataError(f"input {given.name!r} has neither data nor a binary_data_size")
    elements = given.data
    if given.datatype == BYTES:
        elements = [_of_base64(element) for element in given.data]
    return tensor_of_list(given.name, given.datatype, given.shape, elements)


def _of_base64(element: object) -> bytes:
    if not isinstance(element, str):
        raise DataError(f"an element of type BYTES is of type {type(element).__name__}; give text in base64")
    try:
        return b64decode(element, validate=True)
    except ValueError as error:
        raise DataError(f"an element of type BYTES is not base64: {error}") from error


def response(
    model: str, version: str, request: InferenceRequest, tensors: Sequence[Tensor]
) -> tuple[bytes, dict[str, str]]:
    """The body of a response, and its headers: JSON, followed by the bytes of those tensors that were asked for so."""
    entries, contents = [], []
    for tensor in tensors:
        entry: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        if request.as_bytes(tensor.name):
            contents.append(tensor_bytes(tensor))
            entry["parameters"] = {"binary_data_size": len(contents[-1])}
        else:
            entry["data"] = tensor.listed()
        entries.append(entry)
    document = {"model_name": model, "model_version": version, "outputs": entries}
    text = json.dumps(document | ({"id": request.id} if request.id else {}), separators=(",", ":")).encode()
    if not contents:
        return text, {"content-type": "application/json"}
    return b"".join([text, *contents]), {"content-type": "application/octet-stream", JSON_LENGTH: str(len(text))}
