"""PyTorch's names paired with gluon's, for the names that torchvision and timm give their modules."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from quantkit.backends.mxnet.zoo import ZooNetwork, zoo_network
from quantkit.errors import ModelError
from quantkit.models.fit import Parameters, fit

GLUON_NORM = {"gamma": "weight", "beta": "bias", "running_mean": "running_mean", "running_var": "running_var"}


def resnet(blocks: tuple[int, ...], convolutions: int, first_shortcut: int) -> Iterator[str]:
    yield from ("conv1", "bn1")
    for stage, count in enumerate(blocks, 1):
        for block in range(count):
            for number in range(1, convolutions + 1):
                yield from (f"layer{stage}.{block}.conv{number}", f"layer{stage}.{block}.bn{number}")
            if block == 0 and stage >= first_shortcut:
                yield from (f"layer{stage}.{block}.downsample.0", f"layer{stage}.{block}.downsample.1")
    yield "fc"


def densenet() -> Iterator[str]:
    yield from ("features.conv0", "features.norm0")
    for block, layers in enumerate((6, 12, 24, 16), 1):
        for layer, name in itertools.product(range(1, layers + 1), ("norm1", "conv1", "norm2", "conv2")):
            yield f"features.denseblock{block}.denselayer{layer}.{name}"
        if block < 4:
            yield from (f"features.transition{block}.norm", f"features.transition{block}.conv")
    yield from ("features.norm5", "classifier")


def inception() -> Iterator[str]:
    a = ["branch1x1", "branch5x5_1", "branch5x5_2", "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3", "branch_pool"]
    b = ["branch3x3", "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"]
    c = [
        "branch1x1",
        *(f"branch7x7_{i}" for i in range(1, 4)),
        *(f"branch7x7dbl_{i}" for i in range(1, 6)),
        "branch_pool",
    ]
    d = ["branch3x3_1", "branch3x3_2", *(f"branch7x7x3_{i}" for i in range(1, 5))]
    e = ["branch1x1", "branch3x3_1", "branch3x3_2a", "branch3x3_2b"]
    e += ["branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3a", "branch3x3dbl_3b", "branch_pool"]
    blocks = dict(
        zip(("5b", "5c", "5d", "6a", "6b", "6c", "6d", "6e", "7a", "7b", "7c"), (a, a, a, b, c, c, c, c, d, e, e))
    )
    modules = [f"Conv2d_{name}" for name in ("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")]
    modules += [f"Mixed_{block}.{branch}" for block, branches in blocks.items() for branch in branches]
    for module in modules:
        yield from (f"{module}.conv", f"{module}.bn")
    yield "fc"


def squeezenet(fires: tuple[int, ...]) -> Iterator[str]:
    yield "features.0"
    for fire, name in itertools.product(fires, ("squeeze", "expand1x1", "expand3x3")):
        yield f"features.{fire}.{name}"
    yield "classifier.1"


ALEXNET = [*(f"features.{i}" for i in (0, 3, 6, 8, 10)), *(f"classifier.{i}" for i in (1, 4, 6))]

NAMES = {
    "resnet18_v1b": list(resnet((2, 2, 2, 2), 2, 2)),
    "resnet50_v1b": list(resnet((3, 4, 6, 3), 3, 1)),
    "densenet121": list(densenet()),
    "inceptionv3": list(inception()),
    "squeezenet1.0": list(squeezenet((3, 4, 5, 7, 8, 9, 10, 12))),
    "squeezenet1.1": list(squeezenet((3, 4, 6, 7, 9, 10, 11, 12))),
}


def network(name: str) -> ZooNetwork:
    return zoo_network(name, (3, 299, 299) if name == "inceptionv3" else (3, 224, 224))


def paired(built: ZooNetwork, modules: list[str]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Random values by the symbol's names, and the same by PyTorch's, in an order of no meaning."""
    generator = np.random.default_rng(0)
    ours = {name: generator.standard_normal(shape, np.float32) for name, shape in built.shapes.items()}
    places = list(dict.fromkeys(place.rpartition(".")[0] for place in built.structured.values()))
    assert len(places) == len(modules)
    torch_of = dict(zip(places, modules))
    theirs = {}
    for name, full in built.structured.items():
        place, _, role = full.rpartition(".")
        theirs[f"{torch_of[place]}.{GLUON_NORM.get(role, role)}"] = ours[name]
        if role == "running_mean":
            theirs[f"{torch_of[place]}.num_batches_tracked"] = np.array(3)
    items = list(theirs.items())
    random.Random(1).shuffle(items)
    return ours, dict(items)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_finds_its_own(engine: None, name: str) -> None:
    built = network(name)
    ours, theirs = paired(built, NAMES[name])
    if name == "inceptionv3":
        theirs["AuxLogits.fc.weight"] = np.ones((1000, 768), np.float32)
    fitted = fit(Parameters(built.shapes, built.structured), theirs, "x.safetensors")
    assert set(fitted) == set(ours)
    for key, value in ours.items():
        np.testing.assert_array_equal(fitted[key], value, err_msg=key)


@pytest.mark.parametrize("modules", [ALEXNET[5:], ["pre_logits.fc1", "pre_logits.fc2", "head.fc"]])
def test_dense_layers_stored_as_convolutions(engine: None, modules: list[str]) -> None:
    shapes = {"features.0.weight": (4, 3, 3, 3), "features.3.weight": (8, 36), "features.5.weight": (6, 8)}
    shapes["output.weight"] = (2, 6)
    values = {name: np.random.default_rng(2).random(shape, np.float32) for name, shape in shapes.items()}
    theirs = dict(zip(["features.0.weight", *(f"{module}.weight" for module in modules)], values.values()))
    theirs[f"{modules[0]}.weight"] = values["features.3.weight"].reshape(8, 4, 3, 3)
    structured = {f"net0_{index}": place for index, place in enumerate(shapes)}
    wanted = Parameters({name: shapes[place] for name, place in structured.items()}, structured)
    fitted = fit(wanted, theirs, "x")
    for name, place in structured.items():
        np.testing.assert_array_equal(fitted[name], values[place])


def test_another_architecture_is_refused(engine: None) -> None:
    _, theirs = paired(network("resnet50_v1b"), NAMES["resnet50_v1b"])
    for other in ("resnet50_v1", "resnet18_v1b", "densenet121"):
        built = network(other)
        with pytest.raises(ModelError, match=r"x\.safetensors"):
            fit(Parameters(built.shapes, built.structured), theirs, "x.safetensors")


def test_layers_too_few_or_too_many(engine: None) -> None:
    built = network("resnet18_v1b")
    wanted = Parameters(built.shapes, built.structured)
    _, theirs = paired(built, NAMES["resnet18_v1b"])
    with pytest.raises(ModelError, match="do not pair up"):
        fit(wanted, {name: value for name, value in theirs.items() if name != "layer2.0.conv1.weight"}, "x")
    with pytest.raises(ModelError, match="42 layers for the network's 41"):
        fit(wanted, {**theirs, "fc.1.weight": np.ones((2, 2), np.float32)}, "x")


@pytest.mark.parametrize(
    ("theirs", "complaint"),
    [
        ({}, "not known"),
        ({"features.0.weight": np.ones((), np.float32)}, r"has shape \(\)"),
        ({"features.0.weight": np.ones((2, 3), np.float32)}, r"has shape \(2, 3\)"),
        ({f"features.{'9' * 5000}.weight": np.ones(1, np.float32)}, "place of"),
        ({"features.0.weight": np.ones(1), "0.weight": np.ones(1)}, "not known|one place|2 layers"),
        ({"features.0.bias": np.ones(1, np.float32)}, r"has \['bias'\]"),
    ],
)
def test_odd_names_and_shapes_are_refused(theirs: dict[str, np.ndarray], complaint: str) -> None:
    wanted = Parameters({"net0_w": (1,)}, {"net0_w": "output.weight"})
    with pytest.raises(ModelError, match=complaint):
        fit(wanted, theirs, "x")
