"""The large parts of a bundle, read when they are asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from quantkit.bundle import read_bundle, verify_bundle
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.quantization import write_quantized
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.write import write_float_bundle
from quantkit.errors import BundleError
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import read_params, write_params
from quantkit.fusion.fused_model import FusedModel
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.algorithms.stage import plan
from quantkit.quantization.plan import float_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.lowering.networks import quantized as small_quantized
from tests.sound_onnx import written_onnx

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def int8_bundle(quantized: QuantizedModel, tmp_path: Path) -> Path:
    return quantized.save(tmp_path / "int8")


def test_the_network_of_an_fp32_bundle_has_no_integers(source: FusedModel, tmp_path: Path) -> None:
    network = read_bundle(write_float_bundle(source, tmp_path / "fp32")).network
    assert nnvm.serialize(network.graph) == nnvm.serialize(source.fused.graph)
    assert network.plan.decisions == float_plan(network.graph).decisions
    assert network.int8_layers == ()


@pytest.mark.parametrize("change", ["a kernel that does less", "an activation that MXNet leaves out"])
def test_an_fp32_network_that_quantkit_would_not_fuse_so_is_told(
    source: FusedModel, tmp_path: Path, resign: Any, change: str
) -> None:
    bundle = write_float_bundle(source, tmp_path / "fp32")
    symbol = json.loads((bundle / "model-symbol.json").read_text())
    layer = next(node for node in symbol["nodes"] if node["op"] == "_sg_mkldnn_conv")
    if change == "a kernel that does less":
        del layer["attrs"]["with_act"]
    else:
        inner = layer["subgraphs"][0]
        last = len(inner["nodes"])
        inner["nodes"].append(
            {"op": "Activation", "name": "more", "attrs": {"act_type": "tanh"}, "inputs": [[last - 1, 0, 0]]}
        )
        inner["heads"] = [[last, 0, 0]]
        inner["node_row_ptr"] = list(range(last + 2))
    (bundle / "model-symbol.json").write_text(json.dumps(symbol))
    resign(bundle)
    with pytest.raises(BundleError, match=r"model-symbol\.json cannot be used: (it is not a network that|the layer )"):
        _ = read_bundle(bundle).network


def test_the_network_of_an_int8_bundle_is_what_was_lowered(quantized: QuantizedModel, tmp_path: Path) -> None:
    network = small_quantized("v1")
    write_quantized(network, tmp_path)
    bundle = Bundle(tmp_path, read_bundle(quantized.save(tmp_path / "bundle")).manifest, None, ())
    vars(bundle)["graph"] = int8_graph(network)
    reread = bundle._read_network()
    assert nnvm.serialize(reread.graph) == nnvm.serialize(network.graph)
    assert vars(reread.plan) == vars(network.plan)


def test_a_network_that_is_lowered_to_another_is_told(quantized: QuantizedModel, tmp_path: Path, resign: Any) -> None:
    path = quantized.save(tmp_path / "bundle")
    other = QuantizedGraph(quantized.network.graph, plan(quantized.source, quantized.table, "dense", "int8"))
    write_quantized(other, path)
    resign(path)
    with pytest.raises(
        BundleError,
        match=rf"^bundle {path}: quantization\.json with fused-symbol\.json and fused-0000\.params cannot be "
        "used: the quantized network does not lower to the stored symbol: its operators differ$",
    ):
        _ = read_bundle(path).network
    (failed,) = (check for check in verify_bundle(path).checks if not check.ok)
    assert failed.name == "quantization"
    assert failed.why.endswith("its operators differ")


def test_an_onnx_file_that_quantkit_never_wrote_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, path = Bundle(tmp_path, None, None, ()), tmp_path / "model.onnx"  # type: ignore[arg-type]
    sound = written_onnx().SerializeToString()
    path.write_bytes(sound)
    assert bundle._read_onnx("model.onnx") == sound
    path.write_bytes(sound.replace(b"LeakyRelu", b"Tokenizer"))
    with pytest.raises(BundleError, match=rf"^bundle {tmp_path}: model\.onnx .*'Tokenizer'; write the bundle again$"):
        bundle._read_onnx("model.onnx")
    path.write_bytes(sound)
    monkeypatch.setattr("quantkit.bundle.bundle._LARGEST_ONNX", len(sound) - 1)
    with pytest.raises(BundleError, match=rf"model\.onnx cannot be used: .* more than {len(sound) - 1} bytes"):
        bundle._read_onnx("model.onnx")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "its beginning: "), (b"[{}]", r"0\.node: "), (b'[{"node": "a", "operator": 3}]', r"0\.operator: ")],
)
def test_damaged_lists_of_operators_are_told(int8_bundle: Path, resign: Any, content: bytes, message: str) -> None:
    (int8_bundle / "operators.json").write_bytes(content)
    resign(int8_bundle)
    with pytest.raises(BundleError, match=rf"^bundle {int8_bundle}: operators\.json cannot be used: {message}"):
        _ = read_bundle(int8_bundle).operators


def test_long_lists_of_operators_are_refused(int8_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = read_bundle(int8_bundle)
    assert bundle.operators
    monkeypatch.setattr("quantkit.bundle.bundle._LARGEST_OPERATORS", 100)
    with pytest.raises(BundleError, match=r"operators\.json cannot be used: .* more than 100 bytes"):
        _ = bundle.operators


def test_a_network_of_several_inputs_is_told_with_all_of_them(int8_bundle: Path, resign: Any) -> None:
    path = int8_bundle / "model-0000.params"
    params = {name: value for name, value in read_params(path).items() if name != "arg:dense_bias"}
    with path.open("wb") as file:
        write_params(file, params)
    resign(int8_bundle)
    with pytest.raises(BundleError, match=r"reads '\w+', '\w+', the manifest says 'data'; write the bundle again$"):
        _ = read_bundle(int8_bundle).graph


def test_a_bundle_that_was_replaced_is_told(int8_bundle: Path, source: FusedModel) -> None:
    bundle = read_bundle(int8_bundle)
    shutil.rmtree(int8_bundle)
    write_float_bundle(source, int8_bundle)
    for part in ("graph", "network", "table", "operators", "sample"):
        with pytest.raises(BundleError, match=f"^{int8_bundle} was replaced by another bundle while it was read; "):
            getattr(bundle, part)
