"""load_model: every kind of specification, and every way for one to be wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, WeightsUnavailable
from quantkit.ir.allowed_operators import FUSED, OPERATORS
from quantkit.models.card import find_card
from quantkit.models.load import load_model
from quantkit.models.preprocess_change import PreprocessChange, PreprocessChangedWarning
from quantkit.models.preprocess_size import preprocess_at

SHAPE = (3, 8, 8)


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("MXNET_GLUON_REPO", "HF_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("QUANTKIT_HOME", "MXNET_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.fixture
def block(engine: None) -> Any:
    """A small initialised network with batch normalisation and a dense layer of unknown input size."""
    mxnet = load_mxnet()
    nn = mxnet.gluon.nn
    net = nn.HybridSequential(prefix="tiny_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.Flatten(), nn.Dense(2))
    mxnet.random.seed(0)
    net.initialize(mxnet.init.Xavier())
    return net


@pytest.fixture
def data() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((2, *SHAPE)).astype(np.float32)


@pytest.fixture
def checkpoint(block: Any, data: np.ndarray, tmp_path: Path) -> str:
    block.hybridize()
    block(load_mxnet().nd.array(data))
    block.export(str(tmp_path / "tiny"), epoch=3)
    return str(tmp_path / "tiny")


def expected(block: Any, data: np.ndarray) -> np.ndarray:
    value: np.ndarray = block(load_mxnet().nd.array(data)).asnumpy()
    return value


def assert_computes(model: Any, data: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(run(model.graph, {model.graph.inputs[0]: data})[0], wanted, rtol=1e-5, atol=1e-6)


def test_block(block: Any, data: np.ndarray) -> None:
    model = load_model(block, input_shape=SHAPE)
    assert_computes(model, data, expected(block, data))
    assert (model.source.weights, model.preprocess, model.input_shape) == ("given", None, SHAPE)


def test_block_without_values(engine: None) -> None:
    net = load_mxnet().gluon.nn.Dense(2)
    with pytest.raises(ModelError, match="initialize"):
        load_model(net, input_shape=SHAPE)


def test_checkpoint_by_prefix_and_by_symbol_file(checkpoint: str, block: Any, data: np.ndarray) -> None:
    for spec in (checkpoint, checkpoint + "-symbol.json", Path(checkpoint)):
        model = load_model(spec, input_shape=list(SHAPE))
        assert_computes(model, data, expected(block, data))
        assert (model.name, model.source.weights, model.source.location) == ("tiny", "file", "tiny-0003.params")


def test_a_checkpoint_whose_name_is_no_text(checkpoint: str, block: Any, data: np.ndarray, tmp_path: Path) -> None:
    for ending in ("-symbol.json", "-0003.params"):
        Path(f"{checkpoint}{ending}").rename(tmp_path / os.fsdecode(b"n\xfft" + ending.encode()))
    model = load_model(str(tmp_path / os.fsdecode(b"n\xfft")), input_shape=SHAPE)
    assert (model.name, model.source.location) == ("n\ufffdt", "n\ufffdt-0003.params")
    np.testing.assert_array_equal(run(model.graph, {"data": data})[0], expected(block, data))


def test_symbol_with_params_as_objects(checkpoint: str, block: Any, data: np.ndarray) -> None:
    mxnet = load_mxnet()
    symbol, arguments, auxiliary = mxnet.model.load_checkpoint(checkpoint, 3)
    for model in (
        load_model((symbol, arguments, auxiliary), input_shape=SHAPE),
        load_model(symbol, params={**arguments, **auxiliary}, input_shape=SHAPE),
        load_model(symbol, weights=checkpoint + "-0003.params", input_shape=SHAPE),
    ):
        assert_computes(model, data, expected(block, data))
    with pytest.raises(ModelError, match="without parameters"):
        load_model(symbol, input_shape=SHAPE)


def test_newest_epoch_wins(checkpoint: str, block: Any) -> None:
    newest = Path(checkpoint + "-0012.params")
    newest.write_bytes(Path(checkpoint + "-0003.params").read_bytes())
    assert load_model(checkpoint, input_shape=SHAPE).source.location == newest.name


def test_random_weights_for_a_checkpoint(checkpoint: str) -> None:
    Path(checkpoint + "-0003.params").unlink()
    assert load_model(checkpoint, weights="random", input_shape=SHAPE).source.weights == "random"
    with pytest.raises(ModelError, match=r"no parameters beside .*tiny-0000\.params"):
        load_model(checkpoint, input_shape=SHAPE)


def test_own_card(checkpoint: str, block: Any, data: np.ndarray) -> None:
    path = Path(checkpoint).with_suffix(".toml")
    path.write_text(
        'name = "mine"\nsymbol = "tiny-symbol.json"\nparams = "tiny-0003.params"\ninput_shape = [3, 8, 8]\n'
        'classes = 2\nlabels = ["cat", "dog"]\n[preprocess]\nmean = [0.5, 0.5, 0.5]\nstd = [1.0, 1.0, 1.0]\n'
    )
    model = load_model(path)
    assert_computes(model, data, expected(block, data))
    assert (model.name, model.labels, model.source.weights) == ("mine", ("cat", "dog"), "file")
    assert model.preprocess == Preprocess(None, None, (0.5, 0.5, 0.5), (1.0, 1.0, 1.0))


@pytest.mark.parametrize("elsewhere", ["/proc/self/environ", "../secret", "a/../../secret", "link", "pipe"])
@pytest.mark.parametrize("field", ["symbol", "params", "labels", "source"])
def test_a_card_reads_nothing_outside_its_folder(checkpoint: str, tmp_path: Path, field: str, elsewhere: str) -> None:
    folder = Path(checkpoint).parent
    (folder.parent / "secret").write_text("secret\nsecret\n")
    (folder / "link").symlink_to(folder.parent / "secret")
    os.mkfifo(folder / "pipe")
    files = {"symbol": "tiny-symbol.json", "params": "tiny-0003.params", "labels": "", field: elsewhere}
    source = f'[[sources]]\nkind = "file"\nlocation = "{elsewhere}"\n'
    path = folder / "mine.toml"
    path.write_text(
        f'name = "mine"\nsymbol = "{files["symbol"]}"\ninput_shape = [3, 8, 8]\nclasses = 2\n'
        + (f'labels = "{elsewhere}"\n' if field == "labels" else "")
        + (source if field == "source" else f'params = "{files["params"]}"\n')
    )
    with pytest.raises(ModelError, match=r"card 'mine': .*(does not lie in|a link out of|not an ordinary file)"):
        load_model(path)


def test_softmax_loss_becomes_softmax(engine: None, tmp_path: Path, data: np.ndarray) -> None:
    mxnet = load_mxnet()
    dense = mxnet.sym.FullyConnected(mxnet.sym.var("data"), num_hidden=2, name="fc")
    symbol = mxnet.sym.SoftmaxOutput(dense, name="softmax")
    params = {"fc_weight": np.full((2, 192), 0.01, np.float32), "fc_bias": np.array([0, 1], np.float32)}
    model = load_model(symbol, params=params, input_shape=SHAPE)
    logits = data.reshape(2, -1) @ params["fc_weight"].T + params["fc_bias"]
    assert_computes(model, data, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))


def test_shape_noted_in_the_symbol(engine: None) -> None:
    mxnet = load_mxnet()
    symbol = mxnet.sym.Flatten(mxnet.sym.var("data", shape=(0, *SHAPE)))
    assert load_model(symbol, params={}).input_shape == SHAPE


def test_name_with_a_card(engine: None) -> None:
    model = load_model("cifar_resnet20", weights="random")
    card = find_card("cifar_resnet20_v1")
    assert card is not None
    assert (model.name, model.input_shape, model.preprocess) == (card.name, card.input_shape, card.preprocess)
    assert model.labels[3] == "cat"
    assert model.source.weights == "random"


def test_name_without_a_card(engine: None) -> None:
    model = load_model("se_resnet18_v1", weights="random")
    assert model.input_shape == (3, 224, 224)
    assert model.preprocess is not None
    assert len(model.labels) == 1000


def test_other_input_shape_takes_the_preprocessing_along(engine: None) -> None:
    model = load_model("resnet18", weights="random", input_shape=(3, 112, 112))
    assert model.preprocess is not None
    assert (model.preprocess.resize, model.preprocess.crop) == (128, 112)
    with pytest.raises(ModelError, match="crops to squares, and 112x96 is none; give --fit stretch or"):
        load_model("resnet18", weights="random", input_shape=(3, 112, 96))
    with pytest.raises(ModelError, match="does not accept input"):
        load_model("alexnet", weights="random", input_shape=(3, 8, 8))


@pytest.mark.parametrize("as_file", [False, pytest.param(True, marks=pytest.mark.requires("onnx"))])
def test_a_fit_takes_the_place_of_a_crop_where_the_input_is_no_square(
    engine: None, as_file: bool, tmp_path: Path
) -> None:
    spec: Path | str = "cifar_resnet20_v1"
    if as_file:
        from quantkit.bundle.export import export_onnx

        spec = tmp_path / "net.onnx"
        export_onnx(load_model("cifar_resnet20_v1", weights="random"), spec)
    known = load_model(spec, weights="auto" if as_file else "random").preprocess
    assert known is not None and known.crop == 32
    with pytest.warns(PreprocessChangedWarning, match="uses fit stretch as given, where"):
        model = load_model(
            spec,
            weights="auto" if as_file else "random",
            input_shape=(3, 32, 64),
            preprocess=PreprocessChange(fit="stretch"),
        )
    assert model.input_shape == (3, 32, 64)
    assert model.preprocess == Preprocess(None, None, known.mean, known.std, fit="stretch")


def test_what_crops_nothing_takes_any_input() -> None:
    known = Preprocess(mean=(0.5, 0.5, 0.5))
    assert preprocess_at(known, (3, 8, 8), (3, 8, 16)) == known


def test_no_hub_and_no_fallback(engine: None) -> None:
    with pytest.raises(WeightsUnavailable, match="cifar_resnet20_v1-121e1579"):
        load_model("cifar_resnet20", weights="pretrained")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("{", "not valid JSON"),
        ("[1, 2]", "not an MXNet symbol"),
        ('{"nodes": [], "heads": []}', "no output"),
        (b"\xff\xfe\x00", "not text"),
    ],
)
def test_damaged_symbol_names_the_file(engine: None, tmp_path: Path, text: str | bytes, complaint: str) -> None:
    path = tmp_path / "bad-symbol.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ModelError, match=complaint) as caught:
        load_model(path, weights="random", input_shape=SHAPE)
    assert "bad-symbol.json" in str(caught.value)


def _symbol_of_one(operator: str, attrs: dict[str, str]) -> str:
    """A symbol of one operator with as few inputs as it can have, and a convolution inside if it is a fused one."""
    # The range of an integer input comes with it.
    count = OPERATORS[operator].fewest + (2 if "quantized" in attrs else 0)
    nodes: list[dict[str, object]] = [{"op": "null", "name": f"data{each}", "inputs": []} for each in range(count)]
    layer = {"op": "Convolution", "name": "c", "attrs": {"kernel": "(1, 1)", "num_filter": "1", "no_bias": "True"}}
    inside = [{"op": "null", "name": "data0"}, {"op": "null", "name": "data1"}, {**layer, "inputs": [[0, 0], [1, 0]]}]
    body = [{"nodes": inside, "heads": [[2, 0, 0]]}] if operator in FUSED else []
    inputs = [[each, 0, 0] for each in range(count)]
    nodes.append({"op": operator, "name": "x", "attrs": attrs, "inputs": inputs, "subgraphs": body})
    return json.dumps({"nodes": nodes, "heads": [[count, 0, 0]]})


@pytest.mark.parametrize(
    ("operator", "attrs"),
    [
        ("_contrib_quantize_v2", {}),
        ("_contrib_quantized_conv", {}),
        ("_contrib_dequantize", {}),
        ("_sg_mkldnn_conv", {"quantized": "true"}),
    ],
)
def test_int8_networks_are_refused(engine: None, tmp_path: Path, operator: str, attrs: dict[str, str]) -> None:
    path = tmp_path / "q-symbol.json"
    path.write_text(_symbol_of_one(operator, attrs))
    with pytest.raises(ModelError, match=r"q-symbol\.json is an INT8 network already"):
        load_model(path, input_shape=SHAPE)


def test_networks_fused_by_an_engine_are_refused(engine: None, tmp_path: Path) -> None:
    path = tmp_path / "f-symbol.json"
    path.write_text(_symbol_of_one("_sg_mkldnn_conv", {}))
    with pytest.raises(ModelError, match="fused by an engine"):
        load_model(path, input_shape=SHAPE)


def test_missing_input_shape_is_asked_for(checkpoint: str) -> None:
    with pytest.raises(ModelError, match="--input-shape"):
        load_model(checkpoint)
    for wrong in ((8, 8), (3, 8, 0), (3, 8, 8.5)):
        with pytest.raises(ModelError, match=r"channels, height, width|does not accept input of shape \(8, 8\)"):
            load_model(checkpoint, input_shape=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", ["no/such-network", "x.onnx", 3, None])
def test_other_things(engine: None, spec: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        load_model(spec)
    with pytest.raises(ModelError, match="folder"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("cifar_resnet20_v1", 32),
        ("cifar_resnet20_v2", 32),
        ("squeezenet1.0", 224),
        ("mobilenet0.25_relu6", 224),
        ("mobilenetv2_1.0", 224),
    ],
)
def test_real_checkpoints_compute_as_in_mxnet(engine: None, real_data: Path, name: str, size: int) -> None:
    mxnet = load_mxnet()
    model = load_model(real_data / "weights" / name, input_shape=(3, size, size))
    data = np.random.default_rng(0).standard_normal((1, 3, size, size)).astype(np.float32)
    prefix = str(real_data / "weights" / name)
    net = mxnet.gluon.SymbolBlock.imports(prefix + "-symbol.json", ["data"], prefix + "-0000.params")
    assert_computes(model, data, net(mxnet.nd.array(data)).asnumpy())


def test_real_checkpoint_as_weights_of_a_named_network(engine: None, real_data: Path) -> None:
    file = real_data / "weights" / "cifar_resnet20_v2-0000.params"
    model = load_model("cifar_resnet20_v2", weights=file)
    data = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    other = load_model(real_data / "weights" / "cifar_resnet20_v2", input_shape=(3, 32, 32))
    np.testing.assert_allclose(run(model.graph, {"data": data})[0], run(other.graph, {"data": data})[0], rtol=1e-5)


@pytest.mark.usefixtures("engine")
def test_parameters_whose_shapes_only_the_block_knows() -> None:
    mxnet = load_mxnet()
    from mxnet.gluon import nn

    class Scaled(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.slope = nn.PReLU()
                self.gain = self.params.get("gain", shape=(1, 3, 1, 1), init="ones")

        def hybrid_forward(self, F: Any, x: Any, gain: Any) -> Any:  # noqa: N803
            return F.broadcast_mul(F.relu(self.slope(x)), gain)

    block = Scaled()
    block.initialize()
    model = load_model(block, input_shape=(3, 8, 8))
    assert sorted(value.shape for value in model.graph.params.values()) == [(1,), (1, 3, 1, 1)]
    data = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(run(model.graph, {"data": data})[0], block(mxnet.nd.array(data)).asnumpy(), rtol=1e-6)


def test_a_network_says_what_it_is_for(engine: None, checkpoint: str) -> None:
    assert (load_model("digits_ssd").task, load_model("digits_ssd").class_scores) == ("detection", False)
    assert (load_model("digits_resnet20_v1").task, load_model("digits_resnet20_v1").class_scores) == (
        "classification", None,
    )  # fmt: skip
    assert load_model(checkpoint, input_shape=SHAPE).task is None
    said = load_model(checkpoint, input_shape=SHAPE, task="embedding")
    assert (said.task, said.class_scores) == ("embedding", False)
    classes = load_model("digits_ssd", class_scores=True)
    assert (classes.task, classes.class_scores) == ("classification", True)
    assert load_model("digits_ssd", task="classification").class_scores is None
    with pytest.raises(ModelError, match="there is no task 'cooking'; give one of classification, detection"):
        load_model(checkpoint, input_shape=SHAPE, task="cooking")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="networks for detection put out no class scores; leave out either the task"):
        load_model(checkpoint, input_shape=SHAPE, task="detection", class_scores=True)


def test_boxes_have_the_corners_that_the_user_says(engine: None, checkpoint: str) -> None:
    assert load_model(checkpoint, input_shape=SHAPE).box_corners == load_model("digits_ssd").box_corners == "edges"
    assert load_model(checkpoint, input_shape=SHAPE, box_corners="pixels").box_corners == "pixels"
    assert load_model("digits_ssd", box_corners="pixels").box_corners == "pixels"
    ssd = "ssd_300_mobilenet0.25_custom"
    assert load_model(ssd, weights="random", quiet=True).box_corners == "pixels"
    assert load_model(ssd, weights="random", quiet=True, box_corners="edges").box_corners == "edges"
    with pytest.raises(ModelError, match="v1 is for classification, which has no boxes; leave out box_corners"):
        load_model("digits_resnet20_v1", box_corners="edges")
    with pytest.raises(ModelError, match=" is for pose, which has no boxes"):
        load_model(checkpoint, input_shape=SHAPE, task="pose", box_corners="pixels")
    with pytest.raises(ModelError, match="box_corners is 'inclusive'; give edges or pixels"):
        load_model(checkpoint, input_shape=SHAPE, box_corners="inclusive")  # type: ignore[arg-type]
