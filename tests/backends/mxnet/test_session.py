"""MXNet's sessions: to which batches they are bound."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import MxnetSession, run
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Node, Tensor
from tests.networks import images, residual_v1

pytestmark = pytest.mark.usefixtures("engine")

ONE, OTHER = Tensor("one"), Tensor("other")


def of_two(op: str) -> Graph:
    return Graph((Node("result", op, (ONE, OTHER)),), ("one", "other"), (Tensor("result"),), {})


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9])
def test_each_image_has_the_output_that_it_has_alone(count: int) -> None:
    graph, data = residual_v1(), images(count)
    alone = np.concatenate([run(graph, {"data": one[None]})[0] for one in data])
    (found,) = MxnetSession(graph, {"data": (1, *data.shape[1:])}).run({"data": data})
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("first", "counts", "bound"), [(1, (3, 4, 3, 5, 8, 1), [1, 4, 8]), (6, (6, 1, 5, 7), [6, 8])])
def test_batches_up_to_the_first_share_its_binding_and_larger_ones_that_of_a_power_of_two(
    first: int, counts: tuple[int, ...], bound: list[int]
) -> None:
    session = MxnetSession(residual_v1(), {"data": (first, 3, 16, 16)})
    for count in counts:
        assert len(session.run({"data": images(count)})[0]) == count
    assert [shape[0] for (shape,), _ in session._bound] == bound


def test_without_shapes_the_first_run_decides() -> None:
    session = MxnetSession(residual_v1())
    session.run({"data": images(3)})
    session.run({"data": images(2)})
    assert list(session._bound) == [(((3, 3, 16, 16),), ("float32",))]


def test_several_inputs_take_their_images_together() -> None:
    session = MxnetSession(of_two("elemwise_add"), {"one": (4, 2), "other": (4, 2)})
    one, other = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(session.run({"one": one, "other": other})[0], one + other)


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [((3, 2), (2, 2), "other"), ((3, 1), (3, 2), "one"), ((0, 2), (0, 2), "one"), ((), (3, 2), "one")],
)
def test_what_is_no_batch_of_the_first_shapes_is_refused(
    one: tuple[int, ...], other: tuple[int, ...], name: str
) -> None:
    session = MxnetSession(of_two("elemwise_add"), {"one": (4, 2), "other": (4, 2)})
    with pytest.raises(EngineError, match=f"input '{name}' has shape .*, bound to"):
        session.run({"one": np.zeros(one, np.float32), "other": np.zeros(other, np.float32)})


def test_inputs_that_do_not_begin_with_the_batch_keep_their_shapes() -> None:
    session = MxnetSession(of_two("dot"), {"one": (4, 2), "other": (2, 3)})
    assert session.run({"one": np.ones((4, 2)), "other": np.ones((2, 3))})[0].shape == (4, 3)
    with pytest.raises(EngineError, match="input 'other' has shape"):
        session.run({"one": np.ones((2, 2)), "other": np.ones((2, 3))})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64, np.int64])
def test_other_types_become_float32_where_the_values_are_read(dtype: type) -> None:
    session = MxnetSession(of_two("elemwise_add"))
    one, other = np.arange(6, dtype=dtype).reshape(3, 2), np.full((3, 2), 0.5, np.float32)
    np.testing.assert_array_equal(session.run({"one": one, "other": other})[0], np.arange(6).reshape(3, 2) + 0.5)


def test_what_is_only_quantized_may_be_integers() -> None:
    attrs = {"out_type": "int8", "min_calib_range": "-1.0", "max_calib_range": "1.0"}
    graph = Graph((Node("q", "_contrib_quantize_v2", (ONE,), attrs),), ("one",), (Tensor("q"),), {})
    session = MxnetSession(graph, {"one": (1, 4)})
    integers = np.arange(-4, 4, dtype=np.int8).reshape(2, 4)
    np.testing.assert_array_equal(session.run({"one": integers})[0], integers)
    np.testing.assert_array_equal(session.run({"one": integers[:1]})[0], integers[:1])
    np.testing.assert_array_equal(session.run({"one": np.full((2, 4), 0.5, np.float32)})[0], np.full((2, 4), 64))
