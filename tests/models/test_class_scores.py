"""The rule that tells class scores from other outputs, network by network."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quantkit.errors import UserError
from quantkit.ir.graph import Graph, Tensor
from quantkit.models.class_scores import ClassScores, class_scores
from tests.networks import DATA, Builder

LABELS = tuple("abcdefghij")


def ending(make: Callable[[Builder, Tensor], Tensor], width: int = 10) -> Graph:
    """A dense layer of some width, and what follows."""
    b = Builder()
    return b.graph(make(b, b.dense("dense", b.op("Flatten", "flatten", DATA), 12, width)))


def pooled(after: str, width: int = 1000) -> Graph:
    """A convolution, one more operator, pooling and reshaping."""
    b = Builder()
    conv = b.conv("conv", DATA, 3, width, 1)
    last = b.relu("relu", conv) if after == "relu" else b.batch_norm("bn", conv, width) if after == "bn" else conv
    return b.graph(b.op("Flatten", "flat", b.op("Pooling", "pool", last, global_pool=True)))


def nothing(b: Builder, tensor: Tensor) -> Tensor:
    return tensor


def op(name: str, **attrs: object) -> Callable[[Builder, Tensor], Tensor]:
    return lambda b, tensor: b.op(name, "end", tensor, **attrs)


DENSE, PLAIN = ending(nothing), ending(nothing, 512)


@pytest.mark.parametrize(
    ("graph", "shape", "yes"),
    [
        (DENSE, (10,), True),
        (DENSE, (10, 1, 1), True),
        (pooled("relu"), (1000,), True),
        (pooled("nothing"), (1000,), True),
        (ending(lambda b, t: b.op("broadcast_add", "sum", t, b.param("bias", b.random.normal(size=10)))), (10,), True),
        (ending(op("softmax"), 512), (512,), True),
        (ending(op("SoftmaxActivation")), (10,), True),
        (ending(lambda b, t: b.op("Reshape", "r", b.op("softmax", "s", t))), (10,), True),
        (ending(lambda b, t: b.op("_mul_scalar", "m", b.op("softmax", "s", t), scalar=1), 512), (512,), True),
        (ending(lambda b, t: b.op("_mul_scalar", "m", b.op("softmax", "s", t), scalar=2), 512), (512,), False),
        (ending(op("sigmoid")), (10,), False),
        (ending(op("Activation", act_type="sigmoid")), (10,), False),
        (ending(op("Activation", act_type="relu")), (10,), False),
        (ending(op("L2Normalization")), (10,), False),
        (pooled("bn"), (1000,), False),
        (PLAIN, (512,), False),
        (pooled("relu", 2048), (2048,), False),
        (DENSE, (1,), False),
        (DENSE, (), False),
        (DENSE, (10, 4, 4), False),
        (DENSE, (1, 10), False),
    ],
)
def test_what_is_presumed_of_a_network_of_which_nothing_is_known(
    graph: Graph, shape: tuple[int, ...], yes: bool
) -> None:
    assert class_scores(graph, [shape]).yes is yes


def test_names_of_classes_and_labels_of_images_make_a_row_one_of_scores() -> None:
    assert not class_scores(PLAIN, [(512,)]).yes
    assert class_scores(PLAIN, [(512,)], labelled=True) == ClassScores(True, "the images have labels")
    assert class_scores(ending(op("sigmoid")), [(10,)], LABELS) == ClassScores(True, "its classes have names")
    assert not class_scores(PLAIN, [(512,)], LABELS).yes


def test_neither_makes_scores_of_maps_or_of_several_outputs() -> None:
    assert class_scores(DENSE, [(10, 4, 4)], LABELS, labelled=True).why == "an image's output has the shape (10, 4, 4)"
    assert class_scores(DENSE, [(10,), (4,)], LABELS, labelled=True) == ClassScores(False, "it has 2 outputs")


def test_what_no_word_could_change_is_settled() -> None:
    assert class_scores(DENSE, [(10, 4, 4)]).settled and class_scores(DENSE, [(10,)], said=True).settled
    assert class_scores(DENSE, [(10, 4, 4), (4,)]).settled
    assert not class_scores(DENSE, [(10,), (4,)]).settled and not class_scores(PLAIN, [(512,)]).settled


def test_what_the_user_says_counts_first() -> None:
    assert class_scores(PLAIN, [(512,)], said=True).yes
    assert class_scores(DENSE, [(10,), (4,)], said=True).yes
    assert not class_scores(ending(op("softmax")), [(10,)], LABELS, said=False, labelled=True).yes
    assert class_scores(DENSE, [(10,)], said=False) == ClassScores(
        False, "the caller or the bundle says so", settled=True
    )
    assert class_scores(DENSE, [(10,), (4,)], said=False).why == "it has 2 outputs"


@pytest.mark.parametrize("shape", [(10, 4, 4), (1,), ()])
def test_the_user_cannot_make_scores_of_what_is_no_row(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="so the output 'dense' cannot be a row of class scores"):
        class_scores(DENSE, [shape], said=True)
