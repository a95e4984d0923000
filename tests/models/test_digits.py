"""The trained networks that ship: their cards, their accuracy, and the structure that makes v2 worth shipping."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.data.builtin import digits
from quantkit.data.preprocess import apply
from quantkit.files.files import shipped
from quantkit.ir.graph import Graph
from quantkit.models.card import find_card
from quantkit.models.load import load_model

NAMES = ("digits_resnet20_v1", "digits_resnet20_v2")


@pytest.mark.parametrize("name", NAMES)
def test_the_accuracy_is_the_cards(name: str) -> None:
    model, card = load_model(name, weights="pretrained"), find_card(name)
    assert card is not None
    assert card.accuracy is not None
    assert model.preprocess is not None
    samples = list(digits("test"))
    # The networks were trained on all but these; another split would have them tested on what they learnt.
    assert [sample.label for sample in samples[:4]] == [0, 5, 0, 5]
    assert len(samples) == 360
    images = np.stack([apply(model.preprocess, sample.image) for sample in samples])
    outputs = MxnetSession(model.graph, {model.graph.inputs[0]: images.shape}).run({model.graph.inputs[0]: images})[0]
    top1 = 100 * np.mean(outputs.argmax(1) == [sample.label for sample in samples])
    assert top1 == pytest.approx(card.accuracy.top1, abs=0.005)
    assert top1 >= 98.5
    assert model.labels == tuple("0123456789")


def _shared_convolutions(graph: Graph) -> list[str]:
    """Convolutions whose output is both normalised and added to."""
    return [
        node.name
        for node in graph.nodes
        if node.op == "Convolution"
        and {reader.op for reader in graph.consumers.get(node.output, ())} >= {"BatchNorm", "elemwise_add"}
    ]


def test_only_v2_has_a_convolution_that_must_not_be_fused_with_its_batch_norm() -> None:
    assert _shared_convolutions(load_model("digits_resnet20_v1").graph) == []
    assert len(_shared_convolutions(load_model("digits_resnet20_v2").graph)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_small(name: str) -> None:
    sizes = [(shipped("models") / f"{name}{end}").stat().st_size for end in ("-0000.params", "-symbol.json")]
    assert sum(sizes) < 1.3e6
