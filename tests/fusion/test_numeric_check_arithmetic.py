"""What the numeric check allows, and what it says, of networks whose deviation is known in advance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.errors import FusionError, ModelError
from quantkit.fusion.numeric_check import check_fusion, predictions, relative_difference
from quantkit.ir.graph import Graph, Node
from tests.networks import DATA, Builder, images

pytestmark = pytest.mark.usefixtures("engine")


def scaled(factor: float, softmax: str) -> Graph:
    """The softmax of the input times a factor."""
    b = Builder()
    return b.graph(b.op(softmax, "softmax", b.op("_mul_scalar", "scaled", DATA, scalar=factor)))


def test_the_difference_is_the_largest_of_all_outputs_and_batches() -> None:
    first, second = np.array([[1.0, 4.0]], np.float32), np.array([[2.0, -8.0]], np.float32)
    b = Builder()
    plain = b.graph(b.op("_plus_scalar", "a", DATA, scalar=0), b.op("_plus_scalar", "b", DATA, scalar=0))
    b = Builder()
    moved = b.graph(b.op("_plus_scalar", "a", DATA, scalar=0), b.op("_plus_scalar", "b", DATA, scalar=2**-16))
    for batches in ([first, second], [second, first]):
        check = check_fusion(plain, moved, batches, 1)
        # Of the smaller batch's largest value; a change of 2^-20 may be 2^-20, and eight times that be allowed.
        assert check.difference == pytest.approx(2**-16 / 4)
        assert check.allowed == 1e-5
        assert (check.samples, check.changed_predictions) == (2, 0)


def test_what_the_input_amplifies_is_allowed_8_times() -> None:
    """A large offset taken off again: what remains is smaller, so that the input's noise counts more."""
    b = Builder()
    near = b.op("_plus_scalar", "near", DATA, scalar=-1023)
    graph = b.graph(b.op("_mul_scalar", "last", near, scalar=1))
    data = np.full((1, 64), 1024, np.float32)
    noise = 1024 * 2**-20
    assert check_fusion(graph, graph, [data], 1).allowed == pytest.approx(8 * noise)
    for factor, good in ((1 + 7.5 * noise, True), (1 + 8.5 * noise, False), (1 - 8.5 * noise, False)):
        wrong = replace(graph, nodes=(graph.nodes[0], replace(graph.nodes[1], attrs={"scalar": repr(factor)})))
        if good:
            assert check_fusion(graph, wrong, [data], 1).difference == pytest.approx(7.5 * noise, rel=0.01)
            continue
        with pytest.raises(FusionError) as caught:
            check_fusion(graph, wrong, [data, data], 1)
        assert str(caught.value) == (
            "the fused network deviates from the unfused one by 0.0083 of the largest value where rounding explains "
            "0.0078, and changes 0 of 2 predictions; the first wrong tensor is 'last'. Nothing was written; please "
            "report it"
        )


def test_amplification_beyond_a_tenth_is_no_basis_for_a_check() -> None:
    for offset, good in ((12500, True), (13500, False)):
        b = Builder()
        graph = b.graph(b.op("_plus_scalar", "near", DATA, scalar=-offset))
        data = np.full((2, 64), offset + 1, np.float32)
        if good:
            assert check_fusion(graph, graph, [data], 2).allowed == pytest.approx(8 * offset * 2**-20, rel=0.05)
        else:
            with pytest.raises(FusionError) as caught:
                check_fusion(graph, graph, [data], 2)
            assert str(caught.value) == (
                "the network's output changes by 0.013 of its largest value when its input changes by a millionth: it "
                "holds random operators (Dropout with mode='always'?), is about to overflow, or amplifies rounding "
                "beyond use"
            )


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "SoftmaxActivation"])
def test_what_a_softmax_reads_is_compared(op: str) -> None:
    """Changed predictions are counted there, too, from sample to sample and batch to batch."""
    loud = np.array([[300, 1, 0], [0, 400, 1]], np.float32)
    check = check_fusion(scaled(1, op), scaled(1 + 2**-17, op), [loud], 2)
    assert check.difference == pytest.approx(2**-17)
    with pytest.raises(FusionError, match=r"changes 4 of 4 predictions; the first wrong tensor is 'scaled'"):
        check_fusion(scaled(1, op), scaled(-1, op), [loud, loud], 2)
    # An image whose prediction stays, after one whose prediction changes.
    with pytest.raises(FusionError, match=r"changes 2 of 3 predictions"):
        check_fusion(scaled(1, op), scaled(-1, op), [loud, np.zeros((1, 3), np.float32)], 2)


def test_changed_predictions_are_those_of_the_first_output() -> None:
    data = np.array([[2, 1], [1, 1.000001], [5, 6]], np.float32)
    b = Builder()
    twisted = b.op("elemwise_add", "out", DATA, b.param("twist", np.array([[4e-6, -4e-6]])))
    plain = Builder()
    straight = plain.op("elemwise_add", "out", DATA, plain.param("twist", np.zeros((1, 2))))
    graphs = [Graph((replace(each.nodes[0], op="broadcast_add"),), each.inputs, each.outputs, each.params)
              for each in (plain.graph(straight), b.graph(twisted))]  # fmt: skip
    check = check_fusion(graphs[0], graphs[1], [data, data[1:2]], 3)
    assert (check.samples, check.changed_predictions) == (4, 2)


def test_the_first_wrong_tensor_is_the_first_that_both_have() -> None:
    """Names of the fused network alone are passed over; a tensor within rounding is not named."""
    b = Builder()
    first = b.op("_mul_scalar", "first", DATA, scalar=1)
    second = b.op("_mul_scalar", "second", first, scalar=1)
    graph = b.graph(b.op("_mul_scalar", "third", second, scalar=1))
    extra = Node("extra", "_mul_scalar", (DATA,), {"scalar": "1"})
    fine = Node("first", "_mul_scalar", (extra.output,), {"scalar": repr(1 + 2**-18)})
    wrong = Node("second", "_mul_scalar", (fine.output,), {"scalar": "1.5"})
    with pytest.raises(FusionError, match="the first wrong tensor is 'second'"):
        check_fusion(graph, replace(graph, nodes=(extra, fine, wrong, graph.nodes[2])), [images()], 4)
    # Where all that both have is right, what is left is the output.
    renamed = [replace(each, name=f"other_{each.name}", inputs=(each.inputs[0],)) for each in (fine,)]
    last = Node("third", "_mul_scalar", (renamed[0].output,), {"scalar": "2"})
    with pytest.raises(FusionError, match="the first wrong tensor is 'third'"):
        check_fusion(graph, replace(graph, nodes=(extra, *renamed, last)), [images()], 4)


def test_the_first_wrong_tensor_is_that_of_the_batch_that_shows_it() -> None:
    """Of a layer that is wrong for negative values alone, the second batch has some."""
    b = Builder()
    layer = b.op("Activation", "layer", DATA, act_type="relu")
    graph = b.graph(b.op("_plus_scalar", "last", layer, scalar=1))
    wrong = replace(graph, nodes=(Node("layer", "abs", (DATA,)), graph.nodes[1]))
    batches = [np.full((2, 3), each, np.float32) for each in (1, -3, -2, 1)]
    with pytest.raises(FusionError, match=r"by 3 of the largest .* the first wrong tensor is 'layer'"):
        check_fusion(graph, wrong, batches, 2)


def test_noise_comes_with_both_signs_and_is_the_same_each_time() -> None:
    """A difference of large values shows what happens to each of them; their common part takes itself off."""
    b = Builder()
    weight = b.param("w", np.where(np.arange(64) % 2, -1, 1)[None])
    graph = b.graph(b.op("FullyConnected", "last", DATA, weight, num_hidden=1, no_bias=True))
    data = np.where(np.arange(64) % 2, 99, 100)[None].astype(np.float32)
    first, second = (check_fusion(graph, graph, [data], 1).allowed for _ in range(2))
    assert first == second
    assert first > 2 * 8 * 2**-20


def test_differences_are_relative_to_the_largest_value_of_what_is_expected() -> None:
    assert relative_difference(np.array([1.0, -4.0]), np.array([2.0, -3.5])) == 0.25
    assert relative_difference(np.array([0.0, 0.0]), np.array([0.5, 0.0])) == 0.5
    for broken in (np.nan, np.inf, -np.inf):
        assert relative_difference(np.array([1.0, 2.0]), np.array([1.0, broken])) == np.inf


def test_other_shapes_are_other_results() -> None:
    b = Builder()
    graph = b.graph(b.op("_copy", "copied", DATA))
    flat = replace(graph, nodes=(Node("copied", "Flatten", (DATA,)),))
    assert relative_difference(np.ones((2, 3)), np.ones((1, 3))) == np.inf
    with pytest.raises(FusionError, match=r"deviates from the unfused one by inf .* 4 of 4 predictions.*'copied'"):
        check_fusion(graph, flat, [images()], 4)


def test_only_the_sample_that_overflows_is_named_with_its_first_operator() -> None:
    """Of several batches, in an output of several axes; where others of the batch overflow elsewhere."""
    b = Builder()
    roots = b.op("sqrt", "roots", DATA)
    last = b.op("exp", "last", roots)
    graph = b.graph(roots, last)
    data = np.ones((6, 2, 2), np.float32)
    data[4, 1, 1], data[5, 0, 0] = 1e6, -1.0
    batches = [data[:3], data[3:]]
    for names, called in (("abcdef", "e"), ("", "sample 4")):
        only = graph.with_outputs([last])
        with pytest.raises(ModelError) as caught:
            check_fusion(only, only, batches, 3, names)
        assert str(caught.value) == (
            "the network as given, before any fusion, computes NaN or infinite values for "
            f"{called} in 'last'; the first operator whose result is not finite is 'last' (exp). Give input of the "
            "range that the network was trained for, or end the network before that operator"
        )
    with pytest.raises(ModelError, match=r"for sample 5 in 'roots'; .* is 'roots' \(sqrt\)"):
        check_fusion(graph, graph, batches, 3)


def test_predictions_are_of_whole_samples() -> None:
    assert predictions(np.array([[[0, 1], [7, 2]], [[3, 1], [0, 2]]])).tolist() == [2, 0]
