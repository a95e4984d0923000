"""ONNX's backend test cases: a network, inputs and expected outputs each, as the package ``onnx`` ships them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper

from quantkit.backends.mxnet.execute import run
from quantkit.errors import QuantkitError
from quantkit.formats.onnx.reading.network import Imported, import_network

KINDS = ("node", "pytorch-converted", "pytorch-operator", "simple", "real")

Outcome = Literal["failed", "wrong", "right", "refused"]

_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
_RTOL = 1e-3
# Sums in another order differ by this part of the largest value; ONNX's own 1e-7 leaves no room for it.
_ATOL = 1e-5
# What 16 bits can tell apart.
_COARSE = {TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-2}
_LONGEST_REASON = 160


@dataclass(frozen=True)
class Case:
    """A test case; ``inputs`` and ``outputs`` are files of tensors, in the network's order.

    Whole networks (``real``) have no file of their input, which counts up from 0 to 1.
    """

    kind: str
    name: str
    network: Path
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    rtol: float


@dataclass(frozen=True)
class Result:
    """What became of a case; ``operator`` is empty if the network has several."""

    kind: str
    name: str
    operator: str
    outcome: Outcome
    reason: str


def cases(kinds: Iterable[str] = KINDS, part: str = "") -> Iterator[Case]:
    """The cases of some kinds whose names contain ``part``, in the order of their names."""
    for kind in kinds:
        for folder in sorted((_DATA / kind).iterdir()):
            if folder.is_dir() and part in folder.name:
                yield _light(kind, folder) if kind == "real" else _stored(kind, folder)


def _stored(kind: str, folder: Path) -> Case:
    told, data = folder / "data.json", folder / "test_data_set_0"
    rtol = json.loads(told.read_text()).get("rtol", _RTOL) if told.exists() else _RTOL
    inputs, outputs = (
        tuple(sorted(data.glob(f"{what}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2])))
        for what in ("input", "output")
    )
    return Case(kind, folder.name, folder / "model.onnx", inputs, outputs, rtol)


def _light(kind: str, folder: Path) -> Case:
    told = json.loads((folder / "data.json").read_text())
    network = _DATA / "light" / Path(told["url"]).name
    return Case(kind, folder.name, network, (), (network.with_name(f"{network.stem}_output_0.pb"),), told["rtol"])


def result_of(case: Case, folder: Path) -> Result:
    """Import and run a case.

    Every tensor of most cases is an input, weights, axes and shapes included, where a network has constants. So each
    input in turn stays one, and the others become constants. The case is right if it is with one of them and wrong with
    none; the reason of a refusal is that with the first input, the data.

    Args:
        case: the case.
        folder: where its network is written, with constants.
    """
    model = onnx.load(str(case.network))
    operators = [node.op_type for node in model.graph.node]
    known = {tensor.name for tensor in model.graph.initializer}
    names = [each.name for each in model.graph.input if each.name not in known]
    tensors = _tensors(case, model, names)
    results = [_tried(case, model, name, tensors, folder) for name in names or [""]]
    order: tuple[Outcome, ...] = ("failed", "wrong", "right", "refused")
    outcome, reason = min(results, key=lambda each: order.index(each[0]))
    operator = operators[0] if len(operators) == 1 else ""
    return Result(case.kind, case.name, operator, outcome, " ".join(reason.split())[:_LONGEST_REASON])


def _tensors(case: Case, model: ModelProto, names: Iterable[str]) -> dict[str, TensorProto]:
    """The case's inputs, as far as they are tensors, by name."""
    kinds = {each.name: each.type for each in model.graph.input}
    if not case.inputs:
        return {name: _counting(name, kinds[name]) for name in names}
    tensors = {}
    for name, path in zip(names, case.inputs):
        if kinds[name].HasField("tensor_type"):
            tensors[name] = TensorProto.FromString(path.read_bytes())
            tensors[name].name = name
    return tensors


def _counting(name: str, kind: Any) -> TensorProto:
    shape = [each.dim_value for each in kind.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return numpy_helper.from_array((np.arange(count).reshape(shape) / count).astype(np.float32), name)


def _tried(
    case: Case, model: ModelProto, name: str, tensors: Mapping[str, TensorProto], folder: Path
) -> tuple[Outcome, str]:
    """What becomes of a case with one of its inputs as the network's, and why."""
    network = ModelProto()
    network.CopyFrom(model)
    network.graph.initializer.extend(tensor for other, tensor in tensors.items() if other != name)
    path = folder / "case.onnx"
    path.write_bytes(network.SerializeToString())
    try:
        data = numpy_helper.to_array(tensors[name]) if name in tensors else np.zeros(0)
        imported = import_network(path, _open_shape(model, name, data))
        fed = _fed(imported, _float32(data))
        computed = run(imported.graph, {imported.graph.inputs[0]: fed})
    except QuantkitError as error:
        return "refused", str(error).removeprefix(f"{path}").lstrip(": ")
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"
    expected = [TensorProto.FromString(output.read_bytes()) for output in case.outputs]
    kinds = (tensors[name].data_type, *(tensor.data_type for tensor in expected))
    rtol = max(case.rtol, *(_COARSE.get(kind, 0.0) for kind in kinds))
    if len(expected) != len(computed):
        return "wrong", f"{len(computed)} outputs where {len(expected)} are expected"
    for number, (one, tensor) in enumerate(zip(computed, expected)):
        wanted = _float32(numpy_helper.to_array(tensor))
        if not _agrees(one, wanted, rtol, len(fed)):
            return "wrong", f"output {number} of shape {one.shape} where {wanted.shape} is expected, or other values"
    return "right", ""


def _open_shape(model: ModelProto, name: str, data: np.ndarray) -> Optional[tuple[int, ...]]:
    """The input's shape without the batch if the file leaves some extent open."""
    dims = next((each.type.tensor_type.shape.dim for each in model.graph.input if each.name == name), ())
    return data.shape[1:] if any(not each.dim_value for each in dims[1:]) else None


def _fed(imported: Imported, data: np.ndarray) -> np.ndarray:
    """The data in the imported network's layout: the batch first, and the channels of images before their sides."""
    data = data.swapaxes(0, 1) if imported.steps_first else data
    return data if data.shape[1:] == imported.input_shape else np.moveaxis(data, -1, 1)


def _float32(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _agrees(computed: np.ndarray, expected: np.ndarray, rtol: float, batch: int) -> bool:
    """Whether an output has the expected values; an imported network has the batch first, wherever the file has it."""
    forms = [expected, *(np.moveaxis(expected, axis, 0) for axis, size in enumerate(expected.shape) if size == batch)]
    finite = expected[np.isfinite(expected)]
    atol = _ATOL * float(np.abs(finite).max(initial=0.0))
    return any(
        computed.shape == form.shape and np.allclose(computed, form, rtol=rtol, atol=atol, equal_nan=True)
        for form in forms
    )
