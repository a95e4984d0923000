"""Networks of GluonCV's zoo, built by name."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.backends.mxnet.data_sets import data_set_classes
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.traceable import traceable_blocks
from quantkit.backends.mxnet.zoo import ZooNetwork, zoo_names, zoo_network, zoo_source
from quantkit.errors import ModelError
from quantkit.models.families import family_of, fp32_name
from quantkit.models.load import load_model
from quantkit.models.names import built

OPTIONS = (("pretrained_base", False),)


@pytest.fixture(scope="module")
def detector(engine: None) -> ZooNetwork:
    return zoo_network("ssd_300_mobilenet0.25_voc", (3, 300, 300), OPTIONS)


def test_anchor_boxes_are_constants(detector: ZooNetwork) -> None:
    """The first box of each level lies half a step from the corner; see Liu et al. 2016, "SSD"."""
    anchors = [values for name, values in sorted(detector.constants.items()) if "anchor" in name]
    assert len(anchors) == 6
    assert all(
        values.dtype == np.float32 and values.shape == detector.shapes[name]
        for name, values in detector.constants.items()
    )
    centres = sorted(values[0, 0, 0, 0, 0] for values in anchors)
    assert centres == [step / 2 for step in (8, 16, 32, 64, 100, 300)]


# MXNet 1.6 adds an operator that no file may hold.
@pytest.mark.requires("onednn")
def test_random_weights_leave_anchor_boxes_as_they_are(detector: ZooNetwork) -> None:
    model = load_model("ssd_300_mobilenet0.25_voc", weights="random", quiet=True)
    for name, values in detector.constants.items():
        np.testing.assert_array_equal(model.graph.params[name], values)
    assert model.labels == detector.labels
    assert len(model.graph.outputs) == 3


def test_parameters_that_the_network_does_not_read_are_known(engine: None) -> None:
    network = zoo_network("monodepth2_resnet18_kitti_mono_640x192", (3, 192, 640), OPTIONS)
    assert {"encoder.encoder.fc.weight", "encoder.encoder.fc.bias"} <= network.unused
    # The decoder lists its layers twice.
    twice = {place for place in network.unused if not place.startswith("encoder.encoder.fc.")}
    assert len(twice) == sum(place.startswith("decoder.") for place in network.structured.values())
    assert set(network.structured) == set(network.shapes) and twice.isdisjoint(network.structured.values())


@pytest.mark.parametrize(
    ("name", "shape", "number", "first"),
    [
        ("fcn_resnet50_voc", (3, 96, 96), 21, "background"),
        ("psp_resnet50_ade", (3, 96, 96), 150, "wall"),
        ("fastscnn_citys", (3, 96, 96), 19, "road"),
        ("vgg16_hmdb51", (3, 224, 224), 51, "brush_hair"),
        ("r2plus1d_resnet18_kinetics400", (3, 16, 112, 112), 400, "abseiling"),
        ("resnet18_v1b_custom", (3, 224, 224), 400, None),
    ],
)
def test_classes_are_named_after_the_data_set(
    engine: None, name: str, shape: tuple[int, ...], number: int, first: Optional[str]
) -> None:
    network = built(name, shape)
    assert network.classes == number
    assert network.labels[:1] == (() if first is None else (first,)) and len(network.labels) == (number if first else 0)


def test_every_segmentation_and_action_network_has_names(engine: None) -> None:
    tasks = {name: family.task for name in zoo_names() if (family := family_of(name)) and not fp32_name(name)}
    named = {name for name in tasks if data_set_classes(name)}
    wanted = {name for name, task in tasks.items() if task in ("segmentation", "action")}
    assert len(wanted) > 70 and {name for name in wanted - named if not name.endswith("_custom")} == set()
    # Detectors hold their own, poses have joints.
    assert {tasks[name] for name in named - wanted} <= {"detection", "pose"}


def test_names_of_another_number_are_none(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.backends.mxnet.zoo.data_set_classes", lambda name: ("one", "two"))
    zoo_network.cache_clear()
    assert built("fastscnn_citys", (3, 96, 96)).labels == ()
    zoo_network.cache_clear()


def test_building_prints_nothing(engine: None, capsys: pytest.CaptureFixture[str]) -> None:
    options = (*OPTIONS, ("height", 96), ("width", 96))
    assert zoo_network("psp_resnet50_ade", (3, 96, 96), options).classes == 150
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("hrnet_w18_c", "hrnet_w18_cls"),
        ("resnet50_v1d_0.11", "resnet50_v1d_8.8x"),
        ("ssd_512_resnet50_v1_voc", "ssd_512_resnet50_v1_voc"),
    ],
)
def test_names_of_trained_weights(engine: None, name: str, stored: str) -> None:
    source = zoo_source(name)
    assert source is not None
    location, checksum = source
    assert location == f"{stored}-{checksum[:8]}"
    assert len(checksum) == 40


def test_no_trained_weights(engine: None) -> None:
    assert zoo_source("ssd_512_resnet50_v1_custom") is None


def test_unknown_names(engine: None) -> None:
    with pytest.raises(ModelError, match="GluonCV has no network 'resnet51_v1'"):
        zoo_network("resnet51_v1", (3, 224, 224))


@pytest.mark.parametrize("scale", [True, False])
def test_group_normalization_is_traced(engine: None, scale: bool) -> None:
    """Wu & He 2018: mean and variance over the channels of a group and all places, then scale and shift by channel."""
    load_gluoncv()
    from gluoncv.nn import GroupNorm

    original = GroupNorm.hybrid_forward
    block: Any = GroupNorm(ngroups=2, in_channels=6, scale=scale)
    block.initialize(load_mxnet().init.Uniform(1.0))
    generator = np.random.default_rng(0)
    gamma, beta = (generator.normal(size=6).astype(np.float32) for _ in range(2))
    block.gamma.set_data(load_mxnet().nd.array(gamma))
    block.beta.set_data(load_mxnet().nd.array(beta))
    model = load_model(block, input_shape=(6, 4, 5))
    data = generator.normal(2, 3, (3, 6, 4, 5)).astype(np.float32)
    groups = data.reshape(3, 2, -1)
    normalized = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    scaled = normalized.reshape(data.shape) * (gamma[:, None, None] if scale else 1)
    (computed,) = run(model.graph, {"data": data})
    np.testing.assert_allclose(computed, scaled + beta[:, None, None], rtol=1e-4, atol=1e-4)
    assert GroupNorm.hybrid_forward is original


@pytest.mark.parametrize(("height", "width"), [(4, 4), (5, 7)])
def test_centers_are_decoded_as_gluoncv_does(engine: None, height: int, width: int) -> None:
    load_gluoncv()
    from gluoncv.nn.coder import CenterNetDecoder

    mxnet = load_mxnet()
    block = CenterNetDecoder(topk=6, scale=4.0)
    generator = np.random.default_rng(0)
    shapes = (3, 11, height, width), (3, 2, height, width), (3, 2, height, width)
    arrays = [generator.random(shape, np.float32) for shape in shapes]
    expected = block(*map(mxnet.nd.array, arrays))
    with traceable_blocks():
        symbol = mxnet.sym.Group(list(block(*map(mxnet.sym.var, "xws"))))
    executor = symbol.bind(mxnet.cpu(), dict(zip("xws", map(mxnet.nd.array, arrays))))
    for computed, wanted in zip(executor.forward(), expected, strict=True):
        np.testing.assert_allclose(computed.asnumpy(), wanted.asnumpy(), rtol=1e-6)
